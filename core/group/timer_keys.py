"""The keys of the timers of groups. The first part is one of these; then come the group's id and,
for a member's timer, the member's. A group with members may change its type, and sessions continue:
so all types have the same keys.
"""

from __future__ import annotations

from typing import Final

from pk.core.group.any_group import GroupType

SESSION: Final = "session"
"""A member's session."""
JOIN: Final = "join"
"""The join phase of a classic group, and the time in which a classic member of a consumer
group must join again."""
SYNC: Final = "sync"
"""The sync phase of a classic group, and the time between JoinGroup and SyncGroup of a
classic member of a consumer group."""
REBALANCE: Final = "rebalance"
"""The time in which a member must give up the partitions or tasks that were revoked."""
REPLACED: Final = "replaced"
"""A consumer group in which a classic member has just replaced another member."""
DOWNGRADED: Final = "downgraded"
"""A classic group that was just a consumer group: it rebalances at once."""
INITIAL_DELAY: Final = "initial streams delay"
"""The time in which a new streams group waits for more members."""
EXPIRATION: Final = "expiration"
"""The search for expired offsets; it is the whole key."""

OF_TYPE: Final = {
    REPLACED: GroupType.CONSUMER,
    DOWNGRADED: GroupType.CLASSIC,
    INITIAL_DELAY: GroupType.STREAMS,
}
"""The timers that only groups of one type have."""
