"""Pipelines that are killed again and again, and then hold what one batch over the same input
gives.

`PK_PIPELINE_KILLS=50` says how often they are killed (default: 3). They run beside each other, each
`pk spark pipeline run` of its own, and each kill is a kill of every one of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from clients.pk_broker import PkBroker, pk_command, pk_environment
from pipeline_examples import EXAMPLES, append, committed, counts_of, data, duckdb, good_orders

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("PK_PIPELINE_KILLS", "3"))
NAMES = ("windowed-count", "stream-join", "enrichment")
WAIT_S = 1_200
LATER_S = 3.0
"""A kill comes at most this long after a batch began."""


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with PkBroker() as broker:
        yield broker.bootstrap


def portions(count: int) -> Iterator[tuple[list[str], list[str]]]:
    """The orders and payments of the examples in `count` portions by time, so that nothing is late
    for a watermark."""
    orders, payments = data("orders"), data("payments")
    cuts = [number * len(orders) // count for number in range(count + 1)]
    done = 0
    for begin, end in pairwise(cuts):
        later = [order["at"] for order in map(parsed, orders[end:]) if order]
        until = len(payments)
        if later:
            until = sum(json.loads(payment)["at"] < later[0] for payment in payments)
        yield orders[begin:end], payments[done:until]
        done = until


def parsed(line: str) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError:
        return {}


def batches(directory: Path, name: str, kind: str) -> int:
    """How many batches of a pipeline have begun (`offsets`) or ended (`commits`)."""
    found = directory.glob(f"checkpoints/{name}/sinks/*/{kind}/*")
    return len([path for path in found if path.name.isdecimal()])


def kill_in_a_batch(
    directory: Path, bootstrap: str, chosen: str, chance: random.Random
) -> Counter[str]:
    """Starts the pipelines and kills them some moments after the one `chosen` began a new batch;
    which of them were in a batch then."""
    before = batches(directory, chosen, "offsets")
    started = [start(directory / f"{name}.toml", bootstrap) for name in NAMES]
    try:
        deadline = time.monotonic() + WAIT_S
        while batches(directory, chosen, "offsets") == before:
            for process in started:
                assert process.poll() is None, "a pipeline failed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(chance.uniform(0, LATER_S))
        for process in started:
            assert process.poll() is None, "a pipeline failed"
    finally:
        groups = [group for one in started for group in (one.pid, *children(one.pid))]
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for process in started:
            process.wait(WAIT_S)
    return Counter(
        name
        for name in NAMES
        if batches(directory, name, "offsets") > batches(directory, name, "commits")
    )


def start(file: Path, bootstrap: str) -> subprocess.Popen[bytes]:
    """A pipeline that runs until it is killed."""
    words = pk_command("spark", "pipeline", "run", str(file), "--cores", "1", "-b", bootstrap)
    return subprocess.Popen(words, env=pk_environment(), start_new_session=True)


def children(parent: int) -> list[int]:
    """The processes that a process started, which lead groups of their own."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "ppid=,pid=,pgid="], capture_output=True, text=True, check=True
    )
    rows = [list(map(int, line.split())) for line in listed.stdout.splitlines()]
    return [pid for ppid, pid, group in rows if ppid == parent and pid == group]


def run_to_the_end(file: Path, bootstrap: str) -> None:
    options = ("--once", "--cores", "2", "-b", bootstrap)
    words = pk_command("spark", "pipeline", "run", str(file), *options)
    done = subprocess.run(
        words, env=pk_environment(), capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr


def rows(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value or b"null") for _, value, _ in committed(bootstrap, topic)]


def check_windowed_count(bootstrap: str) -> None:
    good = good_orders()
    assert counts_of(bootstrap) == Counter((o["at"][:16], o["customer"]) for o in good)
    letters = Counter(value for _, value, _ in committed(bootstrap, "orders-dead-letters"))
    assert len(letters) == 6 and set(letters.values()) == {1}


def check_stream_join(bootstrap: str) -> None:
    payments = {p["order_id"]: p for p in map(json.loads, data("payments"))}
    wanted = sorted(o["id"] for o in good_orders() if o["id"] in payments)
    assert sorted(row["id"] for row in rows(bootstrap, "paid-orders")) == wanted


def check_enrichment(directory: Path) -> None:
    found = duckdb(f"SELECT id FROM '{directory}/out/orders/**/*.parquet' ORDER BY id")
    assert found == [(o["id"],) for o in good_orders()]


def test_pipelines_that_are_killed_equal_the_batch(bootstrap: str, tmp_path: Path) -> None:
    for topic in ("orders", "payments", "orders-per-minute", "orders-dead-letters", "paid-orders"):
        append(bootstrap, topic)
    shutil.copytree(EXAMPLES / "data", tmp_path / "data")
    for name in NAMES:
        shutil.copy(EXAMPLES / f"{name}.toml", tmp_path)
    chance = random.Random(os.urandom(8))
    hit: Counter[str] = Counter()
    *early, last = portions(KILLS + 1)
    for number, (orders, payments) in enumerate(early):
        append(bootstrap, "orders", orders)
        append(bootstrap, "payments", payments)
        hit += kill_in_a_batch(tmp_path, bootstrap, NAMES[number % len(NAMES)], chance)
        print(f"kill {number + 1} of {KILLS}; in a batch so far: {dict(hit)}", flush=True)
    append(bootstrap, "orders", last[0])
    append(bootstrap, "payments", last[1])
    for name in NAMES:
        run_to_the_end(tmp_path / f"{name}.toml", bootstrap)
    check_windowed_count(bootstrap)
    check_stream_join(bootstrap)
    check_enrichment(tmp_path)
