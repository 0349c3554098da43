"""The effects of share groups, which the runtime carries out."""

from __future__ import annotations

from collections.abc import Mapping

from pk.core.machine import Effect
from pk.core.values import Uuid


class InitializeShareState(Effect, frozen=True):
    """Have the share coordinator set the start of these share partitions. The result
    goes to `ShareGroups.initialized`."""

    group_id: str
    state_epoch: int
    offsets: Mapping[Uuid, Mapping[int, int]]
    """Topic id → partition → where delivery begins; -1 for where `share.auto.offset.reset` says."""
