"""min.insync.replicas of topics."""

from collections.abc import Iterable, Mapping

from pk.net.client import results as r
from pk.net.client.admin import Admin

_KEY = "min.insync.replicas"


async def min_isrs(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """min.insync.replicas of topics, as far as it can be read."""
    resources = [r.ConfigResource(r.ResourceType.TOPIC, t) for t in sorted(set(topics))]
    if not resources:
        return {}
    answers = await admin.describe_configs(resources, keys=(_KEY,), include_synonyms=False)
    return min_isrs_in({resource.name: found for resource, found in answers.ok.items()})


def min_isrs_in(configs: Mapping[str, Iterable[r.ConfigEntry]]) -> dict[str, int]:
    """min.insync.replicas of the topics whose configs have it."""
    return {
        topic: int(entry.value)
        for topic, entries in configs.items()
        for entry in entries
        if entry.name == _KEY and entry.value
    }
