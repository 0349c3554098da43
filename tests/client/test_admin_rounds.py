"""How the admin client asks many brokers at once: each answers for itself, whatever the others do."""

from collections.abc import Mapping
from typing import Any, cast

import trio
from trio.testing import MockClock

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.admin_base import AdminBase
from pk.net.client.cluster import Cluster
from pk.net.client.config import AdminConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import RequestTimedOut

HANGING = 2


class Nodes:
    """The nodes of a cluster by number, as far as asking them goes."""

    async def connection(self, node_id: int, purpose: str) -> int:
        return node_id

    async def retry(self, attempt: Any, **_: Any) -> Any:
        return await attempt()


def admin() -> AdminBase:
    return AdminBase(cast(Cluster, Nodes()), AdminConfig())


async def ask(connection: Connection, items: list[str]) -> Mapping[str, str]:
    if cast(int, connection) == HANGING:
        await trio.sleep_forever()
    return dict.fromkeys(items, f"from {connection}")


def test_a_node_that_hangs_costs_only_what_it_alone_knows() -> None:
    async def route(todo: list[str]) -> Any:
        return {1: ["a"], HANGING: ["b"], 3: ["c"]}, {
            "d": KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        }

    async def main() -> dict[str, Any]:
        return await admin()._batches(["a", "b", "c", "d"], route, ask)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (answers["a"], answers["c"]) == ("from 1", "from 3")
    assert isinstance(answers["b"], RequestTimedOut)
    assert isinstance(answers["d"], KafkaError)


def test_brokers_asked_by_id_answer_for_themselves() -> None:
    async def ask_one(connection: Connection) -> str:
        return (await ask(connection, ["x"]))["x"]

    async def main() -> dict[int, Any]:
        return await admin()._by_broker([1, HANGING, 3], ask_one)

    answers = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (answers[1], answers[3]) == ("from 1", "from 3")
    assert isinstance(answers[HANGING], RequestTimedOut)
