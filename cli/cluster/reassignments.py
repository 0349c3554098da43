"""What is being moved, and how large each replica is."""

from collections.abc import Mapping

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin


async def running_reassignments(admin: Admin) -> dict[TopicPartition, r.Reassignment]:
    """What is being moved; nothing where the cluster cannot say (before 2.4)."""
    try:
        return await admin.list_reassignments()
    except KafkaError as e:
        if e.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}


def sizes_by_replica(
    dirs: Mapping[int, tuple[r.LogDirDescription, ...] | Exception],
) -> dict[tuple[TopicPartition, int], int]:
    """(partition, broker) → bytes of the replica there."""
    return {
        (replica.partition, broker): replica.size_bytes
        for broker, answer in dirs.items()
        if not isinstance(answer, Exception)
        for directory in answer
        for replica in directory.replicas
        if not replica.future
    }
