"""Offsets of a stream in a checkpoint: equal ones are equal text, and nothing is lost on the way
there and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.core.values import TopicPartition
from pk.spark.stream.offsets import StreamOffset, WrongOffset

POSITIONS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b.c", "Z-9"]), st.integers(0, 12)),
    st.integers(0, 2**63 - 1),
    min_size=1,
)
IDS = st.dictionaries(st.sampled_from(["a", "b.c", "Z-9"]), st.binary(min_size=16, max_size=16))


@given(positions=POSITIONS, ids=IDS, start=st.none() | POSITIONS, seed=st.randoms())
def test_there_and_back_and_the_order_of_the_parts_does_not_count(
    positions: dict[TopicPartition, int],
    ids: dict[str, bytes],
    start: dict[TopicPartition, int] | None,
    seed: object,
) -> None:
    offset = StreamOffset(positions, ids, start)
    text = json.dumps(offset.json())
    assert StreamOffset.parse(json.loads(text)) == offset
    shuffled = list(positions.items())
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert json.dumps(StreamOffset(dict(shuffled), ids, start).json()) == text


def test_partitions_stand_in_the_order_of_their_numbers_as_spark_writes_them() -> None:
    offset = StreamOffset({TopicPartition("t", n): n for n in (10, 9, 2)})
    assert json.dumps(offset.json()) == '{"t": {"2": 2, "9": 9, "10": 10}}'


def test_the_beginning_is_empty() -> None:
    assert StreamOffset().json() == {}
    assert StreamOffset.parse({}).is_initial


@pytest.mark.parametrize(
    "value", [None, 7, "x", {"t": 5}, {"t": {"a": 1}}, {"@ids": {"t": "?"}}, {"@start": 3}]
)
def test_an_offset_of_another_source_is_refused(value: object) -> None:
    with pytest.raises(WrongOffset, match="needs a new checkpoint"):
        StreamOffset.parse(value)
