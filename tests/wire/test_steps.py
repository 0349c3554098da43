"""Messages decoded and encoded in steps: the result is the same as at once, for valid and invalid
input, with a rest after a number of elements at any nesting."""

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from each import for_each
from wire.values import Maker, all_messages, versions

from pk.core.errors import ProtocolError, TooManyElements
from pk.core.wire.codec import (
    EncodeError,
    decode,
    decode_in_steps,
    encode,
    encode_in_steps,
    encode_onto,
    join,
)
from pk.core.wire.emit import ELEMENTS_IN_A_STEP, FIXED_IN_A_STEP
from pk.core.wire.header import (
    frame_request,
    frame_request_in_steps,
    frame_response,
    frame_response_in_steps,
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
    """The result, or the error's message."""
    try:
        return work()
    except (ProtocolError, EncodeError) as e:
        return type(e), str(e)


def run(work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> tuple[Any, int]:
    """The result of `work(*args, rest)`, and how often it awaits `rest`."""
    rests = 0

    async def rest() -> None:
        nonlocal rests
        rests += 1

    try:
        work(*args, rest).send(None)
    except StopIteration as done:
        return done.value, rests
    raise AssertionError("it waits for something else")


def encoded(message: Message, version: int) -> bytes:
    """Encode in steps."""
    return join(run(encode_in_steps, message, version, bytearray())[0])


@for_each("cls", all_messages(), ids=lambda c: c.__name__)
def test_it_is_the_same_as_at_once(cls: type[Message]) -> None:
    chance = random.Random(cls.__name__)
    for version in versions(cls):
        made = Maker(version).message(cls, version)
        data = encode(made, version)
        assert encoded(made, version) == data
        damaged = bytearray(data[:3000])
        for _ in range(2):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 127, 128, 255))
        for buffer in (data, data + b"\0", data[: len(data) // 2], damaged):
            assert outcome(lambda: run(decode_in_steps, cls, buffer, version, 0)[0]) == outcome(  # noqa: B023 (called at once)
                lambda: decode(cls, buffer, version)  # noqa: B023
            )


def test_frames_are_the_same() -> None:
    request, response = MetadataRequest(topics=None), MetadataResponse()
    for version in range(1, 13):
        for client_id in ("c", None):
            framed, _ = run(frame_request_in_steps, request, version, 7, client_id)
            assert framed == frame_request(request, version, 7, client_id)
        framed, _ = run(frame_response_in_steps, response, 3, version, 7)
        assert join(framed) == join(frame_response(response, 3, version, 7))


def test_what_cannot_be_encoded_is_refused_as_at_once() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)])
    assert outcome(lambda: encoded(request, 12)) == outcome(lambda: encode(request, 12))
    request.topics = [MetadataRequestTopic(name=7)]  # type: ignore[arg-type]
    with pytest.raises(EncodeError):
        encoded(request, 12)


MANY = 20 * ELEMENTS_IN_A_STEP
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
def test_it_rests_after_so_many_elements(request_: Message, version: int) -> None:
    steps = MANY // ELEMENTS_IN_A_STEP
    assert run(encode_in_steps, request_, version, bytearray())[1] >= steps
    data = encode(request_, version)
    assert run(decode_in_steps, type(request_), data, version, 0)[1] >= steps


@pytest.mark.parametrize(("request_", "version"), LARGE, ids=lambda x: type(x).__name__)
def test_what_has_more_elements_than_the_caller_allows_is_not_encoded_at_once(
    request_: Message, version: int
) -> None:
    with pytest.raises(TooManyElements):
        encode_onto(request_, version, bytearray(), MANY - 1)
    assert join(encode_onto(request_, version, bytearray(), 3 * MANY)) == encode(request_, version)


def test_what_is_small_does_not_rest() -> None:
    request = DescribeTopicPartitionsRequest(topics=[])
    assert run(encode_in_steps, request, 0, bytearray())[1] == 0
    assert run(decode_in_steps, type(request), encode(request, 0), 0, 0)[1] == 0


def test_many_numbers_are_read_and_written_in_steps() -> None:
    numbers = list(range(3 * FIXED_IN_A_STEP + 1))
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=numbers)]
    )
    data = encode(request, 7)
    parts, rests = run(encode_in_steps, request, 7, bytearray())
    assert (join(parts), rests) == (data, 3)
    (decoded, _), rests = run(decode_in_steps, OffsetFetchRequest, data, 7, 0)
    assert (decoded, rests) == (request, 3)
