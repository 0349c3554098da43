"""The shell with clusters that die and return, that are large, and whose names completion
fetches."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from clients.topics import wait_until
from terminal import SIZES, Terminal

from pk.cli.runtime.name_cache import recall_meanings
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.results import NewTopic, OffsetAndMetadata

Start = Callable[..., Terminal]


@pytest.fixture
def broker() -> Iterator[PkBroker]:
    with PkBroker() as one:
        yield one


@pytest.mark.thorough
def test_a_broker_that_dies_and_returns(broker: PkBroker, terminal: Start) -> None:
    """The toolbar shows that the broker is gone, completion uses the names that it knows, and a
    command waits for the broker and succeeds."""
    one = terminal("shell", "-b", broker.bootstrap, PAGER="cat")
    one.wait_for("under-replicated")
    one.line("topics create orders -p 3")
    one.wait_for("created")
    one.send("topics describe ord")
    one.wait_for("3 partitions")
    one.keys("ctrl-u")
    broker.kill()
    one.line("\\refresh")
    one.wait_for("not connected")
    one.send("topics describe ord")
    one.wait_for("3 partitions")
    one.keys("ctrl-u")
    one.line("topics list")
    one.wait_for("is lost; trying again")
    broker.start()
    one.wait_for(lambda text: "TOPIC" in text and "orders   " in text)
    one.wait_for(lambda text: "not connected" not in text.splitlines()[-1])
    one.line("exit")
    assert one.end() == 0
    assert b"Traceback" not in one.output


def test_names_are_fetched_by_a_process_in_the_background(
    kafka: Kafka,
    terminal: Start,
    at: Callable[..., object],
    fresh: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = fresh("fetched")
    at("topics", "create", topic, "-p", "4")
    home = tmp_path / "elsewhere"
    home.mkdir()
    first = terminal(
        "__complete",
        "topics",
        "describe",
        "-b",
        kafka.bootstrap,
        "",
        home=home,
        PK_COMPLETION_REFRESH=None,
    )
    assert first.end() == 0
    assert topic.encode() not in first.output, "the first Tab knows nothing, and does not wait"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg_cache_home"))
    wait_until(  # the process that fetches them is not our child
        "the names", lambda: recall_meanings(kafka.bootstrap, "topic").get(topic) == "4 partitions"
    )
    again = terminal("__complete", "topics", "describe", "-b", kafka.bootstrap, "", home=home)
    assert again.end() == 0
    assert topic.encode() in again.output


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    """A cluster of 5,000 topics and 2,000 groups."""
    with PkBroker(memory=True) as broker:
        trio.run(_fill, broker.bootstrap)
        yield broker.bootstrap


async def _fill(bootstrap: str) -> None:
    names = [
        f"{area}-events-{i:04}" for i in range(1250) for area in ("eu", "us", "asia", "africa")
    ]
    limit = trio.CapacityLimiter(50)

    async def commit(i: int) -> None:
        async with limit:
            there = {TopicPartition(names[i], 0): OffsetAndMetadata(0)}
            await admin.alter_group_offsets(f"billing-service-{i:04}", there)

    async with open_admin(bootstrap) as admin:
        for i in range(0, len(names), 500):
            await admin.create_topics([NewTopic(n, partitions=1) for n in names[i : i + 500]])
        async with trio.open_nursery() as nursery:
            for i in range(2000):
                nursery.start_soon(commit, i)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_large_cluster(large: str, terminal: Start, size: tuple[int, int]) -> None:
    columns, lines = size
    one = terminal("shell", "-b", large, columns=columns, lines=lines, PAGER="tail -n 2")
    one.wait_for("under-replicated", 60)
    one.send("topics describe asiaevents1249")
    one.wait_for("asia-events-1249")
    one.keys("tab", "enter")
    one.wait_for("PARTITION")
    one.send("groups describe bs1999")
    one.wait_for("billing-service-1999")
    one.keys("ctrl-u", "groups describe bill")
    one.wait_for("billing-service-0000")
    one.keys("ctrl-u")
    one.line("topics list --sort topic")
    one.wait_for("us-events-1249")
    one.line("exit")
    assert one.end() == 0
    assert b"Traceback" not in one.output
    assert one.traces() == []
