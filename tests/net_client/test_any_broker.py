"""If any broker can answer, one that hangs, or is not a broker, does not delay a caller while
another answers."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from net_client.support import ScriptedBroker, scripted_broker, trio_test

from pk.core.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pk.core.wire.messages.describe_quorum import DescribeQuorumRequest
from pk.core.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pk.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from pk.net.client import cluster as cluster_module
from pk.net.client.admin import Admin, open_admin
from pk.net.client.admin_operations import base
from pk.net.client.cluster import Cluster, open_cluster
from pk.net.client.config import AdminConfig, parse
from pk.net.client.errors import (
    ConnectFailed,
    ControllerSilent,
    NoBrokers,
    RequestTimedOut,
    Unanswered,
)
from pk.net.client.results import (
    ConfigChange,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

CONFIG = parse(AdminConfig, {})


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second is long here."""
    monkeypatch.setattr(cluster_module, "_SLOW_S", 0.1)


async def never(request: Any, version: int) -> Any:
    await trio.sleep_forever()


def names(cluster_id: str, brokers: list[ScriptedBroker]) -> Any:
    """A handler that answers Metadata with these brokers, numbered from 1."""

    async def handler(request: Any, version: int) -> MetadataResponse:
        nodes = [
            MetadataResponseBroker(node_id=i, host="127.0.0.1", port=b.port)
            for i, b in enumerate(brokers, 1)
        ]
        return MetadataResponse(cluster_id=cluster_id, brokers=nodes)

    return handler


def passes_on(broker: ScriptedBroker, asked: trio.Event) -> Any:
    """A handler that answers Metadata, naming itself the controller, and nothing else; `asked` is
    set when that comes."""

    async def handler(request: Any, version: int) -> Any:
        if not isinstance(request, MetadataRequest):
            asked.set()
            await trio.sleep_forever()
        answer = await names("alive", [broker])(request, version)
        answer.controller_id = 1
        return answer

    return handler


async def refreshed(cluster: Cluster) -> str | None:
    with trio.fail_after(60):
        await cluster.refresh(())
    return cluster.metadata.cluster_id


@trio_test
async def test_an_address_that_takes_connections_and_says_nothing_is_not_waited_for() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    silent = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    async with (
        scripted_broker(names("alive", [])) as broker,
        open_cluster(f"{silent},{broker.address}", CONFIG) as cluster,
    ):
        assert await refreshed(cluster) == "alive"
    await listeners[0].aclose()


@trio_test
async def test_an_address_of_a_controller_is_passed_over() -> None:
    async with scripted_broker(never, {18: (0, 4)}) as controller:
        async with scripted_broker(names("found", [])) as broker:
            both = f"{controller.address},{broker.address}"
            async with open_cluster(both, CONFIG) as cluster:
                assert await refreshed(cluster) == "found"
        async with open_cluster(controller.address, CONFIG) as cluster:
            # At once: no waiting makes a broker of it.
            with pytest.raises(NoBrokers, match="a controller listens there"), trio.fail_after(60):
                await cluster.topic("t", timeout_ms=300_000)


@trio_test
async def test_a_bootstrap_address_that_is_dead_is_not_one_that_is_only_advertised() -> None:
    async with scripted_broker(never) as dead:
        pass
    async with scripted_broker(names("one", [dead])) as broker:
        both = f"{dead.address},{broker.address}"
        for given, node_id in ((both, -1), (broker.address, 1)):
            async with open_cluster(given, CONFIG) as cluster:
                assert await refreshed(cluster) == "one"
                with pytest.raises(ConnectFailed) as failed, trio.fail_after(60):
                    await cluster.connection(1)
                assert (failed.value.address, failed.value.node_id) == (dead.address, node_id)


