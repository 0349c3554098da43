"""PkRemoteStorage (10004), version 0: how much of each tiered partition that this broker leads has
been copied to remote storage, and why the rest has not."""

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.requests.context import Context
from pk.core.log.remote.metadata import SegmentState
from pk.core.wire.messages.pk_remote_storage import (
    PkRemoteStorageRequest,
    PkRemoteStorageResponse,
    RemotePartitionState,
)

WITHOUT_STORAGE = "this broker has no remote storage: remote.log.storage.system.enable is false"


async def handle(context: Context, request: PkRemoteStorageRequest) -> PkRemoteStorageResponse:
    """Describe the partitions that this broker leads, or will lead once it has restored them."""
    broker, response = context.broker, PkRemoteStorageResponse()
    trouble = broker.remote.trouble if broker.remote is not None else {}
    orphans = broker.remote.orphans if broker.remote is not None else {}
    for partition in list(broker.data.replicas):
        await let_others_run()
        if partition.leader != broker.node_id:
            continue
        if partition.remote is None and not partition.config.remote_storage_enable:
            continue
        state = _state(partition)
        state.why = trouble.get(partition.tp, "")
        if kept := orphans.get(partition.tp):
            state.orphans, state.orphan = len(kept), min(kept)
        if broker.remote is None:
            state.why = WITHOUT_STORAGE
        response.partitions.append(state)
    return response


def _state(partition: Partition) -> RemotePartitionState:
    state = RemotePartitionState(
        topic=partition.tp.topic,
        partition=partition.tp.partition,
        copy_disabled=partition.config.remote_log_copy_disable,
        restoring=partition.awaits_restore,
    )
    if partition.remote is None:
        return state
    for segment in partition.remote.segments:
        if segment.state is SegmentState.COPY_FINISHED:
            state.segments += 1
            state.bytes += segment.size
        else:
            state.unfinished += 1
    if partition.leads and not partition.busy and partition.config.remote_storage_enable:
        state.lag_bytes, state.lag_segments = partition.remote.copy_lag(partition.log)
    return state
