"""The change of one partition: its ISR, its eligible replicas, its leader (KIP-455, KIP-966).

A decision about a partition (another ISR, other replicas, a broker that may have lost records) sets
the wanted changes on a `PartitionChangeBuilder`, and `build` returns the event that the rules
allow. Like Apache's class of that name, it takes these steps:

1. A reassignment whose target replicas are all in the ISR is complete: the removed replicas are
   dropped.
2. While the ISR is smaller than `min.insync.replicas`, nothing is acknowledged and the high
   watermark does not rise. So a replica that leaves the ISR then has all acknowledged records, and
   stays an *eligible leader replica* until the ISR is large enough again. A replica that may have
   lost records (its broker registered again without a clean shutdown) leaves the ISR and is not
   eligible, whatever it was before.
3. A replica that leaves the ISR and is not eligible stays in `last_known_elr` as long as it may be
   the only one left with all acknowledged records: until the leader is known to continue without
   it, or the leader itself reports an ISR that is large enough again. A replica in `last_known_elr`
   may not lead for that; its log is one of those that are compared before a leader is chosen
   (unclean_recovery.py).
4. The leader stays while it may. Otherwise, the first replica in the ISR that may lead becomes the
   leader, or, if the ISR is empty, the first eligible one, which becomes the ISR. If both are
   empty, the logs are compared, unless there is only one replica. Any other unclean leader needs
   `unclean.leader.election.enable`.
5. A new leader begins a new leader epoch, and so does the removal of a replica.

The ISR may be empty; then there is no leader. If there are fewer replicas than
`min.insync.replicas`, their number is the minimum, also for leaders.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from pk.core.meta.directory_id import UNASSIGNED
from pk.core.meta.events import PartitionChanged
from pk.core.meta.image import PartitionImage, TopicImage
from pk.core.meta.partition_rules import PartitionRules
from pk.core.values import NO_LEADER, NO_NODE, Uuid

Nodes: TypeAlias = tuple[int, ...]

_NO_DIRECTORIES: Final[Mapping[int, Uuid]] = {}


class PartitionChangeBuilder:
    """The change of `old`, a partition of `topic`. Only what the attributes and the rules require
    changes. `build` may be called once."""

    __slots__ = (
        "_elr",
        "_isr_min",
        "_kept_known",
        "_new_directories",
        "_old",
        "_rules",
        "_topic",
        "_unclean_epoch",
        "adding",
        "chosen",
        "directories",
        "emptied",
        "isr",
        "lossy",
        "lost",
        "new_epoch",
        "preferred",
        "recovering",
        "removing",
        "replicas",
        "requested_by_leader",
        "unclean",
    )

    def __init__(self, rules: PartitionRules, topic: TopicImage, old: PartitionImage) -> None:
        self._rules, self._topic, self._old = rules, topic, old
        self.isr = old.isr
        self.requested_by_leader = False
        """Whether the leader requested this ISR."""
        self.lost = NO_NODE
        """A replica that may have lost its last records. It leaves the ISR."""
        self.emptied = NO_NODE
        """A replica that has lost all its records. It leaves the ISR."""
        self.replicas = old.replicas
        self.adding = old.adding
        self.removing = old.removing
        self.directories = _NO_DIRECTORIES
        """The reported log directories by replica. Other replicas keep theirs."""
        self.recovering = old.recovering
        """Whether the leader has not yet recovered from an unclean election (KIP-704)."""
        self.preferred = False
        """Whether the first replica becomes leader, if it may lead."""
        self.unclean: bool | None = None
        """Whether an unclean leader is allowed. None means as in the topic's config."""
        self.chosen = NO_LEADER
        """The replica that becomes the leader, even if it is not eligible."""
        self.lossy = False
        """Whether electing `chosen` may lose acknowledged records."""
        self.new_epoch = False
        """Whether to begin a new leader epoch even if the leader stays."""
        self._elr: Nodes = ()
        self._kept_known: Nodes = ()
        self._unclean_epoch: int | None = None

    def build(self) -> PartitionChanged | None:
        """Return the event, or None if nothing changes."""
        for node in (self.lost, self.emptied):
            self.isr = without(self.isr, node)
        self._complete_reassignment()
        self._new_directories = self._directory_of_each()
        self._isr_min = min(self._rules.of(self._topic.name)[0], len(self.replicas))
        self._update_eligible()
        leader = self._old.leader
        if self._needs_election():
            leader = self._elect()
        return self._event(leader)

    def _complete_reassignment(self) -> None:
        """Drop the replicas that are being removed if all others are in the ISR."""
        if not self.adding and not self.removing:
            return
        target = tuple(n for n in self.replicas if n not in self.removing)
        if target and all(n in self.isr for n in target):
            self.replicas, self.adding, self.removing = target, (), ()
            self.isr = tuple(n for n in self.isr if n in target)

    def _directory_of_each(self) -> tuple[Uuid, ...]:
        """Return the directory of each replica: reported, old, or unknown for a new replica."""
        old, given = self._old, self.directories
        if not given and self.replicas == old.replicas:
            return old.directories
        found = tuple(given.get(n) or old.directory(n) for n in self.replicas)
        return found if any(d != UNASSIGNED for d in found) else ()

    def _update_eligible(self) -> None:
        """Compute the eligible leader replicas, and the last known ones whose logs may be
        needed."""
        old, isr = self._old, self.isr
        is_enough = len(isr) >= self._isr_min
        if not is_enough:
            were = {*old.isr, *old.elr} - {*isr, self.lost, self.emptied}
            self._elr = tuple(n for n in self.replicas if n in were)
        known = (
            () if self.requested_by_leader and is_enough else self._last_known_to_keep(is_enough)
        )
        self._kept_known = tuple(n for n in known if n in self.replicas and n != self.emptied)

    def _last_known_to_keep(self, is_enough: bool) -> Nodes:
        """Return the replicas whose logs may be needed, apart from the ISR and the eligible ones. A
        replica that is needed while the ISR is too small stays needed until the ISR is large
        enough, because nothing is acknowledged until then."""
        old, elr = self._old, self._elr
        leader_has_applied_isr = self._rules.leader_has_applied_isr(old)
        stays = old.last_known_elr
        if leader_has_applied_isr and (is_enough or len(old.isr) >= self._isr_min):
            stays = ()
        left = old.isr if is_enough and leader_has_applied_isr else (*old.isr, *old.elr)
        # The last leader may also be eligible.
        stays = tuple(n for n in stays if n not in elr or old.leader == NO_LEADER)
        left = tuple(n for n in left if n not in elr)
        return _unique(n for n in (*stays, *left) if n not in self.isr)

    def _needs_election(self) -> bool:
        leader = self._old.leader
        return (
            self.preferred
            or self.chosen != NO_LEADER
            or leader not in self.isr
            or not self._may_lead(leader)
        )

    def _may_lead(self, node: int) -> bool:
        placed, replicas = self._new_directories, self.replicas
        is_known = placed and node in replicas
        return self._rules.may_lead(node, placed[replicas.index(node)] if is_known else UNASSIGNED)

    def _elect(self) -> int:
        """Choose the leader. Sets the ISR and the eligible replicas accordingly."""
        old = self._old
        outside = old.leader in self.replicas and old.leader not in self.isr
        if outside and old.leader != self.emptied:
            self._kept_known = (old.leader, *without(self._kept_known, old.leader))
        leader, is_unclean, lossy = self.chosen, True, self.lossy
        if leader == NO_LEADER:
            leader, is_unclean = self._candidate()
            lossy = is_unclean and len(self.replicas) > 1
        if lossy:
            self._unclean_epoch = old.leader_epoch + 1
        if is_unclean:
            self._kept_known = (
                () if lossy or self._isr_min <= 1 else _unique((*self._kept_known, *self._elr))
            )
            self.isr, self._elr, self.recovering = (leader,), (), True
        elif leader in self._elr:
            self.isr = (leader,)
            self._elr = without(self._elr, leader) if self._isr_min > 1 else ()
        if leader != NO_LEADER:
            self._kept_known = tuple(
                n for n in self._kept_known if n not in (*self.isr, *self._elr)
            )
        return leader

    def _candidate(self) -> tuple[int, bool]:
        """Return the leader and whether its election is unclean. The ISR, or if it is empty the
        eligible replicas, have every acknowledged record; those in `last_known_elr` may have."""
        old, replicas = self._old, self.replicas
        available = [n for n in replicas if self._may_lead(n)]
        safe = self.isr or self._elr
        candidates = [n for n in available if n in safe]
        if candidates:
            moves = self.preferred and candidates[0] == replicas[0]
            return (candidates[0] if moves or old.leader not in candidates else old.leader), False
        if len(replicas) == 1 and self._kept_known == replicas and available:
            return replicas[0], True  # There is no other log to compare.
        unclean = self._rules.of(self._topic.name)[1] if self.unclean is None else self.unclean
        if unclean and available:
            return available[0], True
        return NO_LEADER, False

    def _event(self, leader: int) -> PartitionChanged | None:
        old, replicas = self._old, self.replicas
        # A new leader epoch, so that a removed replica is not taken for a current one.
        has_shrunk = any(n not in replicas for n in old.replicas)
        found = (
            leader if self.new_epoch or leader != old.leader or has_shrunk else None,
            None if self.isr == old.isr else self.isr,
            None if self._elr == old.elr else self._elr,
            None if self._kept_known == old.last_known_elr else self._kept_known,
            None if replicas == old.replicas else replicas,
            None if self.adding == old.adding else self.adding,
            None if self.removing == old.removing else self.removing,
            None if self._new_directories == old.directories else self._new_directories,
            None if self.recovering == old.recovering else self.recovering,
            self._unclean_epoch,
        )
        if found == _NO_CHANGES:
            return None
        return PartitionChanged(self._topic.topic_id, old.partition, *found)


_NO_CHANGES: Final = (None,) * 10


def _unique(nodes: Iterable[int]) -> Nodes:
    return tuple(dict.fromkeys(nodes))


def without(nodes: Nodes, node: int) -> Nodes:
    """Return `nodes` without `node`."""
    return tuple(n for n in nodes if n != node) if node in nodes else nodes
