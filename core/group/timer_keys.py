"""The keys of the timers of groups. The first part is one of these; then come the group's id and,
where a member has the timer, the member's.

A group may change its type with its members in it, and a session goes on then: so all types have
the same keys.
"""

from __future__ import annotations

from typing import Final

SESSION: Final = "session"
"""Of a member's session."""
JOIN: Final = "join"
"""Of the join phase of a classic group, and of the time in which a classic member of a consumer
group must join again."""
SYNC: Final = "sync"
"""Of the sync phase of a classic group, and of the time between JoinGroup and SyncGroup of a
classic member of a consumer group."""
REBALANCE: Final = "rebalance"
"""Of the time in which a member must give up what it was asked to."""
REPLACED: Final = "replaced"
"""Of a consumer group in which a classic member has just taken somebody's place."""
DOWNGRADED: Final = "downgraded"
"""Of a classic group that was a consumer group a moment ago: it rebalances at once."""
INITIAL_DELAY: Final = "initial streams delay"
"""Of the time in which a new streams group waits for more members."""
EXPIRATION: Final = "expiration"
"""Of the search for offsets that have grown old; it is the whole key."""
