"""All brokers of a cluster are lost with their data. A new one restores its topics from the store,
and clients of others read the same bytes and go on behind them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import Ran, run_command
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from log.remote.stores import BUCKET, s3_server, s3_storage

import pk.testing
from pk.core.log.remote.object_storage import ObjectStorage

COPIED = 2
"""Partitions 0 and 1 get more records than fit into the active segment; partition 2 gets too few
for any to be copied."""
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "retention.ms": "-1",
    "min.insync.replicas": "2",
}
Values = dict[int, list[bytes]]


def config_of(store: Path) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "200",
        "pk.remote.url": f"file://{store}",
        "pk.remote.metadata.partitions": "2",
    }


def produce(url: str, values: Values) -> None:
    producer = Producer(
        {"bootstrap.servers": url, "batch.size": 65536, "linger.ms": 5, "enable.idempotence": True}
    )
    for partition, some in values.items():
        for value in some:
            producer.produce("t", value, partition=partition)
            producer.poll(0)
    assert producer.flush(60) == 0


def consume(url: str, partition: int, start: int, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": url, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", partition, start)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=1):
            assert message.error() is None, message.error()
            offset, value = message.offset(), message.value()
            assert offset is not None and value is not None
            found.append((offset, value))
    consumer.close()
    return found


def copied(store: Path) -> list[Path]:
    """The objects of the copied segments, by partition and offset."""
    return sorted(store.rglob("*.segment"), key=lambda p: p.relative_to(store).parts[-2:])


class Lost:
    """The records sent to a cluster, and its store after the cluster was lost."""

    def __init__(self, store: Path, sent: Values) -> None:
        self.store = store
        self.sent = sent


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Lost:
    store = tmp_path_factory.mktemp("store")
    sent = {
        partition: [b"%08d" % n + os.urandom(1 << 14) for n in range(60 * 4)]
        for partition in range(COPIED)
    }
    sent[COPIED] = [b"never copied"]
    with pk.testing.cluster(3, config_of(store)) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.url})
        admin.create_topics([NewTopic("t", 3, 3, config=TOPIC)])["t"].result(60)
        produce(kafka.url, sent)
        deadline = time.monotonic() + 60
        # Each partition has 3.75 MiB: three closed segments, and the active one.
        while len(copied(store)) < 3 * COPIED:
            assert time.monotonic() < deadline, "the segments were not copied"
            time.sleep(0.05)
    return Lost(store, sent)


class NewCluster:
    """A cluster whose store is a copy of the lost one's."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.store = folder / "store"

    def restore(self, *words: str) -> Ran:
        """Runs `pk cluster restore`."""
        return run_command(
            ["cluster", "restore", "-b", self.url, "-f", "json", *words], self.folder
        )


@contextmanager
def new(lost: Lost, folder: Path) -> Iterator[NewCluster]:
    shutil.copytree(lost.store, folder / "store")
    with pk.testing.cluster(3, config_of(folder / "store")) as kafka:
        yield NewCluster(kafka.url, folder)


def ends(done: Ran) -> dict[int, tuple[int | None, int | None]]:
    return {row["partition"]: (row["start_offset"], row["end_offset"]) for row in done.json}


@pytest.mark.thorough
def test_everything_that_was_copied_is_back_after_refusals_that_change_nothing(
    lost: Lost, tmp_path: Path
) -> None:
    with new(lost, tmp_path) as cluster:
        try_what_is_refused(cluster)
        restore_everything(lost, cluster)


def restore_everything(lost: Lost, new: NewCluster) -> None:
    tried = new.restore("--dry-run")
    assert tried.code == 0, tried.err
    assert {row["result"] for row in tried.json} == {"would be restored"}
    done = new.restore("--from", f"file://{new.store}", "-y")
    assert done.code == 0, done.err
    assert {row["result"] for row in done.json} == {"restored"}
    assert ends(done) == ends(tried)
    more: Values = {p: [b"more %d" % n for n in range(10)] for p in range(COPIED + 1)}
    produce(new.url, more)
    for partition, (start, end) in ends(done).items():
        if partition == COPIED:
            assert (start, end) == (None, None), "nothing of it was copied"
            expected = more[partition]
        else:
            assert start == 0 and end is not None and end > 150
            expected = lost.sent[partition][: end + 1] + more[partition]
        assert consume(new.url, partition, 0, len(expected)) == list(enumerate(expected))
    again = new.restore("-y")
    assert again.code == 0 and {row["result"] for row in again.json} == {"exists already"}
    topic = AdminClient({"bootstrap.servers": new.url}).list_topics("t", timeout=30).topics["t"]
    assert {len(one.replicas) for one in topic.partitions.values()} == {3}


