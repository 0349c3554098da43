"""The connection to the controller: found, lost, moved, slow; which requests are sent again and
which are not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import trio
import trio.testing

from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.controller.client_identity import host_of, principal_of
from pk.core.broker.controller.controller_client import (
    AnswerLocally,
    Client,
    ControllerClient,
    Forwarded,
    OutcomeUnknown,
    has_error,
)
from pk.core.broker.peers import PeerLost
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import Endpoint
from pk.core.values import NO_OFFSET
from pk.core.wire.codec import decode_whole, join
from pk.core.wire.header import frame_response, parse_request_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pk.core.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pk.core.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

Answer = Callable[[Any], Awaitable[Any]]


class Controllers:
    """The id of the controller, and the answers of each host's controller. A host without a
    controller refuses."""

    def __init__(self) -> None:
        self.at: str | None = "a"
        self.hosts: dict[str, Answer] = {}
        self.asked: list[tuple[str, Any]] = []
        self.connected: list[str] = []

    async def find(self) -> tuple[int, Endpoint] | None:
        await trio.lowlevel.checkpoint()
        return None if self.at is None else (ord(self.at), Endpoint("CONTROLLER", self.at, 1, 0))

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> Any:
        await trio.sleep(0.001)
        if host not in self.hosts:
            raise PeerLost("connection refused", refused=True)
        self.connected.append(host)
        return Line(self, host)


class Line:
    def __init__(self, controllers: Controllers, host: str) -> None:
        self._controllers, self._host = controllers, host
        self._scopes: set[trio.CancelScope] = set()
        self._in_order = trio.Lock()
        self.usable = True

    async def request(self, request: Any, *, timeout_ms: float, version: int | None = None) -> Any:
        self._controllers.asked.append((self._host, request))
        with trio.move_on_after(timeout_ms / 1000) as scope:
            self._scopes.add(scope)
            await trio.sleep(0.001)
            if self._host in self._controllers.hosts and self.usable:
                async with self._in_order:
                    return await self._controllers.hosts[self._host](request)
        self.usable = False
        raise PeerLost("the connection broke")

    def close(self) -> None:
        self.usable = False
        for scope in self._scopes:
            scope.cancel()


class Own:
    """The controller of the node's own process."""

    def __init__(self) -> None:
        self.controller_id = 1
        self.active = False


class Here:
    """A client of a node with or without a controller of its own."""

    def __init__(self) -> None:
        self.controllers = Controllers()
        self.here: list[tuple[Client | None, Any]] = []
        self.own = Own()
        self.client = self.client_with(self._answer)

    def client_with(self, answer: AnswerLocally) -> ControllerClient:
        """A client whose controller in this process, if it is active, gives this answer."""
        return ControllerClient(
            self.controllers,
            self.controllers,
            controller=self.own,
            answer_locally=answer,
            request_bytes_max=100_000,
        )

    async def _answer(self, client: Client | None, request: Any) -> Forwarded:
        self.here.append((client, request))
        return Forwarded(AllocateProducerIdsResponse(producer_id_start=7))

    async def ask(self, timeout_ms: float = 5_000) -> Any:
        return await self.client.request(AllocateProducerIdsRequest(), timeout_ms=timeout_ms)

    async def forward(self, topics: int = 1, timeout_ms: float = 5_000) -> Forwarded:
        nobody: Any = None
        context = Context(
            nobody,
            api_key=19,
            api_version=5,
            client_id="c",
            client_host="/10.0.0.1",
            principal=KafkaPrincipal("User", "alice"),
        )
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=topics * [topic])
        return await self.client.forward(context, request, timeout_ms=timeout_ms)


async def gives_ids(request: Any) -> Any:
    return AllocateProducerIdsResponse(producer_id_start=1000)


async def is_nobody(request: Any) -> Any:
    if isinstance(request, EnvelopeRequest):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


async def dies(request: Any) -> Any:
    raise PeerLost("the connection broke")


def opens(code: int = 0, **fields: Any) -> Answer:
    """Answers the requests in envelopes, each topic with the same error. `fields` are set in the
    envelope."""

    async def answer(envelope: Any) -> Any:
        head = parse_request_header(envelope.request_data)
        request: Any = decode_whole(
            MESSAGES[19].request, envelope.request_data, head.api_version, head.body_position
        )
        results = [
            CreatableTopicResult(name=t.name, error_code=code, configs=[]) for t in request.topics
        ]
        response = CreateTopicsResponse(topics=results)
        frame = frame_response(response, 19, head.api_version, head.correlation_id)
        return EnvelopeResponse(response_data=join(frame)[4:], **fields)

    return answer


