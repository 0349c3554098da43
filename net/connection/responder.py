"""Creates the `ReceivedRequest`s of one peer, and encodes responses that no handler makes."""

from __future__ import annotations

import logging
from typing import Any

from pk.core.api.records.produce_fast_path.answers import FailedProduce
from pk.core.api.registry import Api
from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.header import RequestHead, frame_response
from pk.core.wire.messages.api_versions import ApiVersionsResponse
from pk.core.wire.types import Part
from pk.net.connection.request import ReceivedRequest
from pk.net.connection.throttle import PRODUCE

logger = logging.getLogger("pk.server")

API_VERSIONS = 18


class Responder:
    """Creates and answers the requests of one peer."""

    __slots__ = ("_metrics", "_peer", "apis")

    def __init__(self, peer: str, apis: dict[int, Api], metrics: BrokerMetrics) -> None:
        self.apis = apis
        """The served APIs by key."""
        self._peer = peer
        self._metrics = metrics

    def received(
        self, api: Api, head: RequestHead, message: Any, received_at: float = 0.0
    ) -> ReceivedRequest:
        """Return a new request of the peer."""
        return ReceivedRequest(
            api, head, message, peer=self._peer, metrics=self._metrics, received_at=received_at
        )

    def unknown_versions(self, context: Context, head: RequestHead, api: Api) -> list[Part]:
        """Return the answer to an unknown version of ApiVersions, which has the supported
        versions."""
        answer = api.handle(
            context.of_request(API_VERSIONS, 0, head.correlation_id, head.client_id), None
        )
        assert isinstance(answer, ApiVersionsResponse)
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return frame_response(answer, API_VERSIONS, 0, head.correlation_id)

    def failed_produce(self, failed: FailedProduce) -> list[Part]:
        """Return the answer to a Produce request that the fast path could not process."""
        accepted = failed.request
        request = self.received(self.apis[PRODUCE], accepted.head, accepted.message())
        return request.frame(request.failed(failed.error))
