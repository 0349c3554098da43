"""Every message in every version: round trips, truncated input, false lengths, and required
refusals."""

import random
import tracemalloc
from itertools import count
from typing import Any

import pytest
from each import for_each
from hypothesis import given, settings
from hypothesis import strategies as st
from wire.values import Maker, all_messages, cases, default, versions

from pk.core.errors import ProtocolError
from pk.core.wire.codec import EncodeError, decode, decode_whole, encode, encode_parts, part_bytes
from pk.core.wire.decoder import ELEMENTS_MAX
from pk.core.wire.emit import append_uvarint, fields_of, uvarint_tail
from pk.core.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pk.core.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pk.core.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from pk.core.wire.messages.list_groups import ListGroupsRequest
from pk.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pk.core.wire.schema import Message

MESSAGES = all_messages()
NAMELESS = TopicProduceData(name=None)  # pyright: ignore[reportArgumentType]
BY_CLASS = for_each("cls", MESSAGES, ids=lambda c: c.__name__)


@BY_CLASS
def test_round_trip(cls: type[Message]) -> None:
    for version in versions(cls):
        maker = Maker(version)
        for made in [cls(), *(maker.message(cls, version) for _ in range(4))]:
            data = encode(made, version)
            for buffer in (data, bytearray(data), memoryview(data)):
                assert decode_whole(cls, buffer, version) == made
            padded = b"before" + data + b"after"
            assert decode(cls, padded, version, 6) == (made, 6 + len(data))


@BY_CLASS
def test_cut_short_at_every_length(cls: type[Message]) -> None:
    for version in versions(cls):
        maker = Maker(version, records=lambda r: r.randbytes(9), items_max=1)
        data = encode(maker.message(cls, version), version)[:2000]
        for length in range(len(data)):
            with pytest.raises(ProtocolError):
                decode_whole(cls, data[:length], version)


@BY_CLASS
def test_bytes_after_the_end_are_noticed(cls: type[Message]) -> None:
    for version in versions(cls):
        data = encode(Maker(7).message(cls, version), version)
        assert decode(cls, data + b"\0", version)[1] == len(data)
        with pytest.raises(ProtocolError, match="1 bytes after its end"):
            decode_whole(cls, data + b"\0", version)


@BY_CLASS
def test_damaged_and_random_bytes_are_a_protocol_error_or_a_message(cls: type[Message]) -> None:
    """Whatever decodes encodes again, if only into a shorter form: nothing half made comes out."""
    chance = random.Random(cls.__name__)
    for version in versions(cls):
        data = encode(Maker(version).message(cls, version), version)[:3000]
        for _ in range(12):
            damaged = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 127, 128, 255))
            for buffer in (damaged, chance.randbytes(chance.randint(0, 60))):
                try:
                    made, end = decode(cls, buffer, version)
                except ProtocolError:
                    continue
                assert end <= len(buffer)
                assert decode_whole(cls, encode(made, version), version).FIELDS is cls.FIELDS


@given(st.sampled_from(list(cases())), st.integers(0, 2**32))
@settings(max_examples=75, deadline=None)
def test_round_trip_of_any_seed(case: tuple[type[Message], int], seed: int) -> None:
    cls, version = case
    made = Maker(seed).message(cls, version)
    assert decode_whole(cls, encode(made, version), version) == made


@BY_CLASS
def test_set_fields_that_a_version_lacks(cls: type[Message]) -> None:
    """An ignorable field is dropped, another is refused, and a default value is never an error."""
    for version in versions(cls):
        for name, kind, f in fields_of(cls):
            if f.within(version):
                continue
            message = cls()
            assert getattr(message, name) == default(f)
            plain = encode(message, version)
            made = (Maker(seed, items_max=2).value(kind, None, f.since) for seed in count(3))
            value = next(each for each in made if each != default(f))
            setattr(message, name, value)
            if f.ignorable:
                assert encode(message, version) == plain
            else:
                with pytest.raises(EncodeError, match=f"has no {name} in {cls.__name__}"):
                    encode(message, version)


def test_nested_fields_that_a_version_lacks() -> None:
    partition = PartitionData(diverging_epoch=EpochEndOffset(epoch=3))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    encode(response, 12)
    with pytest.raises(EncodeError, match="FetchResponse version 11 has no diverging_epoch"):
        encode(response, 11)
    with pytest.raises(EncodeError, match="replica_state"):
        encode(FetchRequest(replica_state=ReplicaState(replica_epoch=1)), 14)


