"""The records of `__remote_log_metadata`, and Apache Kafka's own serde for them."""

import subprocess
from pathlib import Path

import pytest
from clients.apache_kafka import available, java_command
from each import for_each

from pk.core.errors import ProtocolError
from pk.core.log.epochs import EpochStart
from pk.core.log.remote.metadata import (
    PartitionDelete,
    PartitionDeleteState,
    Record,
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    decode_record,
    encode_record,
    metadata_partition,
)
from pk.core.values import TopicIdPartition, uuid_text

PARTITION = RemotePartition("orders", bytes(range(16)), 3)
SEGMENT = RemoteSegment(
    PARTITION, bytes(range(16, 32)), 100, 199, 1, 1_700_000_000_000, 1_700_000_000_001,
    (EpochStart(0, 100), EpochStart(4, 150)), 1 << 30, SegmentState.COPY_STARTED,
)  # fmt: skip
RECORDS: list[Record] = [
    SEGMENT,
    RemoteSegment(
        PARTITION,
        bytes(range(16, 32)),
        0,
        0,
        2,
        -1,
        5,
        (EpochStart(7, 0),),
        61,
        SegmentState.COPY_STARTED,
        b"noted",
        True,
    ),
    SegmentUpdate(PARTITION, SEGMENT.id, 1, 7, SegmentState.COPY_FINISHED),
    SegmentUpdate(PARTITION, SEGMENT.id, 1, 7, SegmentState.DELETE_STARTED, b"noted"),
    SegmentUpdate(PARTITION, SEGMENT.id, 2, 7, SegmentState.DELETE_FINISHED),
    *(PartitionDelete(PARTITION, 3, 9, state) for state in PartitionDeleteState),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_comes_back(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_record_of_an_unknown_type_is_skipped() -> None:
    assert decode_record(b"\x01\x09\x00rest") is None


@for_each("length", range(len(encode_record(SEGMENT))))
def test_part_of_a_record_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        decode_record(encode_record(SEGMENT)[:length])


def test_a_state_that_does_not_exist_is_refused() -> None:
    update = encode_record(SegmentUpdate(PARTITION, SEGMENT.id, 1, 7, SegmentState.COPY_FINISHED))
    with pytest.raises(ProtocolError, match="9"):
        decode_record(update[:-2] + b"\x09" + update[-1:])


@pytest.mark.parametrize(
    ("number", "partitions", "expected"), [(0, 50, 45), (1, 50, 3), (2, 50, 5), (3, 50, 36)]
)
def test_the_partition_of_the_topic(number: int, partitions: int, expected: int) -> None:
    """The expected partitions are those of Apache Kafka's partitioner (see below)."""
    assert metadata_partition(TopicIdPartition(bytes(range(16)), number), partitions) == expected


def _ask(lines: list[str]) -> list[str]:
    done = subprocess.run(
        java_command(str(Path(__file__).with_name("RemoteMetadataHarness.java"))),
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.peer
@pytest.mark.skipif(available() is not None, reason=str(available()))
def test_apache_kafka_reads_and_writes_the_same_bytes() -> None:
    ours = [encode_record(record).hex() for record in RECORDS]
    answers = [line.partition(" ") for line in _ask(ours)]
    assert [written for written, _, _ in answers] == ours
    assert "COPY_SEGMENT_FINISHED" in answers[2][2]
    assert "startOffset=100, endOffset=199" in answers[0][2]


@pytest.mark.peer
@pytest.mark.skipif(available() is not None, reason=str(available()))
def test_apache_kafka_chooses_the_same_partition() -> None:
    keys = [(bytes(range(n, n + 16)), n, count) for n in range(40) for count in (1, 7, 50)]
    answers = _ask([f"partition {uuid_text(i)} {n} {count}" for i, n, count in keys])
    ours = [metadata_partition(TopicIdPartition(i, n), count) for i, n, count in keys]
    assert [int(answer) for answer in answers] == ours
