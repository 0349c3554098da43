"""A node's channel to another, for callers that do not wait: a callback gets the answer or the
loss, once, and a request that the peer does not serve raises an error at once."""

from typing import Any

import pytest
import trio
import trio.testing
from net_client.support import scripted_broker, trio_test

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.net.peers import NetPeers


@trio_test
async def test_who_does_not_wait_is_called_with_the_answer_or_the_loss() -> None:
    async def answer(request: Any, version: int) -> HeartbeatResponse | None:
        if request.generation_id == 3:
            await trio.sleep_forever()
        return HeartbeatResponse(error_code=request.generation_id)

    async with scripted_broker(answer) as broker, trio.open_nursery() as nursery:
        peers = NetPeers(nursery, client_id="test")
        channel = await peers.connect(broker.node.host, broker.node.port, timeout_ms=60_000)
        told: list[Any] = []
        twice = trio.Event()

        def then(response: Any, error: Exception | None) -> None:
            told.append(response.error_code if error is None else error)
            if len(told) == 2:
                twice.set()

        for number in (1, 2, 3):
            channel.send(HeartbeatRequest(generation_id=number), timeout_ms=60_000, then=then)
        await twice.wait()
        assert told == [1, 2]
        channel.close()
        assert len(told) == 3 and isinstance(told[2], PeerLost)
        with pytest.raises(PeerLost):
            channel.send(HeartbeatRequest(), timeout_ms=60_000, then=then)
        assert len(told) == 3


@trio_test
async def test_what_the_peer_does_not_serve_is_refused_at_once() -> None:
    async def answer(request: Any, version: int) -> HeartbeatResponse:
        return HeartbeatResponse()

    versions = {key: MESSAGES[key].versions for key in (18, HeartbeatRequest.API_KEY)}
    async with scripted_broker(answer, versions) as broker, trio.open_nursery() as nursery:
        peers = NetPeers(nursery, client_id="test")
        channel = await peers.connect(broker.node.host, broker.node.port, timeout_ms=60_000)
        request = InitProducerIdRequest()
        with pytest.raises(KafkaError) as refused:
            channel.send(request, timeout_ms=60_000, then=lambda *_: None)
        assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
        channel.close()
