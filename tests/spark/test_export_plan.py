"""The state that an export finds at the brokers, and the earlier runs that it continues. Without
Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from clients import topics
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from confluent_kafka import Producer

from pk.spark.errors import DataLost, DirectoryRefused, OptionError
from pk.spark.export.exporter import settled
from pk.spark.export.manifest import Manifest
from pk.spark.export.options import ExportOptions
from pk.spark.export.plan import Found, plan_export
from pk.spark.read.ranges import OffsetRange
from pk.spark.read.read_options import ReadOptions
from pk.spark.read.reader import read

Fresh = Callable[[str], str]


def options(kafka: Kafka, topic: str, **client: str) -> ExportOptions:
    given = {name.replace("_", "."): value for name, value in client.items()}
    return ExportOptions(
        bootstrap=kafka.bootstrap, topic=topic, directory=Path("out"), client=given, mode="resume"
    )


def planned(given: ExportOptions, before: Manifest | None = None) -> Found:
    return trio.run(plan_export, given, before)


def exported(found: Found, topic: str, isolation: str | None = "read_committed") -> Manifest:
    """The manifest of a run that read all that was found."""
    return Manifest(
        topic=topic,
        topic_id=found.topic_id,
        key="bytes",
        value="bytes",
        columns={},
        partitions={r.partition: (r.begin, r.end) for r in found.ranges},
        isolation=isolation,
        cluster_id=found.cluster_id,
        leader_epochs=dict(found.leader_epochs),
    )


def test_a_resumed_export_goes_on_where_the_manifest_ends(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("plan"), 2)
    topics.produce(kafka, topic, 2, 10)
    found = planned(options(kafka, topic))
    assert [(r.partition, r.begin, r.end) for r in found.ranges] == [(0, 0, 10), (1, 0, 10)]
    assert found.cluster_id and set(found.leader_epochs) == {0, 1}
    before = exported(found, topic)
    topics.produce(kafka, topic, 2, 5)
    again = planned(options(kafka, topic), before)
    assert [(r.begin, r.end) for r in again.ranges] == [(10, 15), (10, 15)]
    oldest = replace(before, isolation=None, cluster_id=None, leader_epochs={})
    assert planned(options(kafka, topic), oldest).ranges == again.ranges, "of format 1"


def test_isolation_levels_are_not_mixed(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("plan"))
    before = exported(planned(options(kafka, topic)), topic, "read_uncommitted")
    committed = options(kafka, topic, isolation_level="read_committed")
    with pytest.raises(
        DirectoryRefused, match="isolation.level=read_uncommitted, not read_committed"
    ):
        planned(committed, before)
    assert planned(committed, replace(before, isolation="read_committed")).ranges


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed", None])
def test_a_resumed_export_keeps_its_isolation_level(isolation: str | None, tmp_path: Path) -> None:
    made = Found(None, "id", (), {})
    given = ExportOptions(bootstrap="none:1", topic="t", directory=tmp_path, mode="resume")
    resumed = settled(given, exported(made, "t", isolation))
    # Versions that did not note the level read uncommitted records unless told otherwise.
    assert resumed.read.isolation.name.lower() == (isolation or "read_uncommitted")
    assert settled(given, None).read.isolation.name == "READ_COMMITTED"


@pytest.mark.parametrize(
    ("table", "said"), [("iceberg", "pyiceberg cannot"), (None, "a directory has no step")]
)
def test_only_a_delta_table_is_compacted(table: str | None, said: str, tmp_path: Path) -> None:
    before = replace(exported(Found(None, "id", (), {}), "t", None), table=table)
    given = ExportOptions(
        bootstrap="none:1", topic="t", directory=tmp_path, mode="resume", compact_s=1.0
    )
    with pytest.raises(OptionError, match=f"--compact is for delta tables: {said}"):
        settled(given, before)
    with pytest.raises(OptionError, match=f"--compact is for delta tables: {said}"):
        settled(replace(given, table=table), None)
    assert settled(given, replace(before, table="delta")).compact_s == 1.0


def test_an_export_ends_before_an_open_transaction(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("plan"))
    topics.produce(kafka, topic, 1, 3)
    config = {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "log_level": 0}
    producer = Producer(config)
    producer.init_transactions(topics.TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(topics.TIMEOUT_S) == 0
    assert [r.end for r in planned(options(kafka, topic)).ranges] == [3]
    every = options(kafka, topic, isolation_level="read_uncommitted")
    assert [r.end for r in planned(every).ranges] == [4]
    producer.abort_transaction(topics.TIMEOUT_S)


def test_another_cluster_is_refused(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("plan"))
    before = exported(planned(options(kafka, topic)), topic)
    with pytest.raises(DirectoryRefused, match="is of the cluster another-cluster"):
        planned(options(kafka, topic), replace(before, cluster_id="another-cluster"))


def test_a_log_that_was_truncated_and_grew_again_is_refused(tmp_path: Path) -> None:
    """An unclean election seen from outside: the epoch of the export ends below the exported
    end."""
    with PkBroker(directory=tmp_path / "data") as broker:
        kafka = Kafka("pk", broker.bootstrap, tmp_path)
        topic = topics.create_topic(kafka, "plan", 1)
        topics.produce(kafka, topic, 1, 10)
        first = planned(options(kafka, topic))
        assert broker.stop() == 0
    with PkBroker(directory=tmp_path / "data") as broker:
        kafka = Kafka("pk", broker.bootstrap, tmp_path)
        topics.produce(kafka, topic, 1, 20)
        second = planned(options(kafka, topic))
        assert second.leader_epochs[0] > first.leader_epochs[0]
        assert planned(options(kafka, topic), exported(second, topic)).ranges[0].begin == 30
        assert planned(options(kafka, topic), exported(first, topic)).ranges[0].begin == 10
        lost = replace(exported(first, topic), partitions={0: (0, 15)})
        with pytest.raises(DirectoryRefused, match="now ends at 10: the log was truncated"):
            planned(options(kafka, topic), lost)
        beyond = replace(exported(second, topic), partitions={0: (0, 50)})
        with pytest.raises((DataLost, DirectoryRefused)):
            planned(options(kafka, topic), beyond)


def test_a_topic_that_is_deleted_meanwhile_ends_the_reading(kafka: Kafka, fresh: Fresh) -> None:
    """Without that, the reader would wait for the records of the range for two minutes."""
    topic = topics.create_topic(kafka, fresh("plan"))
    topics.produce(kafka, topic, 1, 10)
    [found] = planned(options(kafka, topic)).ranges
    wanted = OffsetRange(topic, 0, 0, 20, found.topic_id)
    deleting = threading.Thread(
        target=lambda: topics.admin(kafka).delete_topics([topic])[topic].result(topics.TIMEOUT_S)
    )
    deleting.start()
    with pytest.raises(DataLost, match="the topic plan-.* was deleted"):
        list(read(wanted, ReadOptions(kafka.bootstrap)))
    deleting.join()
