"""Spark's own Kafka connector: batches and streams, written and read.

Slow, because it needs a pyspark of its own:
`scripts/test -m slow tests/clients/test_spark_connector.py`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.fixtures import Kafka
from clients.readers import read_records
from clients.spark_connector import connector
from clients.spark_connector_main import HALF
from clients.topics import create_topic

pytestmark = [pytest.mark.slow, pytest.mark.peer]

PROGRAM = Path(__file__).parent / "spark_connector_main.py"
PROGRAM_S = 600.0


def test_batches_and_streams_are_written_and_read(
    kafka: Kafka, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    source, sink = (create_topic(kafka, fresh(f"spark-{name}"), 2) for name in ("in", "out"))
    python, jars = connector()
    ran = subprocess.run(
        [python, PROGRAM, jars, kafka.bootstrap, source, sink, str(tmp_path / "checkpoint")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    for topic in (source, sink):
        read = [record for n in (0, 1) for record in read_records(kafka.bootstrap, topic, n)]
        found = sorted((int(r.key() or b"-1"), r.value(), r.headers()) for r in read)
        assert found == [(n, b"value %d" % n, [("number", b"%d" % n)]) for n in range(2 * HALF)]
