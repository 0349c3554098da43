"""Frames and headers, and the bytes Kafka's rules give them."""

import pytest
from each import for_each
from wire.values import Maker

from pk.core.errors import ProtocolError
from pk.core.wire.codec import EncodeError, decode_whole, join
from pk.core.wire.header import (
    RequestHead,
    frame_request,
    frame_request_parts,
    frame_response,
    parse_request_header,
    parse_response_header,
)
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pk.core.wire.messages.metadata import MetadataRequest
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


def test_request_header_before_flexible_versions() -> None:
    frame = frame_request(MetadataRequest(topics=None), 1, 7, "me")
    assert frame == bytes.fromhex("00000010 0003 0001 00000007 0002 6d65 ffffffff")
    assert parse_request_header(frame, 4) == RequestHead(3, 1, 7, "me", 16)


def test_flexible_request_header_has_a_plain_client_id_and_tags() -> None:
    frame = frame_request(ApiVersionsRequest(), 3, 7, "me")
    assert frame == bytes.fromhex("00000010 0012 0003 00000007 0002 6d65 00 01 01 00")
    assert parse_request_header(frame, 4) == RequestHead(18, 3, 7, "me", 17)


def test_client_id_may_be_null_or_empty() -> None:
    for client_id in (None, ""):
        frame = frame_request(ApiVersionsRequest(), 0, 1, client_id)
        assert parse_request_header(frame, 4).client_id == client_id


def test_tags_of_a_header_are_skipped() -> None:
    head = bytes.fromhex("0012 0003 00000007 ffff 02 05 03 616263 81 01 00")
    assert parse_request_header(head, 0).body_position == len(head)
    assert parse_response_header(bytes.fromhex("00000009 01 07 02 6161"), 3, 12) == (9, 9)


def test_api_versions_of_any_version_can_be_parsed() -> None:
    """A version that is not known yet is flexible, and must be answered, so its header must be
    readable.
    """
    head = bytes.fromhex("0012 0063 00000007 0002 6d65 00")
    assert parse_request_header(head).api_version == 99
    assert parse_request_header(head).body_position == len(head)


def test_unknown_key_is_for_the_caller_to_refuse() -> None:
    head = bytes.fromhex("03e7 0063 00000007 0002 6d65 00")
    assert parse_request_header(head) == RequestHead(999, 99, 7, "me", 12)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_header_cut_short(kind: type) -> None:
    head = bytes.fromhex("0012 0003 00000007 0002 6d65 02 05 03 616263 81 01 00")
    for length in range(len(head)):
        with pytest.raises(ProtocolError):
            parse_request_header(kind(head[:length]))
    for length in range(5):
        with pytest.raises(ProtocolError):
            parse_response_header(kind(bytes(5)[:length]), 3, 12)


def test_client_id_that_is_not_text() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        parse_request_header(bytes.fromhex("0012 0000 00000007 0002 ff00"))


def test_tag_beyond_the_frame() -> None:
    with pytest.raises(ProtocolError, match="tagged"):
        parse_request_header(bytes.fromhex("0012 0003 00000007 ffff 01 05 ffffffff07"))


def test_response_header() -> None:
    old = join(frame_response(ProduceResponse(), 0, 3, 5))
    assert old == bytes.fromhex("0000000c 00000005 00000000 00000000")
    flexible = join(frame_response(ProduceResponse(), 0, 9, 5))
    assert flexible == bytes.fromhex("0000000b 00000005 00 01 00000000 00")
    assert parse_response_header(flexible[4:], 0, 9) == (5, 5)
    assert parse_response_header(old[4:], 0, 3) == (5, 4)


def test_api_versions_response_has_the_oldest_header() -> None:
    for version in range(5):
        frame = join(frame_response(ApiVersionsResponse(), 18, version, 5))
        assert parse_response_header(frame[4:], 18, version) == (5, 4)
        assert decode_whole(ApiVersionsResponse, frame, version, 8) == ApiVersionsResponse()


def test_size_counts_records_that_are_not_copied() -> None:
    records = memoryview(b"r" * 1000)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=records)])
    request = ProduceRequest(acks=1, topic_data=[topic])
    parts = frame_request_parts(request, 9, 1, None)
    assert any(part is records for part in parts)
    frame = join(parts)
    assert frame == frame_request(request, 9, 1, None)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    head = parse_request_header(frame, 4)
    assert decode_whole(ProduceRequest, frame, 9, head.body_position) == request


def test_correlation_id_that_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        frame_request(ApiVersionsRequest(), 0, 1 << 31, None)


@for_each("api", MESSAGES.values(), ids=lambda a: a.name)
def test_frames_of_every_api(api) -> None:
    for version in range(api.versions[0], api.versions[1] + 1):
        maker = Maker(version)
        request = maker.message(api.request, version)
        frame = frame_request(request, version, 41, "größe")
        head = parse_request_header(memoryview(frame), 4)
        assert head[:4] == (api.key, version, 41, "größe")
        assert decode_whole(api.request, frame, version, head.body_position) == request
        response = maker.message(api.response, version)
        answer = join(frame_response(response, api.key, version, 41))
        assert int.from_bytes(answer[:4]) == len(answer) - 4
        correlation_id, position = parse_response_header(answer[4:], api.key, version)
        assert correlation_id == 41
        assert decode_whole(api.response, answer[4:], version, position) == response
