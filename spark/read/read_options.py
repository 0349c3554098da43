"""How to read a range: the brokers to ask, and Kafka's client configs."""

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
"""The configs whose defaults differ from a consumer's. Reads produce results that
last, which must not contain records of aborted transactions."""

WAIT_MS: Final = 120_000
"""How long to wait for an expected record (`kafkaConsumer.pollTimeoutMs`; Spark's default)."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a range. `client` has consumer configs by Kafka's names."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    headers: bool = False
    fail_on_data_loss: bool = True
    wait_ms: int = WAIT_MS

    @property
    def config(self) -> ConsumerConfig:
        """`client` parsed. Raises ConfigError."""
        return parse(ConsumerConfig, {**DEFAULTS, **self.client})

    @property
    def admin_config(self) -> dict[str, str]:
        """The configs of `client` that apply to an admin client too."""
        return {name: value for name, value in self.client.items() if name in keys(AdminConfig)}

    @property
    def isolation(self) -> IsolationLevel:
        """Whether a read sees uncommitted records; by default it does not. Raises ConfigError."""
        return IsolationLevel[self.config.isolation_level.upper()]
