"""The operations of a run's clients, and their results: transactions with their appends, and reads
of partitions. Kept as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path


class Outcome(StrEnum):
    """How a transaction ended, as far as its client was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """The commit was never asked for, or refused."""
    UNKNOWN = "unknown"
    """The commit was asked for, and no answer came that says."""


@dataclass(frozen=True, slots=True)
class Place:
    """An offset of a partition. `partition` is `topic/number`; an unknown offset is -1."""

    partition: str
    offset: int


@dataclass(slots=True)
class Transaction:
    """One transaction of one client."""

    name: str
    process: str
    """The process that ran it; a process runs its transactions one after another."""
    appends: dict[str, Place] = field(default_factory=dict)
    """Value → the offset at which its append was acknowledged. A value is appended once in a run.
    """
    reads: dict[str, Place] = field(default_factory=dict)
    """Values that it read and whose offsets it committed (read, process, write)."""
    outcome: Outcome = Outcome.ABORTED


@dataclass(slots=True)
class Read:
    """The values that one reader of committed records saw in one partition, in that order."""

    reader: str
    partition: str
    seen: list[tuple[int, str]] = field(default_factory=list)
    """(offset, value)."""
    final: bool = False
    """Whether it read from the beginning to the end, after everything was over."""


@dataclass(slots=True)
class History:
    """All of a run."""

    transactions: list[Transaction] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write it to a file."""
        with path.open("w", encoding="utf-8") as file:
            for transaction in self.transactions:
                file.write(json.dumps({"transaction": asdict(transaction)}) + "\n")
            for read in self.reads:
                file.write(json.dumps({"read": asdict(read)}) + "\n")

    @classmethod
    def load(cls, path: Path) -> History:
        """Read what `save` wrote."""
        history = cls()
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            if "read" in found:
                read = Read(**found["read"])
                read.seen = [(offset, value) for offset, value in read.seen]
                history.reads.append(read)
                continue
            made = Transaction(**found["transaction"])
            made.outcome = Outcome(made.outcome)
            made.appends = {v: Place(**p) for v, p in found["transaction"]["appends"].items()}
            made.reads = {v: Place(**p) for v, p in found["transaction"]["reads"].items()}
            history.transactions.append(made)
        return history
