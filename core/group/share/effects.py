"""What share groups have done by others: the runtime carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pk.core.values import Uuid


class InitializeShareState(NamedTuple):
    """An effect: the share coordinator is to give these share partitions a beginning. What came of
    it returns by `ShareGroups.initialized`."""

    group_id: str
    state_epoch: int
    offsets: Mapping[Uuid, Mapping[int, int]]
    """Topic id → partition → where delivery begins; -1 for where `share.auto.offset.reset` says."""
