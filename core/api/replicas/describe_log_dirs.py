"""DescribeLogDirs (35), versions 1–5: the partitions of each log directory, and how full its disk
is (KIP-113, KIP-827)."""

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def handle(context: Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe all directories, with the requested partitions, or with all partitions if the
    request names none."""
    replicas = context.broker.data.replicas
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        named = ((t.topic, partition) for t in request.topics for partition in t.partitions)
        wanted = {each for each in named if replicas.find(*each) is not None}
    response = DescribeLogDirsResponse()
    for directory in replicas.directories:
        result = DescribeLogDirsResult(log_dir=directory.path, is_cordoned=directory.cordoned)
        response.results.append(result)
        if directory.failed:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        topics: dict[str, DescribeLogDirsTopic] = {}
        for partition in replicas.in_directory(directory):
            await let_others_run()
            name, index = partition.tp
            if wanted is not None and (name, index) not in wanted:
                continue
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=partition.log.state.size,
                    offset_lag=max(
                        partition.high_watermark - partition.log.state.log_end_offset, 0
                    ),
                )
            )
        for move in context.broker.data.alter_log_dirs.moves(directory):
            (name, index), future = move.partition.tp, move.future
            if future is None or (wanted is not None and (name, index) not in wanted):
                continue
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=future.state.size,
                    offset_lag=max(
                        move.partition.log.state.log_end_offset - future.state.log_end_offset, 0
                    ),
                    is_future_key=True,
                )
            )
        result.topics = list(topics.values())
        try:
            result.total_bytes, result.usable_bytes = await offload(directory.free_bytes)
        except KafkaError as e:
            result.error_code = e.code
    return response
