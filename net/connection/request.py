"""A received request: its message, arrival time, cost and answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Final

from pk.core.api.registry import Api
from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.broker.loop_time import let_others_run, reset_budget
from pk.core.errors import ErrorCode, KafkaError, ProtocolError, TooManyElements
from pk.core.wire.header import RequestHead, frame_response, frame_response_in_steps
from pk.core.wire.types import EncodeError, Part
from pk.net.connection.request_cost import RequestCost

logger = logging.getLogger("pk.server")

ENCODED_AT_ONCE: Final = 2000
"""The most elements of a response that is encoded in one step. Larger responses are encoded in
several: a million small elements take a second."""


class ReceivedRequest:
    """One request, from its frame to its answer."""

    __slots__ = ("_metrics", "_peer", "api", "cost", "head", "message", "received_at")

    def __init__(
        self,
        api: Api,
        head: RequestHead,
        message: Any,
        *,
        peer: str,
        metrics: BrokerMetrics,
        received_at: float = 0.0,
    ) -> None:
        """Initialize the request. `received_at` is by perf_counter."""
        self.api = api
        self.head = head
        self.message = message
        self.received_at = received_at
        self.cost: RequestCost | None = None
        """The cost to charge its client with the answer; None if the client has no quota, or the
        cost is charged already."""
        self._peer = peer
        self._metrics = metrics

    async def outcome(self, work: Awaitable[Any]) -> Any:
        """Return the result of `work`, or the error response if it failed."""
        reset_budget()
        try:
            return await (work if self.cost is None else self.cost.measured(work))
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            return self.failed(e)

    def failed(self, error: Exception) -> Any:
        """Return the error response for `error`. An internal error is logged with its traceback.
        Reraises a ProtocolError."""
        if isinstance(error, ProtocolError):
            raise error
        key, version = self.head.api_key, self.head.api_version
        if not isinstance(error, KafkaError):
            logger.error("%s: api %d version %d failed", self._peer, key, version, exc_info=error)
            error.__traceback__ = None  # already logged; its frames hold the objects they worked on
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._metrics.request(key).failed(error.code)
        return self.api.error_response(self.message, error, version)

    def frame(self, response: Any) -> list[Part]:
        """Return the encoded `response`. A response that cannot be encoded (a string of more than
        32,767 bytes) is replaced with an internal error, and the connection stays open. Raises
        TooManyElements if the response needs `frame_in_steps`.
        """
        key, version, id_ = self.head.api_key, self.head.api_version, self.head.correlation_id
        try:
            return frame_response(response, key, version, id_, ENCODED_AT_ONCE)
        except EncodeError as e:
            return frame_response(self.failed(e), key, version, id_, ENCODED_AT_ONCE)

    async def frame_in_steps(self, response: Any) -> list[Part]:
        """Like `frame`, for responses of any size."""
        try:
            return self.frame(response)
        except TooManyElements:
            pass
        key, version, id_ = self.head.api_key, self.head.api_version, self.head.correlation_id
        try:
            return await frame_response_in_steps(response, key, version, id_, let_others_run)
        except EncodeError as e:
            return await frame_response_in_steps(self.failed(e), key, version, id_, let_others_run)
