"""Rows into sealed batches: the partitions of Java's producer, and every field as it was."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import check_crc, iter_headers, records
from pk.net.client.config import ProducerConfig, parse
from pk.net.client.partitioner import partition_for_key
from pk.spark.sink import seal as sealing
from pk.spark.sink.murmur2 import partitions_for_keys
from pk.spark.sink.seal import RowRefused, seal

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.string()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


@given(
    keys=st.lists(st.none() | st.binary(max_size=40)),
    partitions=st.integers(1, 1_000),
    cut=st.integers(0, 5),
)
def test_keys_go_where_javas_producer_sends_them(
    keys: list[bytes | None], partitions: int, cut: int
) -> None:
    column = pa.array(keys, pa.binary()).slice(cut)
    found = partitions_for_keys(column, partitions)
    for key, partition in zip(keys[cut:], found.tolist(), strict=True):
        if key is not None:
            assert partition == partition_for_key(key, partitions)


def config(**given: object) -> ProducerConfig:
    return parse(ProducerConfig, {name.replace("_", "."): v for name, v in given.items()})


def rows(made: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(made, SCHEMA)


def opened(sealed: Any) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """The records in the batches: key, value and headers in order, by partition."""
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for topic, partition, count, data in sealed:
        inside = []
        for position, header in iter_headers(data):
            check_crc(data, position, header)
            assert header.producer_id == -1 and not header.is_transactional
            batch = data[position : position + header.size]
            inside += [(r.key, r.value, r.headers) for r in records(batch)]
        assert len(inside) == count
        found.setdefault((topic, partition), []).extend(inside)
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_field_arrives_in_its_partition_and_in_order(codec: str) -> None:
    chance = random.Random(codec)
    made = [
        {
            "key": chance.choice([None, b"", b"k%d" % chance.randrange(30)]),
            "value": chance.choice([None, "", f"value {n}"]),
            "headers": chance.choice(
                [None, [], [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]]
            ),
            "topic": chance.choice(["one", "other"]),
            "partition": chance.choice([None, None, 2]),
            "offset": n,
        }
        for n in range(3_000)
    ]
    counts = {"one": 3, "other": 7}
    batches = [rows(made[at : at + 700]) for at in range(0, 3_000, 700)]
    settings = config(batch_size=5_000, compression_type=codec)
    found = opened(seal(batches, topic=None, config=settings, partitions_of=counts.__getitem__))
    wanted: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    keyless: dict[str, list[tuple[Any, ...]]] = {"one": [], "other": []}
    for row in made:
        headers = tuple((h["key"], h["value"]) for h in row["headers"] or ())
        value = None if row["value"] is None else row["value"].encode()
        record = (row["key"], value, headers)
        partition = row["partition"]
        if partition is None and row["key"] is not None:
            partition = partition_for_key(row["key"], counts[row["topic"]])
        if partition is None:
            keyless[row["topic"]].append(record)
        else:
            wanted.setdefault((row["topic"], partition), []).append(record)
    for (topic, partition), inside in found.items():
        free = [r for r in inside if r[0] is None]
        placed = [r for r in inside if r[0] is not None]
        assert placed == [r for r in wanted[topic, partition] if r[0] is not None]
        assert len(free) >= sum(r[0] is None for r in wanted.get((topic, partition), ()))
    for topic, free in keyless.items():
        fixed = [r for (t, _), rs in wanted.items() if t == topic for r in rs if r[0] is None]
        inside = [r for (t, _), rs in found.items() if t == topic for r in rs if r[0] is None]
        assert sorted(inside, key=repr) == sorted([*free, *fixed], key=repr)


def test_rows_without_key_fill_one_partition_after_the_other() -> None:
    made = rows([{"value": "x" * 84} for _ in range(1_000)])
    settings = config(batch_size=10_000)
    found = opened(seal([made], topic="t", config=settings, partitions_of=lambda _: 4, turn=6))
    assert sorted(found) == [("t", n) for n in range(4)]
    assert {len(inside) for inside in found.values()} <= set(range(200, 301))


def test_what_is_gathered_at_once_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [{"key": b"%d" % (n % 50), "value": str(n)} for n in range(2_000)]
    batches = [rows(made[at : at + 100]) for at in range(0, 2_000, 100)]

    def sealed() -> dict[tuple[str, int], list[tuple[Any, ...]]]:
        return opened(seal(batches, topic="t", config=config(), partitions_of=lambda _: 5))

    whole = sealed()
    monkeypatch.setattr(sealing, "ROWS_BYTES", 5_000)
    assert sealed() == whole


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"value": "x", "topic": None}, "a row has no topic"),
        ({"value": "x", "topic": "t", "partition": 5}, "topic t has no partition 5; it has 5"),
        ({"value": "x", "topic": "t", "partition": -1}, "topic t has no partition -1; it has 5"),
    ],
)
def test_rows_that_are_no_records_are_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(RowRefused, match=said):
        list(seal([rows([row])], topic=None, config=config(), partitions_of=lambda _: 5))


def test_a_record_above_the_largest_request_is_refused() -> None:
    made = rows([{"value": np.random.default_rng(1).bytes(3_000).hex()}])
    settings = config(max_request_size=5_000)
    with pytest.raises(KafkaError, match=r"max\.request\.size is 5000") as raised:
        list(seal([made], topic="t", config=settings, partitions_of=lambda _: 1))
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE
