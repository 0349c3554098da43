"""The addresses at which brokers serve metrics, from their configs. Needs no library of metrics."""

from pk.net.client.admin import Admin
from pk.net.client.results import ConfigResource, ResourceType

LISTENER = "pk.metrics.listener"


async def metrics_urls(admin: Admin) -> dict[int, str | None]:
    """Broker → the URL of its metrics, without /metrics, for brokers that serve them; None if the
    broker chose the port itself. Raises KafkaError."""
    nodes = (await admin.describe_cluster()).brokers
    resources = {ConfigResource(ResourceType.BROKER, str(n.node_id)): n for n in nodes}
    answers = await admin.describe_configs(resources, include_synonyms=False)
    found: dict[int, str | None] = {}
    for resource, node in resources.items():
        answer = answers.value(resource)
        value = next((entry.value for entry in answer if entry.name == LISTENER), None)
        if value is None:
            continue
        host, _, port = value.rpartition(":")
        if host.strip("[]") in ("", "0.0.0.0", "::"):
            host = node.host
        found[node.node_id] = None if port == "0" else f"http://{host}:{port}"
    return found
