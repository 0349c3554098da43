"""The same records as bytes by kafka-python and by aiokafka: theirs are ours, and each reads the
other's."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from effort import examples
from hypothesis import given, settings
from kafka.record.default_records import DefaultRecordBatch as KafkaBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder
from record.strategies import Row, stretches

from pk.core.record.batch import check_crc, read_header, records
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.validation import validate_records

BUILDERS = [KafkaBuilder, AioBuilder]
READERS = [KafkaBatch, AioBatch]

timed = stretches().filter(lambda rows: all(row[0] >= 0 for row in rows))
"""aiokafka takes a first timestamp of -1 for none yet, and puts the second in its place."""


def theirs(builder_class: type, rows: list[Row], codec: Codec, transactional: bool) -> bytes:
    builder = builder_class(2, int(codec), transactional, 77, 3, 12, 1 << 30)
    for offset, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    return bytes(builder.build())


@pytest.mark.parametrize("builder_class", BUILDERS)
@given(rows=timed)
@settings(max_examples=examples(40))
def test_uncompressed_bytes_are_the_same(builder_class: type, rows: list[Row]) -> None:
    ours = bytes(build_batch(rows, 0, -1, 77, 3, 12, transactional=True))
    expected = theirs(builder_class, rows, Codec.NONE, True)
    assert ours[16:] == expected[16:]
    assert ours[:12] == expected[:12]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("builder_class", BUILDERS)
@given(rows=timed)
@settings(max_examples=examples(20))
def test_we_read_theirs(builder_class: type, codec: Codec, rows: list[Row]) -> None:
    batch = theirs(builder_class, rows, codec, False)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert validate_records(batch, header).latest == max(row[0] for row in rows)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in records(batch)] == rows
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader_class", READERS)
@given(rows=timed)
@settings(max_examples=examples(20))
def test_they_read_ours(reader_class: type, codec: Codec, rows: list[Row]) -> None:
    batch = reader_class(bytes(build_batch(rows, 500, codec=codec)))
    assert batch.validate_crc()
    found = [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert found == rows
    assert batch.base_offset == 500
