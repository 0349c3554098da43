"""Helpers for the tests of compaction: a log of keyed records, rounds of compaction, and the
records that a log then holds."""

from typing import NamedTuple

from log.support import NOW, PATH, append, open_log

from pk.core.log.compaction.compact import Cleaned, Done, clean
from pk.core.log.compaction.job import CompactionConfig, cleanable, is_due, make_job, prepare
from pk.core.log.config import LogConfig
from pk.core.log.disk import Disk
from pk.core.log.log import Log
from pk.core.record.batch import Record, read_header, records
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec

ALWAYS = CompactionConfig(min_dirty_ratio=0.0, delete_retention_ms=1000)
SMALL = LogConfig(
    segment_bytes=600, index_interval_bytes=100, segment_index_bytes=600, compact=True
)


class Write(NamedTuple):
    """A record to be: a key and a value, None for a tombstone."""

    key: bytes
    value: bytes | None


def keyed(
    writes: list[Write],
    *,
    timestamp: int = NOW,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """A batch of records with keys."""
    return build_batch(
        [(timestamp + i, w.key, w.value, ()) for i, w in enumerate(writes)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
        codec=codec,
    )


def put(
    log: Log, *pairs: tuple[str, str | None], now_ms: int = NOW, codec: Codec = Codec.NONE
) -> int:
    """Append a batch of these keys and values; its base offset."""
    writes = [Write(k.encode(), None if v is None else v.encode()) for k, v in pairs]
    return append(log, keyed(writes, codec=codec), now_ms=now_ms).base_offset


def compact(
    log: Log,
    disk: Disk,
    *,
    now_ms: int = NOW,
    config: CompactionConfig = ALWAYS,
    keys_max: int = 1000,
    limit: int | None = None,
) -> Done | None:
    """One round, whole, if the log is due for one."""
    log.durability.flush()
    found = cleanable(log, config, log.state.log_end_offset if limit is None else limit, now_ms)
    if found is None or not is_due(found, config):
        return None
    prepare(log, found)
    done = None
    for step in clean(disk, make_job(log, found, config, now_ms, keys_max)):
        if isinstance(step, Cleaned):
            assert log.segments.swap_in(step.base_offset, step.replaced, step.sizes)
            log.durability.sync_names()
            while log.segments.step_swap():
                log.durability.sync_names()
        elif isinstance(step, Done):
            done = step
            log.segments.first_dirty_offset = step.first_dirty_offset
    return done


def records_of(log: Log) -> list[Record]:
    """Every record that the log holds, control records left out, as a reader meets them."""
    found: list[Record] = []
    offset = log.state.log_start_offset
    while offset < log.state.log_end_offset:
        data = log.reader.read(offset, 1 << 16, log.state.log_end_offset).slice.read()
        if not data:
            break
        position = 0
        while position + 61 <= len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            if position + size > len(data):
                break
            batch = data[position : position + size]
            header = read_header(batch)
            if not header.is_control:
                found += [r for r in records(batch, header) if r.offset >= offset]
            offset, position = header.next_offset, position + size
    return found


def pairs_of(log: Log) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of every record."""
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for r in records_of(log)
    ]


def small_log(disk: Disk, recovery_point: int = 0) -> Log:
    """A log whose segments are small."""
    return open_log(disk, path=PATH, config=SMALL, recovery_point=recovery_point)