def run(main: Callable[[Here], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        await main(Here())

    trio.run(begin, clock=trio.testing.MockClock(autojump_threshold=0))


def test_one_connection_serves_many_requests() -> None:
    async def main(here: Here) -> None:
        here.controllers.hosts["a"] = gives_ids
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(here.ask)
        assert (await here.ask()).producer_id_start == 1000
        assert here.controllers.connected == ["a"] and len(here.controllers.asked) == 11

    run(main)


def test_a_heartbeat_does_not_wait_behind_other_requests() -> None:
    async def main(here: Here) -> None:
        async def is_slow_with_ids(request: Any) -> Any:
            if isinstance(request, BrokerHeartbeatRequest):
                return BrokerHeartbeatResponse()
            await trio.sleep(3)
            return await gives_ids(request)

        here.controllers.hosts["a"] = is_slow_with_ids
        async with trio.open_nursery() as nursery:
            nursery.start_soon(here.ask)
            await trio.sleep(1)
            await here.client.request(BrokerHeartbeatRequest(), timeout_ms=500)
        assert here.controllers.connected == ["a", "a"]

    run(main)


def test_the_controller_in_this_process_needs_no_connection() -> None:
    async def main(here: Here) -> None:
        here.controllers.hosts["a"] = gives_ids
        here.own.active = True
        assert (await here.ask()).producer_id_start == 7
        ((client, request),) = here.here
        assert client is None and request.API_KEY == 67 and not here.controllers.connected
        here.own.active = False
        assert (await here.ask()).producer_id_start == 1000

    run(main)


def test_nobody_is_asked_while_this_node_is_taking_over() -> None:
    async def main(here: Here) -> None:
        here.own.controller_id = ord("a")
        here.controllers.hosts["a"] = is_nobody

        async def take() -> None:
            await trio.sleep(1)
            here.own.active = True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            assert (await here.ask()).producer_id_start == 7
        assert trio.current_time() < 1.3 and not here.controllers.connected

    run(main)


@pytest.mark.parametrize("first", [None, is_nobody, dies])
def test_a_nodes_own_request_goes_on_until_the_next_controller_answers(
    first: Answer | None,
) -> None:
    async def main(here: Here) -> None:
        if first is not None:
            here.controllers.hosts["a"] = first

        async def move() -> None:
            await trio.sleep(1)
            here.controllers.at = None
            await trio.sleep(1)
            here.controllers.at, here.controllers.hosts["b"] = "b", gives_ids

        async with trio.open_nursery() as nursery:
            nursery.start_soon(move)
            assert (await here.ask()).producer_id_start == 1000
        assert 2 < trio.current_time() < 2.3
        assert len(here.controllers.connected) < 60, "it does not spin"

    run(main)


def test_a_controller_that_says_nothing_is_left_when_another_is_named() -> None:
    async def main(here: Here) -> None:
        async def hangs(request: Any) -> Any:
            await trio.sleep_forever()

        here.controllers.hosts |= {"a": hangs, "b": gives_ids}

        async def move() -> None:
            await trio.sleep(1)
            here.controllers.at = "b"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(move)
            assert (await here.ask(60_000)).producer_id_start == 1000
        assert trio.current_time() < 2
        here.controllers.at = "a"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(move)
            with pytest.raises(OutcomeUnknown):
                await here.forward(timeout_ms=60_000)

    run(main)


def test_a_request_that_went_down_with_its_controller_is_sent_to_the_same_place_again() -> None:
    """Its machine lost its power and came back: no connection breaks, and no other node is named.
    The simulator found a registration that waited so until it gave up."""

    async def main(here: Here) -> None:
        async def hangs_once(request: Any) -> Any:
            here.controllers.hosts["a"] = gives_ids
            await trio.sleep_forever()

        here.controllers.hosts["a"] = hangs_once
        assert (await here.ask(60_000)).producer_id_start == 1000
        assert trio.current_time() < 6

    run(main)


def test_a_nodes_own_request_survives_its_own_controllers_fall() -> None:
    """Its append failed, with unknown outcome: the next controller is asked."""

    async def main(here: Here) -> None:
        async def falls(client: Client | None, request: Any) -> Any:
            here.own.active = False
            raise OutcomeUnknown("the store is gone")

        here.own.active = True
        here.client = here.client_with(falls)
        here.controllers.hosts["a"] = gives_ids
        assert (await here.ask()).producer_id_start == 1000

    run(main)


def test_the_time_runs_out_with_the_reason() -> None:
    async def main(here: Here) -> None:
        for at, reason in (("a", "refused"), (None, "there is no active controller")):
            here.controllers.at = at
            started = trio.current_time()
            with pytest.raises(KafkaError, match=reason) as caught:
                await here.ask(3_000)
            assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
            assert not isinstance(caught.value, OutcomeUnknown)
            assert trio.current_time() - started == pytest.approx(3)

    run(main)


def test_a_clients_request_travels_with_its_principal() -> None:
    async def main(here: Here) -> None:
        here.controllers.hosts["a"] = opens(ErrorCode.POLICY_VIOLATION)
        answer = await here.forward()
        assert [(t.name, t.error_code) for t in answer.response.topics] == [("t", 44)]
        envelope = here.controllers.asked[0][1]
        assert principal_of(envelope.request_principal) == KafkaPrincipal("User", "alice")
        assert host_of(envelope.client_host_address) == "/10.0.0.1"
        head = parse_request_header(envelope.request_data)
        assert (head.api_key, head.api_version, head.client_id) == (19, 5, "c")

    run(main)


def test_an_answer_says_which_image_shows_it_unless_its_controller_is_older() -> None:
    async def main(here: Here) -> None:
        here.controllers.hosts["a"] = opens(image_offset=7)
        assert (await here.forward()).image_offset == 7
        here.controllers.hosts["a"] = opens()
        assert (await here.forward()).image_offset == NO_OFFSET

    run(main)


def test_a_clients_request_is_sent_again_only_where_nothing_happened() -> None:
    async def main(here: Here) -> None:
        here.controllers.hosts["a"] = is_nobody

        async def move() -> None:
            await trio.sleep(1)
            here.controllers.at, here.controllers.hosts["b"] = "b", opens()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(move)
            assert (await here.forward()).response.topics[0].error_code == 0
        asked = len(here.controllers.asked)
        for answer in (dies, opens(ErrorCode.REQUEST_TIMED_OUT)):
            here.controllers.hosts["b"] = answer
            with pytest.raises(OutcomeUnknown):
                await here.forward()
            asked += 1
            assert len(here.controllers.asked) == asked, "once"
        here.controllers.hosts["b"] = opens()
        assert (await here.forward()).response.topics[0].error_code == 0

    run(main)


def test_what_the_envelope_meets_is_told() -> None:
    async def main(here: Here) -> None:
        async def refuses(request: Any) -> Any:
            return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

        here.controllers.hosts["a"] = refuses
        with pytest.raises(KafkaError) as caught:
            await here.forward()
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(KafkaError) as caught:
            await here.forward(topics=20_000)
        assert caught.value.code == ErrorCode.INVALID_REQUEST
        assert len(here.controllers.asked) == 1, "what is too large is not sent"

    run(main)


def test_a_link_that_is_closed_ends_what_is_under_way() -> None:
    async def main(here: Here) -> None:
        async def hangs(request: Any) -> Any:
            await trio.sleep_forever()

        here.controllers.hosts["a"] = hangs
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(OutcomeUnknown):
                    await here.forward()

            nursery.start_soon(ask)
            await trio.sleep(0.1)
            here.client.close()
        assert trio.current_time() < 0.5

    run(main)


def test_errors_are_found_where_responses_have_them() -> None:
    refused = CreateTopicsResponse(topics=[CreatableTopicResult(error_code=41)])
    assert has_error(refused, ErrorCode.NOT_CONTROLLER)
    assert not has_error(refused, ErrorCode.REQUEST_TIMED_OUT)
    assert has_error(AllocateProducerIdsResponse(error_code=7), ErrorCode.REQUEST_TIMED_OUT)
    assert not has_error(CreateTopicsResponse(), ErrorCode.NOT_CONTROLLER)
