"""Replaces segments of a log with a new one (core/log/swap.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.log.cleaned_segment import remove_cleaned
from pk.core.log.log import Log
from pk.core.log.segment import Part

if TYPE_CHECKING:
    from pk.core.broker.replication.replicas import Replicas


async def replace_segments(
    replicas: Replicas,
    partition: Partition,
    log: Log,
    base_offset: int,
    replaced: Sequence[Part],
    sizes: dict[str, int],
) -> bool:
    """Replace `replaced` with the `.cleaned` segment of `base_offset`, whose files have `sizes` in
    bytes. If the log has changed too much, or is no longer the partition's log, remove the segment
    and return False. Raises StorageError, OSError."""
    if (
        partition.busy
        or partition.log is not log
        or not log.segments.swap_in(base_offset, replaced, sizes)
    ):
        await offload(remove_cleaned, log.state.disk, log.state.directory, base_offset)
        return False
    with trio.CancelScope(shield=True):  # finish what has begun: a few renames and syncs
        await offload(log.durability.sync_names, directory=log.log_dir.path)
        while not partition.busy and log.segments.step_swap():  # a truncation finishes it too
            await offload(log.durability.sync_names, directory=log.log_dir.path)
    if replicas.find(*partition.tp) is partition and partition.offline is None:
        replicas.tasks.dropped(partition)
    return True
