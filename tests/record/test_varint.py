import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint as kafka_decode
from kafka.record.util import encode_varint as kafka_encode

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.varint import (
    INT_BYTES_MAX,
    LONG_BYTES_MAX,
    VARINTS,
    encode_varint,
    read_varint,
)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_bytes_are_those_of_kafka_python(number: int) -> None:
    theirs = bytearray()
    kafka_encode(number, theirs.append)
    assert encode_varint(number) == bytes(theirs) == VARINTS[number]
    assert kafka_decode(encode_varint(number), 0)[0] == number
    data = b"\xff" + encode_varint(number) + b"\xff"
    assert read_varint(data, 1, LONG_BYTES_MAX) == (number, len(data) - 1)


def test_remembered_numbers_have_the_same_bytes() -> None:
    for number in (*range(-200, 700), *range(8100, 8300), *range((1 << 15) - 70, (1 << 15) + 70)):
        assert VARINTS[number] == encode_varint(number), number
        assert VARINTS[number] == encode_varint(number), number


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_32_bits_fit_in_five_bytes(number: int) -> None:
    data = encode_varint(number)
    assert read_varint(data, 0, INT_BYTES_MAX) == (number, len(data))


def test_a_longer_form_than_needed_is_read() -> None:
    assert read_varint(b"\x82\x80\x00", 0, INT_BYTES_MAX) == (1, 3)


def test_too_long_is_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        read_varint(b"\x80" * 5 + b"\x00", 0, INT_BYTES_MAX)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_cut_off_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_varint(b"\x80\x80", 0, INT_BYTES_MAX)
