"""How a range is read: whom to ask, with which of Kafka's client keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pk.net.client.config import AdminConfig, ConsumerConfig, keys, parse
from pk.net.client.results import IsolationLevel

FETCH_BYTES: Final = 8 << 20
"""`max.partition.fetch.bytes` where the caller has not set it: a task reads one partition, not hundreds."""

WAIT_MS: Final = 120_000
"""How long a record that should be there is waited for (`kafkaConsumer.pollTimeoutMs`; Spark's default)."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a range is read. `client` has Kafka's keys of a consumer."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    headers: bool = False
    fail_on_data_loss: bool = True
    wait_ms: int = WAIT_MS

    @property
    def config(self) -> ConsumerConfig:
        """`client` parsed. Raises ConfigError."""
        return parse(ConsumerConfig, {"max.partition.fetch.bytes": FETCH_BYTES, **self.client})

    @property
    def admin_config(self) -> dict[str, str]:
        """Those of `client` that an admin client has too."""
        return {name: value for name, value in self.client.items() if name in keys(AdminConfig)}

    @property
    def isolation(self) -> IsolationLevel:
        """How far a read may see. Raises ConfigError."""
        return IsolationLevel[self.config.isolation_level.upper()]
