"""Debezium's connector for PostgreSQL, in Kafka Connect's distributed workers, exactly once: each
change of a table becomes a record, in order, whichever process dies.

The worker with the connector's task and the broker that leads the topic are killed while the table
changes. Slow: `scripts/test -m "slow and peer" tests/clients/test_debezium.py`.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import pytest

from clients import apache_kafka
from clients.cluster_topics import create_replicated, leader_of, wait_in_sync
from clients.clusters import KINDS, cluster_of
from clients.connect import READY_S, Worker
from clients.postgres import USER, Postgres, postgres, programs
from clients.readers import CommittedReader
from clients.topics import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.peer,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL's server is not installed"),
]

TOPIC = "shop.public.orders"
ROWS: Final = 500
STEP: Final = 500
PAUSE_S: Final = 0.002
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


class Change(NamedTuple):
    """One change of a row, as Debezium names it: `c`reated, `u`pdated, `d`eleted; `r`ead before."""

    kind: str
    row: int
    number: int
    """The number that the change wrote into the row; for a deleted row, the last one written
    before."""


class Changes:
    """Changes the table, a statement and a transaction each, until the block ends."""

    def __init__(self, server: Postgres) -> None:
        self.made: list[Change] = []
        self._process = subprocess.Popen(server.psql, stdin=subprocess.PIPE, text=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def records(self) -> int:
        """How many records they become: a deleted row has a tombstone too."""
        return len(self.made) + sum(change.kind == "d" for change in self.made)

    def _run(self) -> None:
        rows = deque((row, 0) for row in range(ROWS))
        number = 0
        while not self._stop.wait(PAUSE_S):
            number += 1
            row, before = rows.popleft()
            match number % 4:
                case 0:
                    change = Change("d", row, before)
                    statement = f"DELETE FROM orders WHERE id = {row}"
                case 1:
                    rows.appendleft((row, before))
                    change = Change("c", ROWS + number, number)
                    statement = f"INSERT INTO orders VALUES ({change.row}, {number})"
                case _:
                    change = Change("u", row, number)
                    statement = f"UPDATE orders SET number = {number} WHERE id = {row}"
            if change.kind != "d":
                rows.append((change.row, number))
            assert self._process.stdin is not None
            self._process.stdin.write(f"{statement};\n")
            self._process.stdin.flush()
            self.made.append(change)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Make no more, and wait until the database has made all of them."""
        self._stop.set()
        self._thread.join()
        self._process.communicate()
        assert self._process.returncode == 0


def connector(server: Postgres) -> dict[str, str]:
    """The connector's config. A slot belongs to a worker that was killed until the database
    notices; the next one asks for it again."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "exactly.once.support": "required",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": "",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "slot.max.retries": "100",
        "slot.retry.delay.ms": "500",
        "table.include.list": "public.orders",
        "topic.prefix": "shop",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }


def changes_in(values: Sequence[bytes]) -> Iterator[Change]:
    """The changes in the records. A tombstone follows each deletion."""
    deleted = False
    for value in values:
        assert deleted == (value == b"")
        deleted = False
        if value:
            event = json.loads(value)
            deleted = event["op"] == "d"
            row = event["before" if deleted else "after"]
            yield Change(event["op"], row["id"], row["number"])


@pytest.mark.parametrize("kind", KINDS)
def test_each_change_comes_once_and_in_order(kind: str, tmp_path: Path) -> None:
    plugins = apache_kafka.debezium_plugins()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres(wal_level="logical"))
        server.run(
            "CREATE TABLE orders (id int PRIMARY KEY, number int NOT NULL);"
            "ALTER TABLE orders REPLICA IDENTITY FULL;"
            f"INSERT INTO orders SELECT id, 0 FROM generate_series(0, {ROWS - 1}) AS id;"
        )
        cluster = stack.enter_context(cluster_of(kind))
        bootstrap = cluster.bootstrap
        create_replicated(bootstrap, TOPIC, 1)
        workers = [
            stack.enter_context(Worker(bootstrap, tmp_path, name, plugins))
            for name in ("one", "two")
        ]
        reader = stack.enter_context(CommittedReader(bootstrap, TOPIC))
        workers[0].configure("orders", connector(server))
        reader.wait_for(ROWS, READY_S)
        assert sorted(changes_in(reader.values)) == [Change("r", row, 0) for row in range(ROWS)]

        changes = stack.enter_context(Changes(server))
        reader.wait_for(ROWS + STEP, READY_S)
        on = wait_until("its worker", lambda: workers[0].runs_on("orders"), READY_S)
        (victim,) = [worker for worker in workers if worker.worker_id == on]
        victim.kill()
        reader.wait_for(len(reader.values) + STEP, READY_S)

        leader = leader_of(bootstrap, TOPIC)
        cluster.kill(leader)
        reader.wait_for(len(reader.values) + STEP, READY_S)
        cluster.start(leader)
        wait_in_sync(bootstrap, TOPIC, 1, 3)

        changes.stop()
        reader.wait_for(ROWS + changes.records, READY_S)
        assert list(changes_in(reader.values[ROWS:])) == changes.made
        rows = {change.row: change for change in changes_in(reader.values)}
        table = server.run("SELECT id, number FROM orders ORDER BY id").split()
        assert table == [
            f"{row}|{rows[row].number}" for row in sorted(rows) if rows[row].kind != "d"
        ]