@pytest.mark.thorough
def test_a_topic_comes_back_from_s3(tmp_path: Path) -> None:
    sent: Values = {0: [b"%08d" % n + os.urandom(1 << 14) for n in range(60 * 4)]}
    with s3_server() as options:
        store = {
            "pk.remote.url": f"s3://{BUCKET}/lost",
            "pk.remote.endpoint": options["endpoint"],
            "pk.remote.region": options["region"],
            "pk.remote.access.key": options["access_key_id"],
            "pk.remote.secret.key": options["secret_access_key"],
        }
        config = config_of(tmp_path) | store | {"pk.remote.metadata.replication.factor": "1"}
        storage = s3_storage(options, "lost")
        with pk.testing.broker(config) as first:
            first.create_topic("t", 1, TOPIC | {"min.insync.replicas": "1"})
            produce(first.url, sent)
            deadline = time.monotonic() + 60
            while len(list(storage.list(""))) < 3:
                assert time.monotonic() < deadline, "the segments were not copied"
                time.sleep(0.05)
        with pk.testing.broker(config) as second:
            new = NewCluster(second.url, tmp_path)
            words = [f"{key}={value}" for key, value in store.items() if key != "pk.remote.url"]
            given = [word for one in words for word in ("--remote-config", one)]
            done = new.restore("--from", store["pk.remote.url"], "-y", *given)
            assert done.code == 0, done.err
            ((start, end),) = ends(done).values()
            assert start == 0 and end is not None and end > 150
            more = [b"more %d" % n for n in range(10)]
            produce(second.url, {0: more})
            expected = sent[0][: end + 1] + more
            assert consume(second.url, 0, 0, len(expected)) == list(enumerate(expected))


@pytest.mark.thorough
def test_damage_costs_what_is_before_it_or_behind_it(lost: Lost, tmp_path: Path) -> None:
    with new(lost, tmp_path) as cluster:
        restore_damaged(lost, cluster)


def restore_damaged(lost: Lost, new: NewCluster) -> None:
    first = [p for p in copied(new.store) if p.parent.name == "0"]
    second = [p for p in copied(new.store) if p.parent.name == "1"]
    content = first[1].read_bytes()
    first[1].write_bytes(content[:-1] + b"?")
    last = second[-1].read_bytes()
    second[-1].write_bytes(last[: len(last) // 2])
    done = new.restore("-y")
    assert done.code == 0, done.err
    after_gap, cut_off = (int(path.name[:20]) for path in (first[2], second[-1]))
    start, end = ends(done)[0]
    assert start is not None and start == after_gap and end is not None
    assert ends(done)[1] == (0, cut_off - 1)
    notes = {row["partition"]: row["note"] for row in done.json}
    lost_range = f"offsets 0 to {start - 1} are lost"
    assert notes[0] == f"{lost_range}; 1 damaged object; 1 older segment not used"
    assert notes[1] == "1 damaged object"
    assert notes[2] == "nothing was copied"
    expected = list(enumerate(lost.sent[0]))[start : end + 1]
    assert consume(new.url, 0, start, len(expected)) == expected


def try_what_is_refused(new: NewCluster) -> None:
    for words, why in (
        (("--from", "file:///elsewhere"), "The brokers use"),
        (("-t", "absent"), "The store has no topic absent."),
        (("--cluster-id", "absent"), "The store has no cluster absent"),
        (("--remote-config", "log.dirs=/x"), "pk.remote."),
        ((), "Nothing was changed"),
    ):
        done = new.restore(*words)
        assert done.code != 0 and why in done.err, (words, done.err)
    done = new.restore("-y", "-r", "4")
    assert done.code == 1 and "INVALID_REPLICATION_FACTOR" in done.text
    storage = ObjectStorage.open(f"file://{new.store}", {})
    assert len(list(storage.list(""))) == 3 * COPIED
