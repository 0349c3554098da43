"""Error messages: quoted input must not exceed the protocol's limits."""

from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.codec import encode
from pk.core.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


def test_a_message_that_quotes_what_a_client_sent_fits_a_string_of_the_protocol() -> None:
    said = "💾" * 40_000
    error = KafkaError(ErrorCode.INVALID_CONFIG, f"not {said!r}, but something else")
    assert error.message is not None and error.message.startswith("not '💾💾")
    answer = AlterConfigsResourceResponse(error_code=error.code, error_message=error.message)
    encode(IncrementalAlterConfigsResponse(responses=[answer]), 0)