@trio_test
async def test_what_a_broker_that_stopped_leaves_open_another_is_asked() -> None:
    async with scripted_broker(never) as first, scripted_broker(never) as second:
        brokers = [first, second]
        first.handler = second.handler = names("one", brokers)
        async with open_cluster(first.address, CONFIG) as cluster:
            assert await refreshed(cluster) == "one"
            first.handler, second.handler = never, names("two", brokers)
            assert await refreshed(cluster) == "two"
            asked = len(first.requests)
            # The first still owes an answer, so that the next request does not go there at all.
            assert await refreshed(cluster) == "two"
            assert len(first.requests) == asked


@trio_test
async def test_a_broker_that_is_merely_slow_is_waited_for() -> None:
    async with scripted_broker(never) as broker:
        answer = names("slow", [broker])

        async def slowly(request: Any, version: int) -> Any:
            await trio.sleep(0.3)
            return await answer(request, version)

        broker.handler = slowly
        async with open_cluster(broker.address, CONFIG) as cluster:
            assert await refreshed(cluster) == "slow"
        assert len(broker.requests) == 1


@trio_test
async def test_who_is_given_up_does_not_hold_up_what_is_asked_of_the_same_broker_next() -> None:
    """A broker that forwards to a controller that hangs answers nothing behind that, on the same
    connection."""

    asked = trio.Event()

    async def handler(request: Any, version: int) -> Any:
        if isinstance(request, DescribeQuorumRequest):
            asked.set()
            await trio.sleep_forever()
        return await names("alive", [])(request, version)

    async with (
        scripted_broker(handler) as broker,
        open_cluster(broker.address, CONFIG) as cluster,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.request, DescribeQuorumRequest())
            await asked.wait()
            await trio.sleep(0.15)  # long, here
            nursery.cancel_scope.cancel()
        assert await refreshed(cluster) == "alive"
        assert broker.connections == 2


@pytest.mark.parametrize("ask", [Admin.describe_quorum, Admin.list_reassignments])
@trio_test
async def test_what_a_controller_that_hangs_knows_is_not_waited_for_and_holds_up_nothing_else(
    ask: Callable[[Admin], Awaitable[Any]],
) -> None:
    asked = trio.Event()
    async with (
        scripted_broker(never) as broker,
        open_admin(broker.address, {"pk.straggler.timeout.ms": 1500}) as admin,
        trio.open_nursery() as nursery,
    ):
        broker.handler = passes_on(broker, asked)
        # A broker that answers must be found before half of that time is over.
        assert await refreshed(admin.cluster) == "alive"

        async def meanwhile() -> None:
            await asked.wait()
            assert await refreshed(admin.cluster) == "alive"
            alongside.set()

        alongside = trio.Event()
        nursery.start_soon(meanwhile)
        with trio.fail_after(25), pytest.raises(ControllerSilent, match="asked through .*127"):
            await ask(admin)
        await alongside.wait()
        assert broker.connections == 2


