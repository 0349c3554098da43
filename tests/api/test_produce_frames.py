"""The fast path reads a Produce request's fields as the codec does, and writes the same bytes of an
answer as the codec."""

from __future__ import annotations

from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pk.core.api.records.produce_fast_path.frames import FramePattern
from pk.core.wire.codec import join
from pk.core.wire.header import frame_request, frame_response
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

Topics = list[tuple[str, bytes, list[tuple[int, bytes]]]]
"""(name, id, (partition, records))."""

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
partitions = st.tuples(st.integers(0, (1 << 31) - 1), st.binary(min_size=1, max_size=300))
topics = st.lists(
    st.tuples(
        names, st.binary(min_size=16, max_size=16), st.lists(partitions, min_size=1, max_size=4)
    ),
    min_size=1,
    max_size=3,
)
versions = st.integers(3, 13)


def request(version: int, some: Topics, acks: int = -1) -> ProduceRequest:
    by_id = version >= 13
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1500,
        topic_data=[
            TopicProduceData(
                name="" if by_id else name,
                topic_id=topic_id if by_id else bytes(16),
                partition_data=[PartitionProduceData(index=n, records=r) for n, r in several],
            )
            for name, topic_id, several in some
        ],
    )


@settings(max_examples=examples(300), deadline=None)
@given(versions, st.lists(topics, min_size=1, max_size=4), st.sampled_from([None, "", "me"]))
def test_requests_and_answers_are_the_codecs(
    version: int, several: list[Topics], client_id: str | None
) -> None:
    pattern = None
    for number, some in enumerate(several * 2):  # twice: what was cached must not mislead
        data = bytearray(
            b"before" + frame_request(request(version, some), version, number, client_id)
        )
        start, end = len("before") + 4, len(data)
        data += b"behind"
        pattern = pattern or FramePattern.of(data[start:end])
        assert pattern is not None
        assert (pattern.version, pattern.client_id) == (version, client_id)
        assert (pattern.acks, pattern.timeout_ms) == (-1, 1500)
        batches = pattern.batches(data, start, end)
        assert batches is not None
        expected = [
            (topic_id if version >= 13 else name.encode(), entry, partition, records)
            for entry, (name, topic_id, here) in enumerate(some)
            for partition, records in here
        ]
        assert expected == [
            (one.topic, one.entry, one.partition, data[one.start : one.stop]) for one in batches
        ]
        offsets = [(7 * i, -1, i) for i in range(len(batches))]
        pieces: list[bytes] = []
        for batch, place in zip(batches, offsets, strict=True):
            pieces += (batch.before, pattern.pack_offsets(*place))
        answer = pattern.answer(number, pieces)
        left = iter(offsets)
        response = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="" if version >= 13 else name,
                    topic_id=topic_id if version >= 13 else bytes(16),
                    partition_responses=[
                        PartitionProduceResponse(
                            index=n,
                            base_offset=o[0],
                            log_append_time_ms=o[1],
                            log_start_offset=o[2],
                        )
                        for (n, _), o in zip(here, left, strict=False)
                    ],
                )
                for name, topic_id, here in some
            ]
        )
        assert answer == join(frame_response(response, 0, version, number))


@settings(max_examples=examples(500), deadline=None)
@given(versions, topics, st.integers(0, 400), st.binary(max_size=5), st.integers(0, 8))
@example(9, [("t", bytes(16), [(0, b"r")])], 0, b"", 0)
def test_whatever_the_bytes_nothing_is_read_beyond_the_frame(
    version: int, some: Topics, at: int, other: bytes, left_out: int
) -> None:
    whole = frame_request(request(version, some), version, 5, "me")
    pattern = FramePattern.of(whole[4:])
    assert pattern is not None
    changed = bytearray(whole)
    changed[4 + at : 4 + at + len(other)] = other
    end = max(len(changed) - left_out, 4)
    batches = pattern.batches(changed, 4, end)
    FramePattern.of(changed[4:end])  # raises nothing, either
    if batches is not None:
        positions = [4, *(p for one in batches for p in (one.start, one.stop)), end]
        assert positions == sorted(positions)
