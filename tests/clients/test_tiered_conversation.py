"""pk with tiered storage says what Apache Kafka 4.3.1 says with its LocalTieredStorage: offsets by
position and by time over both tiers, fetches below the local start, configs, and refused requests.
With PK_WRITE_GOLDEN=1 the side of Apache Kafka writes the golden text again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pk.testing
from clients import apache_kafka
from clients.tiered_conversation import hold

GOLDEN = Path(__file__).parents[1] / "golden" / "tiered.txt"
SOON = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "300",
    "log.retention.check.interval.ms": "300",
}


def test_pk_says_what_apache_kafka_says(tmp_path: Path) -> None:
    config = SOON | {
        "pk.remote.url": f"file://{tmp_path}",
        "pk.remote.metadata.partitions": "1",
        "pk.remote.metadata.replication.factor": "1",
    }
    with pk.testing.broker(config) as broker:
        said = hold(int(broker.url.rpartition(":")[2]))
    assert said == GOLDEN.read_text().splitlines()


@pytest.mark.peer
@pytest.mark.skipif(apache_kafka.available() is not None, reason="needs java and mvn")
def test_apache_kafka_says_so(tmp_path: Path) -> None:
    properties = SOON | apache_kafka.TIERED | {
        "remote.log.storage.manager.class.path": str(apache_kafka.tiered_jar()),
        "rsm.config.dir": str(tmp_path / "store"),
    }  # fmt: skip
    with apache_kafka.ApacheKafka(properties=properties) as cluster:
        said = hold(cluster.port(1))
    if os.environ.get("PK_WRITE_GOLDEN"):
        GOLDEN.write_text("\n".join(said) + "\n")
    assert said == GOLDEN.read_text().splitlines()
