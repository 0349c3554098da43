"""Records that can be checked when they are read back: each has a number, the time at which it was
due, and a CRC-32C over everything.

With --size, the mark is the beginning of the value, and the rest is filler text. If a template
makes the value, the mark is a header. Each run has a random id, which distinguishes its records
from those of other runs.
"""

import random
from collections.abc import Sequence
from struct import Struct
from typing import Final

from pk.cli.nouns.perf.rows import Faults
from pk.cli.records.fake import Fake
from pk.core.record.batch import Record, crc_of
from pk.net.client.accumulator import Row

_MARK: Final = Struct(">4sIQq")
_CRC: Final = Struct(">I")
_MAGIC: Final = b"pkpf"
MARK_BYTES: Final = _MARK.size + _CRC.size
HEADER: Final = "pk-perf"
_POOL_BYTES: Final = 1 << 20
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
_TO_LETTERS: Final = (_LETTERS * 5)[:256]


class Payloads:
    """Makes the records of a run, numbered from 0."""

    def __init__(self, run: int, size: int, fake: Fake | None, seed: int | None) -> None:
        self._run = run
        self._rest = size - MARK_BYTES
        self._fake = fake
        length = _POOL_BYTES + max(self._rest, 0)
        self._pool = random.Random(seed).randbytes(length).translate(_TO_LETTERS)

    @property
    def keyed(self) -> bool:
        """Whether records are made by `rows`, with keys and headers, and not by `values`."""
        return self._fake is not None

    def values(self, first: int, due_ns: Sequence[int]) -> list[tuple[None, bytes]]:
        """Records numbered from `first` on, one for each due time."""
        pack, pack_crc, run, rest = _MARK.pack, _CRC.pack, self._run, self._rest
        pool, join = self._pool, b"".join
        found: list[tuple[None, bytes]] = []
        for number, due in enumerate(due_ns, first):
            start = number * 97 % _POOL_BYTES
            filler = pool[start : start + rest]
            mark = pack(_MAGIC, run, number, due)
            found.append((None, join((mark, pack_crc(crc_of(filler, crc_of(mark))), filler))))
        return found

    def rows(self, first: int, due_ns: Sequence[int]) -> list[Row]:
        """Records made from the template, numbered from `first` on, one for each due time, with the
        mark in a header."""
        assert self._fake is not None
        found: list[Row] = []
        for number, due in enumerate(due_ns, first):
            key, value = self._fake.one()
            mark = _MARK.pack(_MAGIC, self._run, number, due)
            crc = crc_of(value or b"", crc_of(key or b"", crc_of(mark)))
            found.append((key, value, ((HEADER, mark + _CRC.pack(crc)),), None, None))
        return found


class Verifier:
    """Checks that records come back once, in order within a partition, and unchanged, and counts
    the others."""

    def __init__(self, run: int | None) -> None:
        self.run = run
        """The run whose records are expected; None means the run of the first record."""

        self.found = 0
        """The number of records of this run, each counted once."""

        self.repeated = 0
        self.reordered = 0
        self.corrupt = 0
        self.foreign = 0
        """The number of records without a mark, or of another run."""

        self._seen = bytearray()
        self._last: dict[int, int] = {}

    def value(self, value: bytes | None, partition: int) -> int | None:
        """Check a value with a mark. Returns the time at which the record was due, or None if the
        record does not count."""
        if value is None or len(value) < MARK_BYTES or value[:4] != _MAGIC:
            self.foreign += 1
            return None
        head = value[: _MARK.size]
        crc = crc_of(value[MARK_BYTES:], crc_of(head))
        return self._mark(head, value[_MARK.size : MARK_BYTES], crc, partition)

    def record(self, record: Record, partition: int) -> int | None:
        """Check a record whose mark is in a header. Returns the same as `value`."""
        mark = next((v for name, v in record.headers if name == HEADER), None)
        if mark is None or len(mark) != MARK_BYTES or mark[:4] != _MAGIC:
            return self.value(record.value, partition)
        head = mark[: _MARK.size]
        crc = crc_of(record.value or b"", crc_of(record.key or b"", crc_of(head)))
        return self._mark(head, mark[_MARK.size :], crc, partition)

    def _mark(self, head: bytes, expected_crc: bytes, crc: int, partition: int) -> int | None:
        if expected_crc != _CRC.pack(crc):
            self.corrupt += 1
            return None
        _, run, number, due_ns = _MARK.unpack(head)
        if self.run is None:
            self.run = run
        if run != self.run:
            self.foreign += 1
            return None
        seen = self._seen
        byte, bit = number >> 3, 1 << (number & 7)
        if byte >= len(seen):
            seen.extend(bytes(max(byte + 1 - len(seen), len(seen), 1024)))
        if seen[byte] & bit:
            self.repeated += 1
            return None
        seen[byte] |= bit
        self.found += 1
        if number < self._last.get(partition, -1):
            self.reordered += 1
        else:
            self._last[partition] = number
        return due_ns

    def faults(self, expected: int | None) -> Faults:
        """The number of faults by kind; `lost` are those of the `expected` records that were not
        read."""
        lost = 0 if expected is None else max(0, expected - self.found)
        return {
            "lost": lost,
            "repeated": self.repeated,
            "reordered": self.reordered,
            "corrupt": self.corrupt,
        }
