"""The addresses at which brokers serve metrics, from their configs. Needs no library for
metrics."""

from typing import NamedTuple

from pk.net.client.admin import Admin
from pk.net.client.results import ConfigResource, ResourceType

LISTENER = "pk.metrics.listener"


class Listeners(NamedTuple):
    """The metrics listeners in the brokers' configs."""

    urls: dict[int, str | None]
    """Broker → the URL of its metrics, without /metrics, for brokers that serve them; None if the
    system chose the port."""

    known: bool
    """Whether a broker knows the config. Apache Kafka's brokers do not."""

    @property
    def why_none(self) -> str:
        """Why no broker serves metrics, without a period."""
        if self.urls:
            return f"The brokers chose the ports of {LISTENER} themselves; set one on each broker"
        if self.known:
            return f"No broker serves metrics; set {LISTENER}=HOST:PORT on the brokers"
        return "No broker serves metrics over HTTP: Apache Kafka's brokers have them in JMX only"


async def listeners(admin: Admin) -> Listeners:
    """The listeners of the brokers' metrics. Raises KafkaError."""
    nodes = (await admin.describe_cluster()).brokers
    resources = {ConfigResource(ResourceType.BROKER, str(n.node_id)): n for n in nodes}
    answers = await admin.describe_configs(resources, include_synonyms=False)
    found: dict[int, str | None] = {}
    known = False
    for resource, node in resources.items():
        answer = answers.value(resource)
        entry = next((entry for entry in answer if entry.name == LISTENER), None)
        known = known or entry is not None
        value = None if entry is None else entry.value
        if value is None:
            continue
        host, _, port = value.rpartition(":")
        if host.strip("[]") in ("", "0.0.0.0", "::"):
            host = node.host
        found[node.node_id] = None if port == "0" else f"http://{host}:{port}"
    return Listeners(found, known)
