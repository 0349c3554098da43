"""The keys of groups' timers. The first part is one of these, followed by the group's id and, for a
member's timer, the member's id. All types of groups have the same keys, because a group with
members may change its type while their sessions continue."""

from __future__ import annotations

from typing import Final

from pk.core.group.any_group import GroupType

SESSION: Final = "session"
"""A member's session."""
JOIN: Final = "join"
"""The join phase of a classic group, or the time in which a classic member of a consumer group must
rejoin."""
SYNC: Final = "sync"
"""The sync phase of a classic group, or the time between JoinGroup and SyncGroup of a classic
member of a consumer group."""
REBALANCE: Final = "rebalance"
"""The time in which a member must give up revoked partitions or tasks."""
REPLACED: Final = "replaced"
"""A classic member has just replaced another member of this consumer group."""
DOWNGRADED: Final = "downgraded"
"""The classic group was just downgraded from a consumer group, and rebalances at once."""
INITIAL_DELAY: Final = "initial streams delay"
"""The time for which a new streams group waits for more members."""
EXPIRATION: Final = "expiration"
"""The search for expired offsets. The whole key of that timer."""

OF_TYPE: Final = {
    REPLACED: GroupType.CONSUMER,
    DOWNGRADED: GroupType.CLASSIC,
    INITIAL_DELAY: GroupType.STREAMS,
}
"""The timers that exist only for groups of one type."""
