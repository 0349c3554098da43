"""The power fails at every change that a log with transactions makes to the disk. Afterwards the
log knows which transactions were aborted.

This is test_crash_everywhere.py with producers whose transactions begin, grow, commit and abort,
over several segments. After the next start, the index lists exactly the aborted transactions that
still have records, and read_committed readers stop before the first open transaction.
"""

from __future__ import annotations

from random import Random

import pytest
from log.cutting import CuttingDisk, cut_everywhere
from log.support import NOW, TOPIC_ID, TP, append, end_transaction, headers_of, make_batch
from log.test_crash_everywhere import CONFIG, open_dirs

from pk.core.log import aborted
from pk.core.log.log import Log
from pk.core.record.batch import records
from pk.core.record.build import ControlType, control_type

PRODUCERS = [7, 8, 9]


def run(disk: CuttingDisk, seed: int) -> None:
    random = Random(seed)
    dirs = open_dirs(disk)
    log = dirs.open_log(TP, TOPIC_ID, CONFIG, NOW)
    sequences = dict.fromkeys(PRODUCERS, 0)
    for _ in range(random.randrange(10, 30)):
        what = random.choice(
            ["send"] * 4 + ["end"] * 4 + ["flush", "flush", "roll", "retain", "note"]
        )
        producer_id = random.choice(PRODUCERS)
        if what == "send":
            batch = make_batch(
                producer_id=producer_id,
                producer_epoch=0,
                sequence=sequences[producer_id],
                transactional=True,
            )
            sequences[producer_id] += 1
            append(log, batch)
        elif what == "end":
            end_transaction(log, producer_id, commit=random.random() < 0.3)
        elif what == "flush":
            log.durability.flush()
        elif what == "roll":
            log.segments.roll(NOW)
        elif what == "retain":
            log.segments.delete_before(
                random.randint(log.state.log_start_offset, log.state.log_end_offset) // 2
            )
            log.segments.remove_deleted()
        else:
            dirs.write_recovery_points()
            dirs.write_log_start_offsets()
    dirs.close({})


def expected(log: Log) -> tuple[dict[tuple[int, int], int], int]:
    """The content of the log: (producer, offset of its abort) → the first remaining offset of that
    transaction; and the start of the oldest open transaction, or the log end."""
    found: dict[tuple[int, int], int] = {}
    begun: dict[int, int] = {}
    for header in headers_of(log):
        if header.last_offset < log.state.log_start_offset:
            continue
        if not header.is_control:
            begun.setdefault(header.producer_id, header.base_offset)
            continue
        segment = next(
            s for s in reversed(log.state.segments) if s.base_offset <= header.base_offset
        )
        place = segment.locate(header.base_offset)
        assert place is not None
        marker = next(records(segment.batch_at(place.position, header), header))
        first = begun.pop(header.producer_id, None)
        if first is not None and control_type(marker) is ControlType.ABORT:
            found[header.producer_id, header.base_offset] = first
    return found, min(begun.values(), default=log.state.log_end_offset)


def check(disk: CuttingDisk) -> None:
    log = open_dirs(disk).open_log(TP, TOPIC_ID, CONFIG, NOW)
    end, start = log.state.log_end_offset, log.state.log_start_offset
    due, stable = expected(log)
    reported = {
        (a.producer_id, a.last_offset): a.first_offset for a in aborted.between(log.state, 0, end)
    }
    assert due.keys() <= reported.keys(), "every abort is known"
    assert all(reported[which] == first or reported[which] < start for which, first in due.items())
    for which, first in reported.items():
        assert which in due or first < start, "nothing made up"
    assert log.state.last_stable_offset(end) in (stable, start), (
        "or one is open that began before the log"
    )
    log.close()


def everywhere(seed: int) -> int:
    """How many operations the history has, or a few more."""
    at, disk, _ = cut_everywhere(
        seed, lambda: None, lambda disk, seed, _: run(disk, seed), lambda disk, _: check(disk)
    )
    check(disk)
    return at


@pytest.mark.parametrize("seed", range(2))
def test_the_power_goes_at_every_operation(seed: int) -> None:
    assert everywhere(seed) > 10


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_the_power_goes_at_every_operation_of_many_histories(chunk: int) -> None:
    for seed in range(100 + chunk * 50, 150 + chunk * 50):
        everywhere(seed)
