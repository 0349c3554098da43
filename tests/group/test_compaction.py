"""A coordinator that reads a compacted log knows what one that reads all of it knows."""

from __future__ import annotations

from typing import Any

import pytest
from effort import examples
from group.test_replay import Anything, durable
from hypothesis import settings
from log.compaction.support import ALWAYS, Write, compact, keyed, records_of, small_log
from log.support import NOW, append

from pk.core.group.machine import GroupMachine
from pk.core.log.disk import MemoryDisk


class Compacted(Anything):
    """Whatever clients do, and then the cleaner."""

    def teardown(self) -> None:
        disk = MemoryDisk()
        log = small_log(disk)
        for i, (key, value) in enumerate(self.s.log):
            append(log, keyed([Write(key, value)]))
            if i % 5 == 4:
                log.segments.roll(NOW)
        log.segments.roll(NOW)
        whole = self._replayed(log)
        for later in (0, 2 * ALWAYS.delete_retention_ms):
            compact(log, disk, now_ms=NOW + later)
            log.segments.first_dirty_offset = 0
            assert durable(self._replayed(log)) == durable(whole)
        assert len(records_of(log)) <= len({key for key, _ in self.s.log})

    def _replayed(self, log: Any) -> GroupMachine:
        machine = GroupMachine(self.s.settings, lambda: "id")
        for record in records_of(log):
            decoded = machine.decode(record.key or b"", record.value)
            if decoded is not None:
                machine.replay(decoded, record.offset)
        return machine


TestCompacted = Compacted.TestCase
TestCompacted.settings = settings(max_examples=examples(15), stateful_step_count=25, deadline=None)


@pytest.mark.slow
class TestCompactedForLong(Compacted.TestCase):
    """The same, many times."""

    settings = settings(max_examples=500, stateful_step_count=50, deadline=None)
