"""Decides whether a pipeline that failed would fail in the same way if it were restarted.

A failure is lasting if its cause is the file, a record, a table's columns or a permission, because
something must be changed first. Other failures may go away: a broker, a database, a bucket or a
disk may be available again later. Unknown failures are treated as ones that may go away.
"""

import re
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.errors import ConfigError
from pk.spark.errors import DataLost, OptionError, SparkMissing
from pk.spark.pipeline.definition import WrongPipeline

_CODES: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_VERSION,
)

_SAID: Final = re.compile(
    rf"\b(?:{'|'.join(code.name for code in _CODES)})\b"
    # pk's own errors, as they appear in Python's traces.
    r"|\bpk\.spark\.errors\.(?:DataLost|OptionError|SparkMissing|TargetRefused): "
    r"|\bpk\.net\.client\.errors\.ConfigError: "
    # Spark's analyzer refused the query (SQLSTATE 42 and 0A), or the plan differs from the one in
    # its checkpoint.
    r"|SQLSTATE: (?:42|0A)"
    r"|sources in the checkpoint offsets and now there are"
)


def is_lasting(error: BaseException) -> bool:
    """Whether a pipeline that ended with `error` would fail with the same error again."""
    said = getattr(error, "lasting", None)
    if isinstance(said, bool):
        return said
    if isinstance(error, KafkaError):
        return error.code in _CODES
    return isinstance(
        error, WrongPipeline | OptionError | SparkMissing | DataLost | ConfigError
    ) or is_lasting_message(str(error))


def is_lasting_message(failure: str) -> bool:
    """Whether a failure would recur, according to Spark's text for it."""
    return _SAID.search(failure) is not None
