"""How the admin client asks many brokers at once: each broker's answer is independent of the
others."""

from typing import Any, cast

import pytest
import trio
from net_client.support import Handler, scripted_broker, trio_test
from trio.testing import MockClock

from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from pk.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from pk.net.client.admin import open_admin
from pk.net.client.admin_operations.base import AdminBase
from pk.net.client.answers import Answers
from pk.net.client.cluster import Cluster
from pk.net.client.config import AdminConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import BrokerDown, Straggler, Unanswered
from pk.net.client.results import Node

HANGING = 2


class Nodes:
    """The nodes of a cluster by number, as far as asking them goes."""

    async def connection(self, node_id: int, purpose: str = "") -> int:
        return node_id

    def ready_connection(self, node_id: int, purpose: str = "") -> None:
        return None

    def node(self, node_id: int) -> Node:
        return Node(node_id, "b", 9000 + node_id)

    async def retry(self, attempt: Any, **_: Any) -> Any:
        return await attempt()


def admin(**config: Any) -> AdminBase:
    return AdminBase(cast(Cluster, Nodes()), AdminConfig(**config))


async def ask(connection: Connection, items: list[str]) -> Answers[str, Any]:
    if cast(int, connection) == HANGING:
        await trio.sleep_forever()
    return Answers((item, f"from {connection}") for item in items)


def test_a_node_that_hangs_costs_only_what_it_alone_knows() -> None:
    async def route(todo: list[str]) -> Any:
        return {1: ["a"], HANGING: ["b"], 3: ["c"]}, {
            "d": KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        }

    async def main() -> Answers[str, Any]:
        return await admin()._batches(["a", "b", "c", "d"], route, ask)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (answers.ok["a"], answers.ok["c"]) == ("from 1", "from 3")
    assert isinstance(answers.errors["b"], Unanswered)
    assert str(answers.errors["b"]) == "broker 2 at b:9002 did not answer within 60 s"
    assert isinstance(answers.errors["d"], KafkaError)


def test_a_broker_that_is_not_up_is_not_asked_again() -> None:
    rounds = []

    async def route(todo: list[str]) -> Any:
        rounds.append(todo)
        return {}, {"a": BrokerDown()}

    async def main() -> Answers[str, Any]:
        return await admin()._batches(["a"], route, ask)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert isinstance(answers.errors["a"], BrokerDown) and rounds == [["a"]]


def test_brokers_asked_by_id_answer_for_themselves() -> None:
    async def ask_one(connection: Connection) -> str:
        return (await ask(connection, ["x"])).value("x")

    async def main() -> Answers[int, Any]:
        return await admin()._by_broker([1, HANGING, 3], ask_one)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (answers.ok[1], answers.ok[3]) == ("from 1", "from 3")
    error = answers.errors[HANGING]
    assert isinstance(error, Unanswered)
    assert [node.node_id for node in error.nodes] == [HANGING]


def test_a_straggler_is_given_up_once_the_others_have_answered_and_is_not_waited_for_twice() -> (
    None
):
    async def ask_one(connection: Connection) -> str:
        return (await ask(connection, ["x"])).value("x")

    async def main() -> list[tuple[float, Any]]:
        client = admin(pk_straggler_timeout_ms=3000)
        took = []
        for brokers in ([1, HANGING, 3], [HANGING]):
            began = trio.current_time()
            answers = await client._by_broker(brokers, ask_one)
            took.append((trio.current_time() - began, answers))
        return took

    (first_s, first), (second_s, second) = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (first.ok[1], first.ok[3]) == ("from 1", "from 3")
    assert isinstance(first.errors[HANGING], Straggler) and first.errors[HANGING].node_id == HANGING
    assert str(first.errors[HANGING]) == "broker 2 at b:9002 did not answer within 3 s"
    assert first_s == pytest.approx(3)
    assert isinstance(second.errors[HANGING], Straggler) and second_s < 1


def test_a_cluster_that_is_slow_as_a_whole_has_its_time() -> None:
    async def ask_one(connection: Connection) -> str:
        await trio.sleep(4.0 + cast(int, connection))
        return "late"

    async def main() -> Answers[int, Any]:
        return await admin(pk_straggler_timeout_ms=3000)._by_broker([1, 2, 3, 4, 5], ask_one)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert answers.ok == dict.fromkeys([1, 2, 3, 4, 5], "late")


def test_a_change_is_waited_for_however_long_the_others_have_answered() -> None:
    async def slow(connection: Connection, items: list[str]) -> Answers[str, Any]:
        await trio.sleep(20 if cast(int, connection) == HANGING else 0)
        return Answers((item, "done") for item in items)

    async def route(todo: list[str]) -> Any:
        return {1: ["a"], HANGING: ["b"]}, {}

    async def main() -> Answers[str, Any]:
        client = admin(pk_straggler_timeout_ms=3000)
        return await client._batches(["a", "b"], route, slow, changes=True)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert answers.ok == {"a": "done", "b": "done"}


def test_who_needs_every_answer_asks_again_and_another_where_another_took_over() -> None:
    leaders = [HANGING, HANGING, 3]

    async def route(todo: list[str]) -> Any:
        by_node: dict[int, list[str]] = {1: ["a"]} if "a" in todo else {}
        return by_node | {leaders.pop(0): ["b"]}, {}

    async def main() -> Answers[str, Any]:
        client = admin(pk_straggler_timeout_ms=3000)
        client.thorough = True
        return await client._batches(["a", "b"], route, ask)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert answers.ok == {"a": "from 1", "b": "from 3"}


@trio_test
async def test_a_coordinator_that_reads_its_groups_yet_is_asked_again_and_told_of_at_last() -> None:
    soon = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    asked = trio.Event()

    def coordinator(name: str, codes: list[ErrorCode], last: ErrorCode) -> Handler:
        async def answer(request: Any, version: int) -> Any:
            if isinstance(request, MetadataRequest):
                nodes = [
                    MetadataResponseBroker(node_id=n, host="127.0.0.1", port=b.port)
                    for n, b in enumerate((first, second), 1)
                ]
                return MetadataResponse(cluster_id="c", brokers=nodes)
            if last:
                asked.set()
            else:
                await asked.wait()  # the first to end gives the others half a second
            code = codes.pop(0) if codes else last
            groups = [] if code else [ListedGroup(group_id=name, group_state="Empty")]
            return ListGroupsResponse(error_code=code, groups=groups)

        return answer

    never = coordinator("b", [], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    async with (
        scripted_broker(coordinator("a", soon, ErrorCode.NONE)) as first,
        scripted_broker(never) as second,
        open_admin(
            first.address, {"retry.backoff.ms": 1, "pk.straggler.timeout.ms": 500}
        ) as client,
    ):
        found = await client.list_groups()
        assert ([g.group_id for g in found.groups], soon) == (["a"], [])
        (error,) = found.errors.values()
        assert isinstance(error, KafkaError)
        assert error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
