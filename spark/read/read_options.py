"""Options for reading a range: the brokers, and Kafka's client configs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pk.net.client.config import AdminConfig, ConsumerConfig, keys, parse
from pk.net.client.results import IsolationLevel

FETCH_BYTES: Final = 8 << 20
"""The default of `max.partition.fetch.bytes`. It is large because a task reads one partition, not
hundreds."""

DEFAULTS: Final = {
    "max.partition.fetch.bytes": FETCH_BYTES,
    "isolation.level": "read_committed",
}
"""The configs whose defaults differ from a consumer's. The results of a read are kept, so they must
not contain records of aborted transactions."""

WAIT_MS: Final = 120_000
"""How long to wait for an expected record, in milliseconds (`kafkaConsumer.pollTimeoutMs`, with
Spark's default)."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading a range. `client` has consumer configs under Kafka's names."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    headers: bool = False
    fail_on_data_loss: bool = True
    wait_ms: int = WAIT_MS

    @property
    def config(self) -> ConsumerConfig:
        """The parsed configs of `client`. Raises ConfigError."""
        return parse(ConsumerConfig, {**DEFAULTS, **self.client})

    @property
    def admin_config(self) -> dict[str, str]:
        """The configs of `client` that also apply to an admin client."""
        return {name: value for name, value in self.client.items() if name in keys(AdminConfig)}

    @property
    def isolation(self) -> IsolationLevel:
        """The isolation level, by default read_committed. Raises ConfigError."""
        return IsolationLevel[self.config.isolation_level.upper()]
