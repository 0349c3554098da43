"""Answers as bytes: responses, and what says that a request failed."""

from __future__ import annotations

import logging
from typing import Any, Final

from pk.core.api.records.produce_fast_path.answers import FailedProduce
from pk.core.api.registry import Api
from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError, ProtocolError, TooManyElements
from pk.core.wire.header import RequestHead, frame_response, frame_response_in_steps
from pk.core.wire.messages.api_versions import ApiVersionsResponse
from pk.core.wire.types import EncodeError, Part

logger = logging.getLogger("pk.server")

PRODUCE = 0
API_VERSIONS = 18

ENCODED_AT_ONCE: Final = 2000
"""A response with more elements is encoded in steps: a million small ones take a second."""


class Framing:
    """Frames what is answered to one peer."""

    __slots__ = ("_metrics", "_peer", "apis")

    def __init__(self, peer: str, apis: dict[int, Api], metrics: BrokerMetrics) -> None:
        self.apis = apis
        """Those that are served, by their keys."""
        self._peer = peer
        self._metrics = metrics

    def failure(self, api: Api, head: RequestHead, request: Any, error: Exception) -> Any:
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
        return api.error_response(request, error, head.api_version)

    def frame(self, api: Api, head: RequestHead, request: Any, response: Any) -> list[Part]:
        """`response` as it is sent. One that cannot be written (a string beyond 32,767 bytes) is
        answered as a fault of ours, and the connection lives.

        Raises TooManyElements for one that `frame_in_steps` is for.
        """
        key, version, id_ = head.api_key, head.api_version, head.correlation_id
        try:
            return frame_response(response, key, version, id_, ENCODED_AT_ONCE)
        except EncodeError as e:
            failed = self.failure(api, head, request, e)
            return frame_response(failed, key, version, id_, ENCODED_AT_ONCE)

    async def frame_in_steps(
        self, api: Api, head: RequestHead, request: Any, response: Any
    ) -> list[Part]:
        """As `frame`, of a response of any size."""
        try:
            return self.frame(api, head, request, response)
        except TooManyElements:
            pass
        key, version, id_ = head.api_key, head.api_version, head.correlation_id
        try:
            return await frame_response_in_steps(response, key, version, id_, let_others_run)
        except EncodeError as e:
            failed = self.failure(api, head, request, e)
            return await frame_response_in_steps(failed, key, version, id_, let_others_run)

    def unknown_versions(self, context: Context, head: RequestHead, api: Api) -> list[Part]:
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
