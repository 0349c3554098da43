"""AlterReplicaLogDirs (34), versions 1–2: moves logs between this broker's log directories
(KIP-113).

The response confirms that the move has started; DescribeLogDirs shows its progress, as the lag of a
future log.
"""

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def handle(
    context: Context, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Start all moves; each partition has its own error."""
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            for number in topic.partitions:
                code = ErrorCode.NONE
                try:
                    context.broker.data.alter_log_dirs.move(topic.name, number, directory.path)
                except KafkaError as e:
                    code = ErrorCode(e.code)
                result.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                )
                await let_others_run()
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def error_response(
    request: AlterReplicaLogDirsRequest, error: KafkaError, version: int
) -> AlterReplicaLogDirsResponse:
    """Return the same error for every partition."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=n, error_code=error.code)
                    for n in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )
