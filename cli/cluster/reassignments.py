"""The reassignments in progress."""

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin


async def running_reassignments(admin: Admin) -> dict[TopicPartition, r.Reassignment]:
    """The reassignments in progress; empty if the cluster cannot list them (before 2.4)."""
    try:
        return await admin.list_reassignments()
    except KafkaError as e:
        if e.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}