@pytest.mark.parametrize("whole", [False, True])
@trio_test
async def test_a_change_names_the_controller_where_who_passes_it_on_answers(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer anything else either hangs itself."""
    monkeypatch.setattr(base, "_RESPONSE_S", 0.1 if whole else 30)

    async def handler(request: Any, version: int) -> Any:
        if not isinstance(request, MetadataRequest):
            hangs.set()
        if hangs.is_set() and (whole or not isinstance(request, MetadataRequest)):
            await trio.sleep_forever()
        answer = await names("alive", [broker])(request, version)
        answer.controller_id = 1
        return answer

    hangs = trio.Event()
    topic = ConfigResource(ResourceType.TOPIC, "t")
    change = ConfigChange("retention.ms", "1")
    async with (
        scripted_broker(handler) as broker,
        open_admin(broker.address, {"default.api.timeout.ms": 600}) as admin,
    ):
        assert await refreshed(admin.cluster) == "alive"
        with trio.fail_after(60), pytest.raises(RequestTimedOut) as caught:
            await admin.create_topics([NewTopic("t", 1, 1)])
        altered = (await admin.alter_configs({topic: [change]})).errors[topic]
    wanted = Unanswered if whole else ControllerSilent
    assert type(caught.value) is type(altered) is wanted
    assert f"1 at {broker.address}" in str(caught.value)


@trio_test
async def test_a_trial_is_not_waited_for_as_a_change_is() -> None:
    async with (
        scripted_broker(never) as broker,
        open_admin(broker.address, {"pk.straggler.timeout.ms": 1500}) as admin,
    ):
        broker.handler = passes_on(broker, trio.Event())
        assert await refreshed(admin.cluster) == "alive"  # else that is a part of the time
        for trial in (
            lambda: admin.create_topics([NewTopic("t", 1, 1)], validate_only=True),
            lambda: admin.create_partitions({"t": NewPartitions(3)}, validate_only=True),
        ):
            with trio.fail_after(25), pytest.raises(ControllerSilent, match="within 1.5 s"):
                await trial()


@trio_test
async def test_a_controller_that_hangs_is_left_for_who_takes_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that was stopped keeps its connections; once the cluster has put it out, the next
    controller is asked."""
    monkeypatch.setattr(base, "_LISTED_CHECK_S", 0.05)
    put_out, asked = trio.Event(), 0

    async def of_the_first(request: Any, version: int) -> Any:
        nonlocal asked
        if isinstance(request, CreateTopicsRequest):
            asked += 1
            put_out.set()
            await trio.sleep_forever()
        return await cluster_now(request, version)

    async def of_the_second(request: Any, version: int) -> Any:
        if isinstance(request, CreateTopicsRequest):
            return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", num_partitions=1)])
        return await cluster_now(request, version)

    async def cluster_now(request: Any, version: int) -> MetadataResponse:
        there = {2: second} if put_out.is_set() else {1: first, 2: second}
        return MetadataResponse(
            cluster_id="c",
            controller_id=min(there),
            brokers=[
                MetadataResponseBroker(node_id=n, host="127.0.0.1", port=b.port)
                for n, b in there.items()
            ],
        )

    async with (
        scripted_broker(of_the_first) as first,
        scripted_broker(of_the_second) as second,
        open_admin(second.address) as admin,
    ):
        with trio.fail_after(60):
            made = await admin.create_topics([NewTopic("t", 1, 1)])
    assert "t" in made.ok and asked == 1


@trio_test
async def test_a_coordinator_at_a_new_address_is_asked_there() -> None:
    """A broker that came back elsewhere. Metadata may be minutes old where nothing is fetched."""
    at = dict[str, int]()

    async def handler(request: Any, version: int) -> Any:
        if isinstance(request, MetadataRequest):
            node = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=at["before"], rack="r")
            return MetadataResponse(brokers=[node])
        found = Coordinator(key="g", node_id=1, host="127.0.0.1", port=at["now"])
        return FindCoordinatorResponse(coordinators=[found])

    async with (
        scripted_broker(handler) as broker,
        scripted_broker(never) as moved,
        open_cluster(broker.address, CONFIG) as cluster,
    ):
        at["before"] = at["now"] = broker.port
        await cluster.refresh(())
        assert (await cluster.connection(await cluster.coordinator("g"))).node.port == broker.port
        at["now"] = moved.port
        cluster.forget_coordinator("g")
        connection = await cluster.connection(await cluster.coordinator("g"))
        assert (connection.node.port, connection.node.rack) == (moved.port, "r")


@trio_test
async def test_apis_that_pk_does_not_speak_are_named_too() -> None:
    versions = {3: (0, 13), 18: (0, 4), 52: (0, 2), 81: (0, 0), 9_999: (0, 1)}
    async with scripted_broker(never, versions) as one, open_admin(one.address) as admin:
        served = [(api.name, api.used_version) for api in await admin.api_versions()]
    assert served == [
        ("Metadata", 13),
        ("ApiVersions", 4),
        ("Vote", None),
        ("RemoveRaftVoter", None),
        ("API_9999", None),
    ]
