"""Compares the log of a stopped follower with its leader's (KIP-966 has no such rule; Kafka
truncates the follower).

If a follower's log diverges from its leader's below the follower's own high watermark, the follower
does not truncate it, because those records were committed. It stops, and reports both logs
(PkReplicaLogs): its own log, the offset at which it would have to truncate, and the end of its
leader's log as reported by the leader. It repeats the report while it is stopped, so this module
keeps nothing. All reports are from one leader epoch, in which the leader's log only grows.

    the follower's log                          the leader's log           then
    ------------------------------------------  -------------------------  -------------------------
    has no record left below its high           any                        the follower truncates
    watermark: they were deleted                                           its log and continues
    is damaged, or ends in an epoch that        reaches the follower's     the follower truncates
    never existed                               high watermark, and is     and continues: its damage
                                                the better one             explains the difference
    is whole up to its high watermark           is a prefix of the         the follower leads, if
                                                follower's                 it may
    any other                                   any other                  the follower stays
                                                                           stopped; an operator
                                                                           decides

The better log is the one with the higher (leader epoch of the last batch, end), as in an election
by evidence (unclean_recovery.py).

This loses no acknowledged records, because:

- Only a leader raises a high watermark, over records that every in-sync replica has. So the records
  of a whole log below its own high watermark were committed, and may have been acknowledged. If the
  leader lacks them, then the leader, and each replica that it was elected from, lost them. A later
  epoch in the leader's log does not change that: it shows that the leader has appended since, not
  that it once had these records. So an undamaged follower never continues by itself, however far
  the leader's log extends.
- A damaged log is no such evidence. The rest of it may contain a wrong leader epoch, which no
  checksum covers, and differ only by that. The rules that elected the leader do not rely on the
  damaged log. The truncated records are kept aside anyway (core/log/damaged.py).
- A follower whose log begins with the whole log of the leader has every record of the leader. It is
  made the leader only if the old leader can commit nothing without it: the follower is in the ISR,
  or the ISR is too small. So no acks=all request for the old leader's later records was answered.

With min.insync.replicas=1, a leader may have been alone in the ISR, lost its last records in a
power failure, and appended others. The follower that returns then has records that the leader
lacks, and the leader has others. Both were acknowledged, and no log has both: an operator decides.
"""

from typing import NamedTuple

from pk.core.meta.events import PartitionChanged
from pk.core.meta.image import PartitionImage, TopicImage
from pk.core.meta.partition_change_builder import PartitionChangeBuilder
from pk.core.meta.partition_rules import PartitionRules
from pk.core.wire.messages.pk_replica_logs import ReplicaLog


class Comparison(NamedTuple):
    """The decision about a stopped follower."""

    may_continue: bool = False
    """Whether the follower may truncate its log and continue, keeping the truncated records
    aside."""
    becomes_leader: bool = False
    """Whether the follower becomes the leader."""
    reason: str = ""
    """The reason, for people."""


def compare(
    rules: PartitionRules, topic: TopicImage, partition: PartitionImage, node: int, log: ReplicaLog
) -> Comparison:
    """Compare the log of follower `node`, as reported in the partition's current leader epoch, with
    its leader's log, by the table at the top of this file."""
    if log.start_offset >= log.high_watermark:
        return Comparison(
            may_continue=True,
            reason="its log has no records below its high watermark: they were deleted",
        )
    leader = f"broker {partition.leader}"
    if log.leader_end_offset < 0:
        return Comparison(reason=f"the log end of its leader, {leader}, is not known yet")
    is_readable = log.last_epoch <= partition.leader_epoch
    if log.damage or not is_readable:
        ours = (log.last_epoch, log.end_offset)
        is_better = not is_readable or (log.leader_last_epoch, log.leader_end_offset) >= ours
        if is_better and log.leader_end_offset >= log.high_watermark:
            return Comparison(
                may_continue=True,
                reason=f"its log is damaged, and the log of {leader} is not",
            )
        return Comparison(
            reason=f"its log is damaged, and the log of {leader} also lacks committed records"
        )
    if log.leader_end_offset > log.cut_offset:
        return Comparison(
            reason=f"from offset {log.cut_offset} on, each log has records that the other lacks"
        )
    if log.end_offset < log.high_watermark:
        return Comparison(
            reason="its log ends below its high watermark, like the log of its leader"
        )
    isr_min = min(rules.of(topic.name)[0], len(partition.replicas))
    if node not in partition.isr and len(partition.isr) >= isr_min:
        return Comparison(reason=f"{leader} may have acknowledged records without it since")
    if not rules.may_lead(node, partition.directory(node)):
        return Comparison(reason="it has all committed records, but it may not lead now")
    return Comparison(becomes_leader=True, reason=f"it has every record of {leader}, and more")


def elect_follower(
    rules: PartitionRules, topic: TopicImage, partition: PartitionImage, node: int
) -> PartitionChanged | None:
    """Make the follower the leader, alone in the ISR. The other replicas have no records that it
    lacks."""
    change = PartitionChangeBuilder(rules, topic, partition)
    change.isr, change.chosen, change.new_epoch = (node,), node, True
    return change.build()
