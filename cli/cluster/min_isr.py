"""min.insync.replicas of topics."""

from collections.abc import Iterable

from pk.net.client import results as r
from pk.net.client.admin import Admin


async def min_isrs(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """min.insync.replicas of topics, as far as it can be read."""
    resources = [r.ConfigResource(r.ResourceType.TOPIC, t) for t in sorted(set(topics))]
    if not resources:
        return {}
    answers = await admin.describe_configs(
        resources, keys=("min.insync.replicas",), include_synonyms=False
    )
    return {
        resource.name: int(e.value)
        for resource, answer in answers.ok.items()
        for e in answer
        if e.name == "min.insync.replicas" and e.value
    }
