"""Comparing the log of a follower that stopped with the log of its leader (KIP-966 has no such
rule; Kafka cuts the follower).

If a follower's log diverges from its leader's below the follower's own high watermark, the follower
does not truncate it, because those records were committed. It stops, and reports both logs
(PkReplicaLogs): its own log, the offset at which it would have to truncate, and the end of its
leader's log as reported by the leader. It repeats the report while it is stopped, so nothing has to
be kept here. The reports are of one leader epoch, in which the leader's log only grows.

    the follower's log                          the leader's log           then
    ------------------------------------------  -------------------------  -------------------------
    has no record left below its high           any                        the follower goes on
    watermark: they were deleted
    is damaged, or ends in an epoch that has    reaches the follower's     the follower goes on: its
    not been                                    high watermark, and is     damage explains the
                                                the better one             difference
    is whole up to its high watermark           is the beginning of the    the follower leads, if
                                                follower's, and nothing    it may
                                                more
    any other                                   any other                  the follower stays as it
                                                                           is; an operator decides

The better log is the one with the higher (leader epoch of the last batch, end), as in an election
by evidence (unclean_recovery.py).

Why nothing acknowledged is lost by that:

- Only a leader sets a high watermark, for records that every in-sync replica had. So
  what a whole log holds below its own high watermark was committed, and may have been acknowledged.
  That the leader lacks it says that the leader, and each replica it was elected from, lost it. A
  later epoch in the leader's log does not change that: it shows that the leader has appended since,
  not that it once had these records. So an undamaged follower never continues by itself, however
  far the leader's log goes.
- A damaged log is no such evidence. What is left of it may carry a wrong leader epoch, which no
  checksum covers, and differ by that alone. The leader's log was elected by rules that do not count
  on the damaged one. What is cut off is kept all the same (core/log/damaged.py), and stays.
- A follower whose log begins with all of the leader's has everything that the leader has. It leads
  only while the leader can commit nothing without it: the follower is in the ISR, or too few are.
  Until then, no acks=all request for records that the leader appends is acknowledged.

With min.insync.replicas=1 a leader that was alone in the ISR, lost its tail with the power, and
went on has records of its own, and so has the follower that returns. Both were acknowledged, and no
log has both: an operator decides.
"""

from typing import NamedTuple

from pk.core.meta.events import PartitionChanged
from pk.core.meta.image import PartitionImage, TopicImage
from pk.core.meta.partition_change_builder import PartitionChangeBuilder
from pk.core.meta.partition_rules import PartitionRules
from pk.core.wire.messages.pk_replica_logs import ReplicaLog


class Comparison(NamedTuple):
    """The decision about a follower that stopped."""

    goes_on: bool = False
    """Whether it may truncate its log and keep the truncated records."""
    leads: bool = False
    """Whether it becomes the leader."""
    why: str = ""
    """The reason, for people."""


def compare(
    rules: PartitionRules, topic: TopicImage, partition: PartitionImage, node: int, log: ReplicaLog
) -> Comparison:
    """Compare the log of follower `node`, as it reported it in the leader epoch of `partition`,
    with its leader's; the table at the top of this file."""
    if log.start_offset >= log.high_watermark:
        return Comparison(goes_on=True, why="what was committed is deleted from its log as well")
    leader = f"broker {partition.leader}"
    if log.leader_end_offset < 0:
        return Comparison(why=f"the log of its leader, {leader}, is not known yet")
    is_readable = log.last_epoch <= partition.leader_epoch
    if log.damage or not is_readable:
        ours = (log.last_epoch, log.end_offset)
        is_better = not is_readable or (log.leader_last_epoch, log.leader_end_offset) >= ours
        if is_better and log.leader_end_offset >= log.high_watermark:
            return Comparison(goes_on=True, why=f"its own log is damaged, and that of {leader} not")
        return Comparison(
            why=f"its log is damaged, and that of {leader} does not have everything either"
        )
    if log.leader_end_offset > log.cut_offset:
        return Comparison(why=f"from offset {log.cut_offset} on each log has records of its own")
    if log.end_offset < log.high_watermark:
        return Comparison(why="its own log does not reach its high watermark either")
    isr_min = min(rules.of(topic.name)[0], len(partition.replicas))
    if node not in partition.isr and len(partition.isr) >= isr_min:
        return Comparison(why=f"{leader} may have acknowledged other records since")
    if not rules.may_lead(node, partition.directory(node)):
        return Comparison(why="it has everything, and may not lead now")
    return Comparison(leads=True, why=f"it has everything that {leader} has, and more")


def let_lead(
    rules: PartitionRules, topic: TopicImage, partition: PartitionImage, node: int
) -> PartitionChanged | None:
    """The follower leads, alone in the ISR; the others have no more than it has."""
    change = PartitionChangeBuilder(rules, topic, partition)
    change.isr, change.chosen, change.new_epoch = (node,), node, True
    return change.build()