def test_version_outside_the_range_is_the_callers_mistake() -> None:
    for version in (-1, 14, 99):
        with pytest.raises(ValueError, match="0 to 13"):
            encode(ProduceRequest(), version)
        with pytest.raises(ValueError, match="0 to 13"):
            decode(ProduceRequest, b"", version)


@for_each(
    ("message", "version"),
    [
        (ProduceRequest(acks=1 << 15), 3),
        (ProduceRequest(acks=-(1 << 15) - 1), 9),
        (ProduceRequest(timeout_ms="soon"), 9),  # pyright: ignore[reportArgumentType]
        (ProduceRequest(topic_data=None), 9),  # pyright: ignore[reportArgumentType]
        (ProduceRequest(topic_data=[NAMELESS]), 9),
        (ProduceRequest(topic_data=[TopicProduceData(name="x" * 32768)]), 3),
        (ProduceRequest(topic_data=[TopicProduceData(name="x" * 32768)]), 9),
        (ProduceRequest(transactional_id="ä" * 16384), 9),
        (ProduceRequest(topic_data=[TopicProduceData(topic_id=b"short")]), 13),
        (ProduceRequest(transactional_id="\ud800"), 9),
        (MetadataRequest(topics=None), 0),
        (ListGroupsRequest(states_filter=["a", None]), 4),  # pyright: ignore[reportArgumentType]
    ],
)
def test_values_that_do_not_fit(message: Message, version: int) -> None:
    with pytest.raises(EncodeError):
        encode(message, version)


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (MetadataRequest, 1, b"\x7f\xff\xff\xff" + bytes(100)),
        (MetadataRequest, 12, b"\xff\xff\xff\xff\x07" + bytes(100)),
        (MetadataResponse, 0, b"\x7f\xff\xff\xff" + bytes(1000)),
        (ApiVersionsResponse, 0, b"\0\0\x7f\xff\xff\xff" + bytes(100)),
        (ApiVersionsRequest, 3, b"\x81\x80\x80\x80\x08x"),
        (ProduceRequest, 9, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        (FetchRequest, 18, bytes(13) + b"\xff\xff\xff\xff\x0f" + bytes(100)),
    ],
)
def test_claimed_sizes_are_not_allocated(cls: type[Message], version: int, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(cls, data, version)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(cls, data, version)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000


def test_the_arrays_of_a_request_are_bounded_together_those_of_an_answer_are_not() -> None:
    half = OffsetFetchRequestTopic(name="t", partition_indexes=[0] * (ELEMENTS_MAX // 2 - 1))
    allowed = OffsetFetchRequest(group_id="g", topics=[half, half])
    data = encode(allowed, 7)
    assert decode_whole(OffsetFetchRequest, data, 7) == allowed
    allowed.topics = [half, half, OffsetFetchRequestTopic(name="t")]
    with pytest.raises(ProtocolError, match="counts more than one request may"):
        decode(OffsetFetchRequest, encode(allowed, 7), 7)
    partition = MetadataResponsePartition(replica_nodes=[0] * (ELEMENTS_MAX + 1))
    answer = MetadataResponse(topics=[MetadataResponseTopic(partitions=[partition])])
    assert decode_whole(MetadataResponse, encode(answer, 9), 9) == answer


@for_each(
    ("cls", "version", "data", "what"),
    [
        (ProduceRequest, 0, b"\0\1\0\0\0\1\xff\xff\xff\xff", "topic_data is null"),
        (ProduceRequest, 9, b"\0\0\1\0\0\0\1\0\0", "topic_data is null"),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "topics is null"),
        (ApiVersionsRequest, 3, b"\0\1\0", "client_software_name is null"),
        (ApiVersionsRequest, 3, b"\2\xff\1\0", "not UTF-8"),
        (ApiVersionsRequest, 3, b"\x81\x80\x80\x80\x80\x00", "varint of more than five bytes"),
        (ApiVersionsRequest, 3, b"\6ab\1\0", "client_software_name ends beyond"),
        (
            ApiVersionsRequest,
            3,
            b"\x81\x80\2" + b"x" * 32768 + b"\1\0",
            "client_software_name is longer than 32767 bytes",
        ),
        (ApiVersionsRequest, 3, b"\1\1\1\5\7ab", "tagged field 5 ends beyond"),
        (FetchRequest, 12, bytes(25) + b"\1\1\1" + b"\1\0\3\2a\0", "cluster_id has another size"),
        (MetadataRequest, 1, b"\0\0\0\1\0", "counts more|ends too soon"),
    ],
)
def test_what_is_wrong_is_said(cls: type[Message], version: int, data: bytes, what: str) -> None:
    with pytest.raises(ProtocolError, match=what):
        decode_whole(cls, data, version)


def test_the_longest_string_there_may_be() -> None:
    longest = ProduceRequest(transactional_id="x" * 32767)
    for version in (3, 9):
        assert decode_whole(ProduceRequest, encode(longest, version), version) == longest


def test_null_and_empty_are_different() -> None:
    for version in (1, 12):
        for topics in (None, []):
            again = decode_whole(
                MetadataRequest, encode(MetadataRequest(topics=topics), version), version
            )
            assert again.topics == topics


def test_unknown_tagged_fields_are_skipped_and_known_ones_come_in_any_order() -> None:
    bare = encode(FetchRequest(), 15)
    assert bare.endswith(b"\0")
    state = bytes.fromhex("00000007 0000000000000009 00")
    cluster = b"\2c"

    def tagged(*entries: tuple[int, bytes]) -> bytes:
        out = bytearray(bare[:-1])
        append_uvarint(out, len(entries))
        for tag, body in entries:
            append_uvarint(out, tag)
            append_uvarint(out, len(body))
            out += body
        return bytes(out)

    expected = FetchRequest(
        cluster_id="c", replica_state=ReplicaState(replica_id=7, replica_epoch=9)
    )
    for entries in (
        [(0, cluster), (1, state)],
        [(1, state), (0, cluster)],
        [(0, cluster), (1, state), (77, b"new"), (1 << 30, b"z" * 300)],
        [(0, b"\2b"), (0, cluster), (1, state)],
        [(n, b"") for n in range(2, 202)] + [(0, cluster), (1, state)],
    ):
        assert decode_whole(FetchRequest, tagged(*entries), 15) == expected
    assert encode(expected, 15) == tagged((0, cluster), (1, state))


def test_tagged_fields_appear_only_when_they_differ() -> None:
    assert encode(ApiVersionsResponse(), 3) == bytes.fromhex("0000 01 00000000 00")
    assert encode(ApiVersionsResponse(finalized_features_epoch=2), 3) == bytes.fromhex(
        "0000 01 00000000 01 01 08 0000000000000002"
    )


def test_nullable_struct_begins_with_a_byte() -> None:
    bare = ConsumerGroupHeartbeatResponse(member_id="m")
    assert encode(bare, 0)[-2:] == b"\xff\0"
    bare.assignment = Assignment()
    assert encode(bare, 0)[-4:] == b"\1\1\0\0"
    request = ConsumerGroupHeartbeatRequest(topic_partitions=[])
    data = encode(request, 1)
    assert decode_whole(ConsumerGroupHeartbeatRequest, data, 1) == request


class Unread:
    """A log slice that knows its length, and can be read once."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)

    def read(self) -> bytes:
        return self.data


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_passed_through_uncopied(version: int) -> None:
    pieces: list[Any] = [Unread(b"a" * 500), memoryview(b"bb"), bytearray(b"ccc"), b"", None]
    response = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(records=p) for p in pieces])]
    )
    parts = encode_parts(response, version)
    for piece in pieces[:3]:
        assert any(part is piece for part in parts)
    data = encode(response, version)
    assert len(data) == sum(part_bytes(part) for part in parts)
    again = decode_whole(FetchResponse, data, version)
    found = [p.records for p in again.responses[0].partitions]
    assert found == [b"a" * 500, b"bb", b"ccc", b"", None]


def test_decoded_records_are_a_view_of_the_frame() -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"batch")])
    frame = bytearray(encode(ProduceRequest(acks=1, topic_data=[topic]), 7))
    records = decode_whole(ProduceRequest, frame, 7).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview) and not records.readonly
    frame[frame.index(b"batch")] = ord("B")
    assert records == b"Batch"


@given(st.integers(0, 2**35 - 1))
def test_uvarint(value: int) -> None:
    out = bytearray()
    append_uvarint(out, value)
    assert uvarint_tail(out, 1, out[0]) == (value, len(out)) if value > 127 else out[0] == value


def test_traceback_shows_the_generated_line() -> None:
    import traceback

    try:
        encode(ProduceResponse(throttle_time_ms=1 << 40), 9)
    except EncodeError as e:
        text = "".join(traceback.format_exception(e))
    else:
        pytest.fail("encoded")
    assert "<wire ProduceResponse version 9: encode>" in text
    assert "pack_ix(m.throttle_time_ms)" in text
