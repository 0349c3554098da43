"""The effects of share groups, which the runtime carries out."""

from __future__ import annotations

from collections.abc import Mapping

from pk.core.machine import Effect
from pk.core.values import Uuid


class InitializeShareState(Effect, frozen=True):
    """Have the share coordinator initialize these share partitions. The result goes to
    `ShareGroups.initialized`."""

    group_id: str
    state_epoch: int
    offsets: Mapping[Uuid, Mapping[int, int]]
    """The start offset of each partition, by topic id. -1 means that `share.auto.offset.reset`
    determines it."""
