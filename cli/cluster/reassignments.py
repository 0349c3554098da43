"""What is being moved in a cluster."""

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
