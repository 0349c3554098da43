"""Finds the offset at which a follower truncates its log to a prefix of its leader's (KIP-101,
KIP-279, KIP-595).

Two logs agree within each leader epoch that both have, up to the end of the shorter one. The
follower sends the epoch of its last record; the leader returns the largest epoch not above it that
*it* knows, and the end of that epoch. If the follower has records of that epoch, it truncates to
the lower of the epoch's ends in the two logs, and both agree. If not, it drops all records of later
epochs and asks again, with an older epoch each time, until both have the epoch.

The high watermark is not used: it may lag behind on a new leader, and a follower that trusted it
would discard acknowledged records (KIP-101 explains how).
"""

from typing import NamedTuple

from pk.core.log.epochs import LeaderEpochs


class Truncation(NamedTuple):
    """The offset to truncate to, and whether the logs agree then; if not, ask the leader again."""

    offset: int
    logs_agree: bool


def truncation_for(
    epochs: LeaderEpochs, end: int, leader_epoch: int, leader_end_offset: int
) -> Truncation | None:
    """Return the truncation that a leader's response requires of a log with these `epochs` that
    ends at `end`. `leader_epoch` is the largest epoch that the leader knows and that is not above
    the requested one, and `leader_end_offset` is that epoch's end in its log; both are -1 if the
    leader knows none.

    Returns None if the leader's response does not help: the two logs have no epoch in common.
    """
    if leader_end_offset < 0:
        return None
    if leader_epoch < 0:
        return Truncation(min(leader_end_offset, end), True)
    epoch, epoch_end = epochs.end_offset(leader_epoch, end)
    if epoch_end < 0:
        # This log has no epoch that old: all its records have later ones.
        return Truncation(min(leader_end_offset, end), True)
    if epoch != leader_epoch:
        return Truncation(min(epoch_end, end), False)
    return Truncation(min(epoch_end, leader_end_offset, end), True)
