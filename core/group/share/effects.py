"""The effects of share groups, which the runtime carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pk.core.values import Uuid


class InitializeShareState(NamedTuple):
    """An effect: the share coordinator must set the start of these share partitions. The result
    goes to `ShareGroups.initialized`."""

    group_id: str
    state_epoch: int
    offsets: Mapping[Uuid, Mapping[int, int]]
    """Topic id → partition → where delivery begins; -1 for where `share.auto.offset.reset` says."""
