"""Messages decoded and encoded in turns: the same as at once, for what is well-formed and what is
not, with a pause after so many elements however they are nested."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from wire.values import Maker, all_messages, versions

from pk.core.errors import ProtocolError
from pk.core.turns import Turns, at_once
from pk.core.wire.codec import (
    EncodeError,
    decode,
    decode_in_turns,
    decode_whole,
    decode_whole_in_turns,
    encode,
    encode_in_turns,
    join,
)
from pk.core.wire.emit import ELEMENTS_IN_A_TURN, FIXED_IN_A_TURN
from pk.core.wire.header import (
    frame_request,
    frame_request_in_turns,
    frame_response,
    frame_response_in_turns,
)
from pk.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pk.core.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pk.core.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pk.core.wire.schema import Message


def outcome(work: Callable[[], Any]) -> Any:
    """What it comes to, or what its error says."""
    try:
        return work()
    except (ProtocolError, EncodeError) as e:
        return type(e), str(e)


def turns(work: Turns[Any]) -> int:
    """The pauses of a work."""
    return sum(1 for _ in work)


PAIRS = [(decode, decode_in_turns), (decode_whole, decode_whole_in_turns)]


@pytest.mark.parametrize("cls", all_messages(), ids=lambda c: c.__name__)
def test_it_is_the_same_as_at_once(cls: type[Message]) -> None:
    chance = random.Random(cls.__name__)
    for version in versions(cls):
        made = Maker(version).message(cls, version)
        data = encode(made, version)
        assert join(at_once(encode_in_turns(made, version, bytearray()))) == data
        damaged = bytearray(data[:3000])
        for _ in range(2):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 127, 128, 255))
        for buffer in (data, data + b"\0", data[: len(data) // 2], damaged):
            for whole, in_turns in PAIRS:
                assert outcome(lambda: at_once(in_turns(cls, buffer, version))) == outcome(  # noqa: B023 (called at once)
                    lambda: whole(cls, buffer, version)  # noqa: B023
                )


def test_frames_are_the_same() -> None:
    request, response = MetadataRequest(topics=None), MetadataResponse()
    for version in range(1, 13):
        for client_id in ("c", None):
            assert at_once(frame_request_in_turns(request, version, 7, client_id)) == frame_request(
                request, version, 7, client_id
            )
        framed = at_once(frame_response_in_turns(response, 3, version, 7))
        assert join(framed) == join(frame_response(response, 3, version, 7))


def test_what_cannot_be_encoded_is_refused_as_at_once() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)])
    assert outcome(lambda: at_once(encode_in_turns(request, 12, bytearray()))) == outcome(
        lambda: encode(request, 12)
    )
    request.topics = [MetadataRequestTopic(name=7)]  # type: ignore[arg-type]
    with pytest.raises(EncodeError):
        at_once(encode_in_turns(request, 12, bytearray()))


MANY = 20 * ELEMENTS_IN_A_TURN
LARGE = [
    (MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(MANY)]), 12),
    (ConsumerGroupDescribeRequest(group_ids=[f"g{n}" for n in range(MANY)]), 0),
    # Small arrays in a large one, and a large one in small ones.
    (
        OffsetFetchRequest(
            group_id="g",
            topics=[
                OffsetFetchRequestTopic(name=f"t{n}", partition_indexes=[n]) for n in range(MANY)
            ],
        ),
        7,
    ),
    (
        ShareAcknowledgeRequest(
            group_id="g",
            topics=[
                AcknowledgeTopic(
                    topic_id=bytes(16),
                    partitions=[
                        AcknowledgePartition(
                            partition_index=0,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=n, last_offset=n, acknowledge_types=[1]
                                )
                                for n in range(MANY)
                            ],
                        )
                    ],
                )
            ],
        ),
        1,
    ),
]


@pytest.mark.parametrize(("request_", "version"), LARGE, ids=lambda x: type(x).__name__)
def test_it_pauses_after_so_many_elements(request_: Message, version: int) -> None:
    assert turns(encode_in_turns(request_, version, bytearray())) >= MANY // ELEMENTS_IN_A_TURN
    data = encode(request_, version)
    assert turns(decode_in_turns(type(request_), data, version)) >= MANY // ELEMENTS_IN_A_TURN


def test_what_is_small_does_not_pause() -> None:
    request = DescribeTopicPartitionsRequest(topics=[])
    assert turns(encode_in_turns(request, 0, bytearray())) == 0
    assert turns(decode_in_turns(type(request), encode(request, 0), 0)) == 0


def test_many_numbers_are_read_and_written_in_turns() -> None:
    numbers = list(range(3 * FIXED_IN_A_TURN + 1))
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=numbers)]
    )
    data = encode(request, 7)
    assert join(at_once(encode_in_turns(request, 7, bytearray()))) == data
    assert at_once(decode_whole_in_turns(OffsetFetchRequest, data, 7)) == request
    assert turns(encode_in_turns(request, 7, bytearray())) == 3
    assert turns(decode_in_turns(OffsetFetchRequest, data, 7)) == 3
