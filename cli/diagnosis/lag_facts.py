"""The facts about a group for `pk why lag`: two measurements of its progress, and its members."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pk.cli.cluster.pipelines import PipelineCommit
from pk.cli.diagnosis.explain import Evidence
from pk.cli.diagnosis.pinning_transaction import PinningTransaction
from pk.core.values import TopicPartition

STILL_S = 5.5
"""An offset that has not changed for this long has stopped, and is not merely between two
auto-commits."""


class Member(NamedTuple):
    """A member of the group."""

    member_id: str
    client_id: str
    host: str
    owned: frozenset[TopicPartition]
    behind_epoch: bool = False
    """Whether the member has not yet reached the group's epoch (KIP-848)."""

    @property
    def name(self) -> str:
        return f"{self.client_id or self.member_id} ({self.host.lstrip('/')})"


class Read(NamedTuple):
    """A partition at the first and second measurement. Offsets are None if missing or unknown.

    `committed` and `later` are the committed offset, or the start offset of a share group.
    """

    committed: int | None
    later: int | None
    start: int | None
    end: int | None
    later_end: int | None
    stable: int | None
    leader: int
    owner: str | None
    """The id of the assigned member."""

    next_ms: int | None = None
    """The timestamp of the next record to be read."""

    nothing_readable: bool = False
    """Whether a read_committed reader finds no record between the committed and the last stable
    offset."""

    pinned_by: PinningTransaction | None = None
    """The transaction that keeps the last stable offset below the log end, if known."""

    reported_lag: int | None = None
    """The lag of a share group, from its share coordinator; None for a group that commits
    offsets."""

    acknowledged: int = 0
    """The number of records that a share group finished between the measurements, in or out of
    order."""

    @property
    def unread(self) -> int | None:
        """The offset of the next record that the group has not read."""
        if self.reported_lag is None or self.later is None or self.later_end is None:
            return self.later
        if self.committed == self.later and self.acknowledged > 0:
            return self.later  # later records were acknowledged, but not this one
        return max(self.later, self.later_end - self.reported_lag)

    @property
    def is_pinned(self) -> bool:
        """Whether an open transaction keeps the last stable offset below the log end."""
        return self.stable is not None and self.stable < (self.end or 0)

    @property
    def waits(self) -> bool:
        """Whether a read_committed reader waits for the transaction that is open at the last stable
        offset."""
        if self.stable is None or not self.is_pinned:
            return False
        at = self.start if self.later is None else self.later
        return self.nothing_readable or (at is not None and at >= self.stable)

    @property
    def is_read_out(self) -> bool:
        """Whether only aborted records and markers are left between the committed offset and the
        end."""
        return self.nothing_readable and not self.is_pinned

    @property
    def lag(self) -> int:
        """The lag as in `pk groups lag` and Apache's tool: it includes records that were deleted
        unread, even if no record is left to read."""
        if self.reported_lag is not None:
            return self.reported_lag
        if self.later_end is None or self.later is None:
            return 0
        return max(self.later_end - self.later, 0)

    @property
    def is_deleted(self) -> bool:
        """Whether all records that the group has not read were deleted."""
        if not self.lag or self.start is None or self.later_end is None:
            return False
        return self.start >= self.later_end

    @property
    def progress(self) -> int:
        """The number of records that the group read between the measurements."""
        if self.reported_lag is not None:
            return self.acknowledged
        if self.committed is None or self.later is None:
            return 0
        return max(self.later - self.committed, 0)


class LagFacts(NamedTuple):
    """A group, and the partitions that it reads."""

    group: str
    state: str
    members: Sequence[Member]
    reads: Mapping[TopicPartition, Read]
    between_s: float = 0.0
    changed: bool = False
    """Whether members or generation changed between the measurements."""

    subscribed: frozenset[str] = frozenset()
    now_ms: int = 0
    is_share: bool = False
    """Whether the group is a share group: its members share partitions, and acknowledge each record
    (KIP-932)."""

    pipeline: PipelineCommit | None = None
    """The pipeline whose offsets the group holds."""

    @property
    def position(self) -> str:
        """The word for a group's position in a partition."""
        return "start offset" if self.is_share else "committed offset"

    @property
    def lag(self) -> int:
        return sum(read.lag for read in self.reads.values())

    @property
    def lagging(self) -> dict[TopicPartition, Read]:
        return {tp: read for tp, read in self.reads.items() if read.lag}

    @property
    def rates(self) -> tuple[float, float] | None:
        """The records written and the records read per second; None after a single measurement."""
        if self.between_s <= 0:
            return None
        written = sum(
            read.later_end - read.end
            for read in self.reads.values()
            if read.end is not None and read.later_end is not None
        )
        consumed = sum(read.progress for read in self.reads.values())
        return written / self.between_s, consumed / self.between_s

    def member(self, member_id: str | None) -> Member | None:
        return next((m for m in self.members if m.member_id == member_id), None)

    def readers(self, tp: TopicPartition) -> list[Member]:
        """The members to which a partition is assigned; in a share group, there may be several."""
        return [m for m in self.members if tp in m.owned]


class Reason(NamedTuple):
    """A reason for the lag; the first one found becomes the verdict."""

    state: str
    verdict: str
    evidence: tuple[Evidence, ...] = ()
    next: tuple[str, ...] = ()
