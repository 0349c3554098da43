"""Apache's TransactionalMessageCopier, exactly once, while the brokers that it works with are
killed.

Slow: `scripts/test -m "slow and peer" tests/clients/test_copier_faults.py`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import confluent_kafka
import pytest

from clients import apache_kafka
from clients.cluster_topics import create_replicated, leader_of, wait_in_sync
from clients.clusters import KINDS, cluster_of
from clients.readers import CommittedReader
from clients.topics import TIMEOUT_S

RECORDS = 6_000
KILLS = 3
LIMIT_S = 600.0


def _start(bootstrap: str, log: Path) -> subprocess.Popen[bytes]:
    """A copier; it writes to `log` a line for each transaction."""
    command = apache_kafka.java_command(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", bootstrap, "--input-topic", "source", "--input-partition", "0"),
        *("--output-topic", "sink", "--consumer-group", "copier", "--transactional-id", "copy"),
        *("--max-messages", str(RECORDS), "--transaction-size", "30"),
        *("--enable-random-aborts", "--group-mode"),
    )
    with log.open("ab") as said, log.with_suffix(".err").open("ab") as failed:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=failed)


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_or_doubled_when_brokers_are_killed(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "copier.log"
    with cluster_of(kind) as cluster:
        for topic in ("source", "sink"):
            create_replicated(cluster.bootstrap, topic, 1)
        values = [f"record {n}".encode() for n in range(RECORDS)]
        config = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        producer = confluent_kafka.Producer(config)
        for value in values:
            producer.produce("source", value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        copier = _start(cluster.bootstrap, log)
        try:
            with CommittedReader(cluster.bootstrap, "sink") as reader:
                for number in range(KILLS):
                    reader.wait_for((number + 1) * RECORDS // (KILLS + 2), LIMIT_S)
                    # Kill the leaders of the source and the sink, then the sink's current leader.
                    leader = leader_of(cluster.bootstrap, "source" if number == 1 else "sink")
                    cluster.kill(leader)
                    reader.wait_for(min(len(reader.values) + 100, RECORDS), LIMIT_S)
                    cluster.start(leader)
                    for topic in ("source", "sink"):
                        wait_in_sync(cluster.bootstrap, topic, 1, 3)
                assert copier.wait(LIMIT_S) == 0, log.with_suffix(".err").read_text()[-3000:]
                reader.wait_for(RECORDS, LIMIT_S)
                assert reader.values == values
        finally:
            copier.kill()
            copier.wait()
        assert json.loads(log.read_text().splitlines()[-1])["remaining"] == 0
