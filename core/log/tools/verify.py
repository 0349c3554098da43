"""Verifies a partition's files: every batch, every record, and everything that refers to them.

Each finding is reported, with its file, byte and offset, and the check continues. Nothing is
repaired. inspect.py explains the effects of a broker using the files at the same time. Index
entries of the active segment and the newest epochs may also not be written yet, so missing ones are
not findings.

One damaged byte may cause many findings (a wrong base offset contradicts every index entry), so
only the first FINDINGS_MAX of each file are reported, and how many more there are.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from pk.core.errors import KafkaError
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.files import Disk
from pk.core.log.index import OFFSET_ENTRY, TIME_ENTRY
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.log.recovery import EPOCHS_FILE
from pk.core.log.segment import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX
from pk.core.log.tools.batch_check import BatchCheck
from pk.core.log.tools.inspect import (
    Again,
    Batch,
    Finding,
    OffsetEntry,
    Partition,
    SegmentFiles,
    TimeEntry,
    offset_entries,
    time_entries,
    txn_entries,
)
from pk.core.log.txnindex import ENTRY as TXN_ENTRY
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    body,
    records,
)
from pk.core.record.build import ControlType, control_type
from pk.core.record.walk import walk

FINDINGS_MAX: Final = 20


class Report(Struct):
    """The amounts checked, and the findings."""

    findings: list[Finding] = field(default_factory=list[Finding])
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    start_offset: int = -1
    """The base offset of the first segment; -1 if there is none."""
    end_offset: int = -1
    """The offset after the last readable batch."""

    def add(self, findings: list[Finding]) -> None:
        """Add the findings of one file, up to a limit."""
        self.findings += findings[:FINDINGS_MAX]
        if more := findings[FINDINGS_MAX:]:
            what = f"and {len(more)} more findings in this file from here on"
            self.findings.append(more[0]._replace(what=what))


class _IndexEntries(Struct):
    """The index files of a segment, read before its log."""

    offsets: list[OffsetEntry] = field(default_factory=list[OffsetEntry])
    times: list[TimeEntry] = field(default_factory=list[TimeEntry])
    aborted: list[AbortedTxn] = field(default_factory=list[AbortedTxn])
    log_bytes: int = 0
    """The size of the log before the index files were read: the indexes must cover this much."""


class _BatchSummary:
    """A summary of a segment's batches, for checking the files that refer to them. It uses arrays,
    because there may be millions of batches."""

    def __init__(self) -> None:
        self.positions = array("q")
        self.bases = array("q")
        self.lasts = array("q")
        self.times = array("q")
        self.aborts: dict[int, tuple[int, int | None, int]] = {}
        """Offset of an abort marker → producer, first offset of its transaction if that was seen,
        position."""

    def note(self, batch: Batch) -> None:
        self.positions.append(batch.position)
        self.bases.append(batch.header.base_offset)
        self.lasts.append(batch.header.last_offset)
        self.times.append(batch.header.max_timestamp)

    def holding(self, offset: int) -> int | None:
        """Return the index of the batch that contains `offset`; None if no batch does."""
        i = bisect_left(self.lasts, offset)
        return i if i < len(self.lasts) and self.bases[i] <= offset else None


class PartitionCheck:
    """One check of a partition's directory. Call `run` once.

    `progress` gets the number of bytes of logs read since its last call. With `logs` False the
    indexes are only checked against the headers; the contents of batches are not checked.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        again: Again | None = None,
        progress: Callable[[int], None] = lambda _: None,
        logs: bool = True,
    ) -> None:
        self._partition = Partition(disk, directory)
        self._again = again
        self._progress = progress
        self._logs = logs
        self._check = BatchCheck(None)
        self._open: dict[int, int] = {}
        """Producer → the first offset of its open transaction, if the check saw it begin."""
        self.report = Report()

    def run(self) -> Report:
        """Check everything. Raises OSError, except for files that are removed in the meantime."""
        partition, report = self._partition, self.report
        self._read_epochs()
        for offset in partition.snapshots:
            self._check_snapshot(offset)
        segments = partition.segments
        if segments:
            report.start_offset = segments[0].base_offset
        for i, segment in enumerate(segments):
            following = segments[i + 1].base_offset if i + 1 < len(segments) else None
            try:
                self._check_segment(segment, following)
            except FileNotFoundError:
                continue  # removed by retention
            report.segments += 1
        report.end_offset = self._check.next_offset
        self._check_orphans()
        return report

    # --- small files ---

    def _read_epochs(self) -> None:
        path = self._partition.path(EPOCHS_FILE)
        content = self._partition.read(path)
        if not content:  # Kafka creates an empty file before the first epoch
            return
        try:
            self._check.epochs = LeaderEpochs.parse(content)
        except ValueError as e:
            self.report.add([Finding(path, 0, -1, str(e))])

    def _check_snapshot(self, offset: int) -> None:
        path = self._partition.segment_path(offset, SNAPSHOT)
        content = self._partition.read(path)
        if content is None:
            return
        try:
            producers = Producers.from_snapshot(content, offset, 0)
        except CorruptSnapshot as e:
            self.report.add([Finding(path, 0, offset, f"no producer snapshot: {e}")])
            return
        self.report.add(
            [
                Finding(
                    path,
                    0,
                    state.last_offset,
                    (
                        f"producer {state.producer_id} has the last offset "
                        f"{state.last_offset}, after the snapshot"
                    ),
                )
                for state in producers
                if state.last_offset >= offset
            ]
        )

    def _check_orphans(self) -> None:
        """Report indexes without a log, if that was so both at the start of the check and now."""
        partition = self._partition
        for base, files in partition.orphans:
            for suffix in files:
                path = partition.segment_path(base, suffix)
                if partition.disk.exists(path) and not partition.disk.exists(
                    partition.segment_path(base, LOG)
                ):
                    self.report.add([Finding(path, 0, base, "the log of this index is missing")])

    # --- a segment ---

    def _read_indexes(self, segment: SegmentFiles) -> _IndexEntries:
        """Read the index files of a segment, and report problems within each."""
        partition, base, found = self._partition, segment.base_offset, _IndexEntries()
        found.log_bytes = partition.disk.open(partition.segment_path(base, LOG)).size()
        if INDEX in segment.files:
            path = partition.segment_path(base, INDEX)
            found.offsets, wrong = offset_entries(path, partition.read(path) or b"", base)
            self.report.add(wrong)
        if TIME_INDEX in segment.files:
            path = partition.segment_path(base, TIME_INDEX)
            found.times, wrong = time_entries(path, partition.read(path) or b"", base)
            self.report.add(wrong)
        if TXN_INDEX in segment.files:
            path = partition.segment_path(base, TXN_INDEX)
            found.aborted, wrong = txn_entries(path, partition.read(path) or b"")
            self.report.add(wrong)
        return found

    def _check_segment(self, segment: SegmentFiles, following: int | None) -> None:
        partition, report = self._partition, self.report
        indexes = self._read_indexes(segment)
        anchors = sorted({entry.position for entry in indexes.offsets})
        again = self._again if following is None else None
        scan = partition.scan(segment.base_offset, anchors=anchors, again=again)
        path = partition.segment_path(segment.base_offset, LOG)
        walked, reported = _BatchSummary(), 0
        findings: list[Finding] = []
        self._check.next_offset = max(self._check.next_offset, segment.base_offset)
        for batch in scan:
            walked.note(batch)
            report.batches += 1
            findings += [
                Finding(path, batch.position, batch.header.base_offset, what)
                for what in self._check_batch(batch, walked, following)
            ]
            if scan.end_position - reported >= 1 << 22:
                self._progress(scan.end_position - reported)
                reported = scan.end_position
        self._progress(scan.end_position - reported)
        report.bytes += scan.end_position
        findings += [p._replace(offset=_after(walked, p.position)) for p in scan.problems]
        report.add(sorted(findings, key=lambda f: f.position))
        self._check_offset_index(segment, indexes, walked)
        self._check_time_index(segment, indexes, walked, following)
        self._check_txn_index(segment, indexes, walked)

    def _check_batch(self, batch: Batch, walked: _BatchSummary, following: int | None) -> list[str]:
        wrong = self._check.check(batch.header, following)
        if not self._logs:
            return wrong
        if (error := batch.crc_error) is not None:
            return [*wrong, error]
        try:
            if batch.header.magic != MAGIC:
                self.report.records += len(batch.records())
            else:
                wrong += self._check_inside(batch, walked)
        except KafkaError as e:
            wrong.append(f"what is inside cannot be read: {e.message}")
        return wrong

    def _check_inside(self, batch: Batch, walked: _BatchSummary) -> list[str]:
        header = batch.header
        self.report.records += header.count
        if header.attributes & CONTROL_BIT:
            return self._check_control(batch, walked)
        if header.attributes & TRANSACTIONAL_BIT:
            self._open.setdefault(header.producer_id, header.base_offset)
        if header.count == header.last_offset_delta + 1:
            _, most = walk(body(batch.data, header), header.count, False)
            latest = header.base_timestamp + most
        else:
            latest, due = -1, 0
            for record in records(batch.data, header):
                if not due <= record.offset - header.base_offset <= header.last_offset_delta:
                    return [f"offset {record.offset} is out of its place in the batch"]
                due = record.offset - header.base_offset + 1
                latest = max(latest, record.timestamp)
        if latest > header.max_timestamp and not header.attributes & LOG_APPEND_TIME_BIT:
            return [f"a record's time is {latest}, later than the batch's ({header.max_timestamp})"]
        return []

    def _check_control(self, batch: Batch, walked: _BatchSummary) -> list[str]:
        header = batch.header
        found = list(records(batch.data, header))
        if not found:
            return []  # compaction keeps an empty batch for a producer's last sequence
        kind = control_type(found[0])
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            first = self._open.pop(header.producer_id, None)
            if kind is ControlType.ABORT:
                walked.aborts[header.last_offset] = (header.producer_id, first, batch.position)
        return []

    # --- files that refer to it ---

    def _check_offset_index(
        self, segment: SegmentFiles, indexes: _IndexEntries, walked: _BatchSummary
    ) -> None:
        path = self._partition.segment_path(segment.base_offset, INDEX)
        entries = indexes.offsets
        findings: list[Finding] = []
        for n, (offset, position) in enumerate(entries):
            i = bisect_left(walked.positions, position)
            if i == len(walked.positions) or walked.positions[i] != position:
                what = f"entry {n} points at position {position}, where no batch begins"
            else:
                # Older brokers had one index entry for several batches that were fetched at once,
                # with the last offset of the last batch.
                holding = walked.holding(offset)
                j = -1 if holding is None else holding
                end = entries[n + 1].position if n + 1 < len(entries) else position + (1 << 62)
                exact = i <= j and walked.lasts[j] == offset
                if exact and (j == i or walked.positions[j] < end):
                    continue
                what = (
                    f"entry {n} says {offset}, the batch at position {position} ends at "
                    f"{walked.lasts[i]}"
                )
            findings.append(Finding(path, n * OFFSET_ENTRY.size, offset, what))
        self.report.add(findings)

    def _check_time_index(
        self,
        segment: SegmentFiles,
        indexes: _IndexEntries,
        walked: _BatchSummary,
        following: int | None,
    ) -> None:
        path = self._partition.segment_path(segment.base_offset, TIME_INDEX)
        latest, seen = -1, 0
        findings: list[Finding] = []
        for n, (timestamp, offset) in enumerate(indexes.times):
            at = n * TIME_ENTRY.size
            i = walked.holding(offset)
            if i is None:
                what = f"entry {n} names offset {offset}, which no batch holds"
                findings.append(Finding(path, at, offset, what))
                continue
            while seen <= i:
                latest = max(latest, walked.times[seen])
                seen += 1
            if walked.times[i] != timestamp:
                what = (
                    f"entry {n} says {timestamp}, the latest time of the batch with offset "
                    f"{offset} is {walked.times[i]}"
                )
                findings.append(Finding(path, at, offset, what))
            elif latest > timestamp:
                what = f"entry {n} says {timestamp}, but up to offset {offset} there is {latest}"
                findings.append(Finding(path, at, offset, what))
        if following is not None and TIME_INDEX in segment.files and walked.times:
            greatest = max(walked.times)
            if greatest >= 0 and (not indexes.times or indexes.times[-1].timestamp < greatest):
                what = f"the latest time of the segment, {greatest}, is missing"
                offset = walked.lasts[walked.times.index(greatest)]
                findings.append(Finding(path, len(indexes.times) * TIME_ENTRY.size, offset, what))
        self.report.add(findings)

    def _check_txn_index(
        self, segment: SegmentFiles, indexes: _IndexEntries, walked: _BatchSummary
    ) -> None:
        if not self._logs:
            return
        path = self._partition.segment_path(segment.base_offset, TXN_INDEX)
        findings: list[Finding] = []
        listed: dict[int, AbortedTxn] = {}
        for n, entry in enumerate(indexes.aborted):
            listed[entry.last_offset] = entry
            marker = walked.aborts.get(entry.last_offset)
            at = n * TXN_ENTRY.size
            if marker is None:
                if walked.holding(entry.last_offset) is not None or not walked.lasts:
                    what = f"entry {n} names offset {entry.last_offset}, which is no abort marker"
                    findings.append(Finding(path, at, entry.last_offset, what))
            elif marker[0] != entry.producer_id:
                what = (
                    f"entry {n} names producer {entry.producer_id}, the marker at "
                    f"{entry.last_offset} is of {marker[0]}"
                )
                findings.append(Finding(path, at, entry.last_offset, what))
            elif marker[1] is not None and entry.first_offset > marker[1]:
                what = f"entry {n} begins at {entry.first_offset}, the transaction at {marker[1]}"
                findings.append(Finding(path, at, entry.first_offset, what))
        for offset, (producer_id, first, position) in walked.aborts.items():
            if first is not None and offset not in listed and position < indexes.log_bytes:
                what = (
                    f"the transaction of producer {producer_id} from {first}, aborted at "
                    f"{offset}, is missing"
                )
                findings.append(Finding(path, len(indexes.aborted) * TXN_ENTRY.size, offset, what))
        self.report.add(findings)


def _after(walked: _BatchSummary, position: int) -> int:
    """Return the expected offset at a position at which no batch could be read; -1 if it is the
    first."""
    i = bisect_left(walked.positions, position)
    return walked.lasts[i - 1] + 1 if i else -1
