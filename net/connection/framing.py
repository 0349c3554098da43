"""Answers as bytes: responses, and what says that a request failed."""

from __future__ import annotations

import logging
from typing import Any, cast

from pk.core.api.records.produce_fast_path.answers import FailedProduce
from pk.core.api.registry import AnyApi, Large, error_response
from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.broker.offload import offload
from pk.core.broker.pauses import finish
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.wire.header import RequestHead, frame_response, frame_response_in_turns
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsResponse
from pk.core.wire.types import EncodeError, Part

logger = logging.getLogger("pk.server")

PRODUCE = 0
API_VERSIONS = 18


class Framing:
    """Frames what is answered to one peer."""

    __slots__ = ("_metrics", "_peer", "apis")

    def __init__(self, peer: str, apis: dict[int, AnyApi], metrics: BrokerMetrics) -> None:
        self.apis = apis
        """Those that are served, by their keys."""
        self._peer = peer
        self._metrics = metrics

    def failure(self, api: AnyApi, head: RequestHead, request: Any, error: Exception) -> Any:
        """The response that says so; a fault of ours is logged with its traceback."""
        if isinstance(error, ProtocolError):
            raise error
        if not isinstance(error, KafkaError):
            logger.error(
                "%s: api %d version %d failed", self._peer, head.api_key, head.api_version,
                exc_info=error,
            )  # fmt: skip
            error.__traceback__ = None  # it is told; its frames hold what they worked on
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._metrics.request(head.api_key).failed(error.code)
        response_class = MESSAGES[head.api_key].response
        return error_response(api, response_class, request, error, head.api_version)

    def frame(self, api: AnyApi, head: RequestHead, request: Any, response: Any) -> list[Part]:
        """`response` as it is sent. One that cannot be written (a string beyond 32,767 bytes) is
        answered as a fault of ours, and the connection lives."""
        try:
            return frame_response(response, head.api_key, head.api_version, head.correlation_id)
        except EncodeError as e:
            failed = self.failure(api, head, request, e)
            return frame_response(failed, head.api_key, head.api_version, head.correlation_id)

    async def frame_in_turns(
        self, api: AnyApi, head: RequestHead, request: Any, response: Any
    ) -> list[Part]:
        """As `frame`, of a large response."""
        key, version = head.api_key, head.api_version
        try:
            return await finish(
                frame_response_in_turns(response, key, version, head.correlation_id)
            )
        except EncodeError as e:
            failed = await offload(self.failure, api, head, request, e)
            return await finish(frame_response_in_turns(failed, key, version, head.correlation_id))

    def unknown_versions(self, context: Context, head: RequestHead, api: AnyApi) -> list[Part]:
        """The answer to a version of ApiVersions that we do not know: the versions all the same."""
        answer = api.handle(
            context.of_request(API_VERSIONS, 0, head.correlation_id, head.client_id), None
        )
        assert isinstance(answer, ApiVersionsResponse)
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return frame_response(answer, API_VERSIONS, 0, head.correlation_id)

    def failed_produce(self, failed: FailedProduce) -> list[Part]:
        """The answer to a request that the fast path could not carry out."""
        taken = failed.taken
        api, head, request = self.apis[PRODUCE], taken.head, taken.message()
        return self.frame(api, head, request, self.failure(api, head, request, failed.error))


def unwrapped(result: Any) -> Any:
    """A response, or that within a large one."""
    return cast(Large[Any], result).response if isinstance(result, Large) else result
