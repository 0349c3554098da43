"""Measures how long a user waits for the screen after a key in `pk shell`, and for the first screen
of `pk top`, on a cluster with 5,000 topics and 2,000 groups.

The time for a key ends with the last change that the shell draws for it (line, completion menu,
toolbar), after which nothing changes for `QUIET_S`. It does not include the time that a terminal
needs to draw.

    scripts/bench --screens            a broker of pk's
    scripts/bench --screens --apache   Apache Kafka
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pexpect
from clients.apache_kafka import ApacheKafka
from clients.pk_broker import PkBroker
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table
from terminal import SIZES, Terminal

TOPICS = 5_000
GROUPS = 2_000
AT_ONCE = 250
"""The number of topics in one request."""
QUIET_S = 0.25
LINES = (
    "topics describe events-42",
    "groups describe readers-17",
    "consume events-4 --offset earliest",
)
"""The lines that are typed, and deleted key by key."""

KEY_MS = 50.0
FIRST_SCREEN_MS = 1000.0


@contextmanager
def running(apache: bool) -> Iterator[str]:
    """Start a broker with the topics and groups. Yields its address."""
    with ExitStack() as stack:
        broker = stack.enter_context(ApacheKafka() if apache else PkBroker())
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        names = [f"events-{n}" for n in range(TOPICS)]
        for i in range(0, TOPICS, AT_ONCE):
            topics = [NewTopic(name, 1, 1) for name in names[i : i + AT_ONCE]]
            for made in admin.create_topics(topics, request_timeout=60).values():
                made.result()
        for number in range(GROUPS):
            at = [TopicPartition(names[number], 0, 0)]
            request = [ConsumerGroupTopicPartitions(f"readers-{number}", at)]
            for moved in admin.alter_consumer_group_offsets(request).values():
                moved.result()
        yield broker.bootstrap


def drawn_after(terminal: Terminal) -> float:
    """Return the milliseconds until the last change of the screen above the toolbar, which updates
    by itself; 0 if there is none."""
    began = time.perf_counter()
    chunks: list[tuple[float, bytes]] = []
    while True:
        try:
            data = terminal.child.read_nonblocking(65536, timeout=QUIET_S)
        except pexpect.TIMEOUT:
            break
        chunks.append((time.perf_counter(), data))
    last = began
    for at, data in chunks:
        before = _above_toolbar(terminal)
        terminal.feed(data)
        if before != _above_toolbar(terminal):
            last = at
    return (last - began) * 1000


def _above_toolbar(terminal: Terminal) -> tuple[list[str], tuple[int, int]]:
    return terminal.screen_of.display[:-1], terminal.cursor


def keys(bootstrap: str, size: tuple[int, int], home: Path) -> list[float]:
    """Return the time for each key, in milliseconds."""
    columns, lines = size
    terminal = Terminal("shell", "-b", bootstrap, columns=columns, lines=lines, home=home)
    took = []
    try:
        terminal.wait_for("pk")
        terminal.line("topics describe events-0")
        terminal.wait_for("events-0")
        drawn_after(terminal)
        for line in LINES:
            for key in line:
                terminal.send(key)
                took.append(drawn_after(terminal))
            terminal.wait_for(line)
            for _ in line:
                terminal.keys("backspace")
                took.append(drawn_after(terminal))
        terminal.keys("ctrl-d")
        terminal.end()
    finally:
        terminal.close()
    return took


def first_screen(bootstrap: str, size: tuple[int, int], home: Path) -> float:
    """Return the time from the start of `pk top` to a screen with the cluster's figures, in
    milliseconds."""
    columns, lines = size
    began = time.perf_counter()
    terminal = Terminal("top", "-b", bootstrap, columns=columns, lines=lines, home=home)
    try:
        terminal.wait_for(f"{TOPICS + 1:,} topics")  # and a figure of the offsets
        took = (time.perf_counter() - began) * 1000
        terminal.send("q")
        terminal.end()
    finally:
        terminal.close()
    return took


def main() -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench --screens", description=__doc__)
    parser.add_argument("--apache", action="store_true", help="Apache Kafka, not a broker of pk")
    parser.add_argument("--rounds", type=int, default=5, help="first screens of top (default 5)")
    options = parser.parse_args()
    log, console = Console(stderr=True), Console()
    table = Table(title=f"{TOPICS:,} topics, {GROUPS:,} groups; in milliseconds")
    for heading in ("", "terminal"):
        table.add_column(heading)
    for heading in ("median", "p99", "worst", "goal"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory(prefix="pk-bench-") as folder:
        log.print("making topics and groups")
        with running(options.apache) as bootstrap:
            for size in SIZES:
                name = f"{size[0]}x{size[1]}"
                log.print(f"terminal of {name}")
                took = sorted(keys(bootstrap, size, Path(folder)))
                p99 = took[-1 - len(took) // 100]
                _row(table, f"{len(took)} keys in pk shell", name, took, p99, KEY_MS)
                tops = [first_screen(bootstrap, size, Path(folder)) for _ in range(options.rounds)]
                _row(table, "first screen of pk top", name, tops, None, FIRST_SCREEN_MS)
    console.print(table)
    return 0


def _row(
    table: Table, what: str, size: str, took: list[float], p99: float | None, goal: float
) -> None:
    figures = (statistics.median(took), p99, max(took))
    shown = ["–" if f is None else f"{f:.0f}" for f in figures]
    table.add_row(what, size, *shown, f"≤ {goal:.0f}")


if __name__ == "__main__":
    sys.exit(main())
