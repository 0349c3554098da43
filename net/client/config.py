"""The client's config keys: Kafka's own names, parsed into typed, frozen values.

A key that Kafka's clients know but this one does not support (yet) is refused with the reason,
unless it has its neutral value (`enable.metrics.push=false`); an unknown key is refused with the
nearest name. Nothing is accepted and ignored.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, cast

from pk.core.durations import iso_ms
from pk.core.nearest import did_you_mean_key
from pk.core.values import SASL_MECHANISMS
from pk.net.client.common_config import (
    INT_MAX,
    LONG_MAX,
    ClientConfig,
    ConfigKey,
    check_login,
    config_key,
)
from pk.net.client.errors import ConfigError


def duration_ms(text: str) -> int:
    """Return the milliseconds of a non-negative ISO 8601 duration `PnDTnHnMn.nS`. Raises
    ValueError."""
    found = iso_ms(text)
    if "-" in text:
        raise ValueError(f"not a duration: {text!r} is negative")
    return found


def _offset_reset(value: str) -> str | None:
    if value in ("latest", "earliest", "none"):
        return None
    if value.startswith("by_duration:"):
        try:
            duration_ms(value.removeprefix("by_duration:"))
        except ValueError as e:
            return str(e)
        return None
    return "must be latest, earliest, none or by_duration:PnDTnHnMn.nS"


def _group_protocol(value: str) -> str | None:
    return None if value.lower() in ("classic", "consumer") else "must be classic or consumer"


ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""The assignors by the class names in the configs of Java clients."""


def _is_assignor(value: object) -> bool:
    return hasattr(value, "assign") and hasattr(value, "user_data")


def _assignors(value: tuple[Any, ...]) -> str | None:
    if not value:
        return "must name at least one assignor"
    named = [each for each in value if not _is_assignor(each)]
    unknown = [name for name in named if ASSIGNORS.get(name, name) not in ASSIGNORS.values()]
    names = ", ".join(sorted(ASSIGNORS.values()))
    return f"{unknown[0]!r} is not one of {names}" if unknown else None


def _partitioner(value: str) -> str | None:
    if value in ("", "org.apache.kafka.clients.producer.RoundRobinPartitioner", "roundrobin"):
        return None
    return "is a Java class; pass a function as `partitioner` (built in: roundrobin)"


class AdminConfig(ClientConfig, frozen=True, kw_only=True):
    """The keys of an admin client."""

    default_api_timeout_ms: int = config_key(60_000, low=0, high=INT_MAX)
    retries: int = config_key(INT_MAX, low=0, high=INT_MAX)
    pk_straggler_timeout_ms: int = config_key(-1, low=-1, high=INT_MAX)
    """How long the other brokers may take after one has answered a request that was sent to several
    at once; -1: up to `default.api.timeout.ms`. Does not apply to changes."""


class ProducerConfig(ClientConfig, frozen=True, kw_only=True):
    """The keys of a producer."""

    acks: str = config_key("all", one_of=("all", "-1", "0", "1"))
    batch_size: int = config_key(16_384, low=0, high=INT_MAX)
    buffer_memory: int = config_key(33_554_432, low=0, high=LONG_MAX)
    compression_type: str = config_key("none", one_of=("none", "gzip", "snappy", "lz4", "zstd"))
    compression_gzip_level: int = config_key(-1, low=-1, high=9)
    compression_lz4_level: int = config_key(9, low=1, high=17)
    compression_zstd_level: int = config_key(3, low=-131_072, high=22)
    delivery_timeout_ms: int = config_key(120_000, low=0, high=INT_MAX)
    enable_idempotence: bool = config_key(True)
    linger_ms: int = config_key(5, low=0, high=LONG_MAX)
    max_block_ms: int = config_key(60_000, low=0, high=LONG_MAX)
    max_in_flight_requests_per_connection: int = config_key(5, low=1, high=INT_MAX)
    max_request_size: int = config_key(1_048_576, low=0, high=INT_MAX)
    metadata_max_idle_ms: int = config_key(300_000, low=5_000, high=LONG_MAX)
    partitioner_adaptive_partitioning_enable: bool = config_key(True)
    partitioner_class: str = config_key("", check=_partitioner)
    partitioner_ignore_keys: bool = config_key(False)
    retries: int = config_key(INT_MAX, low=0, high=INT_MAX)
    transaction_timeout_ms: int = config_key(60_000, low=1, high=INT_MAX)
    transactional_id: str | None = config_key(None)

    @property
    def required_acks(self) -> int:
        """The value of `acks` in requests."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression_level(self) -> int | None:
        """The level of the codec in use, None for the codec's own default."""
        levels = {
            "gzip": None if self.compression_gzip_level == -1 else self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)


class ConsumerConfig(ClientConfig, frozen=True, kw_only=True):
    """The keys of a consumer."""

    allow_auto_create_topics: bool = config_key(True)
    auto_commit_interval_ms: int = config_key(5_000, low=0, high=INT_MAX)
    auto_offset_reset: str = config_key("latest", check=_offset_reset)
    check_crcs: bool = config_key(True)
    client_rack: str = config_key("")
    default_api_timeout_ms: int = config_key(60_000, low=0, high=INT_MAX)
    enable_auto_commit: bool = config_key(True)
    exclude_internal_topics: bool = config_key(True)
    fetch_max_bytes: int = config_key(52_428_800, low=0, high=INT_MAX)
    fetch_max_wait_ms: int = config_key(500, low=0, high=INT_MAX)
    fetch_min_bytes: int = config_key(1, low=0, high=INT_MAX)
    group_id: str | None = config_key(None)
    group_instance_id: str | None = config_key(None)
    group_protocol: str = config_key("classic", check=_group_protocol)
    group_remote_assignor: str | None = config_key(None)
    heartbeat_interval_ms: int = config_key(3_000, low=1, high=INT_MAX)
    isolation_level: str = config_key(
        "read_uncommitted", one_of=("read_committed", "read_uncommitted")
    )
    max_partition_fetch_bytes: int = config_key(1_048_576, low=0, high=INT_MAX)
    max_poll_interval_ms: int = config_key(300_000, low=1, high=INT_MAX)
    max_poll_records: int = config_key(500, low=1, high=INT_MAX)
    partition_assignment_strategy: tuple[Any, ...] = config_key(
        ("range", "cooperative-sticky"), check=_assignors, accepts=_is_assignor
    )
    """Names of assignors, and `Assignor` objects of the program."""
    session_timeout_ms: int = config_key(45_000, low=1, high=INT_MAX)

    @property
    def joins_by_consumer_protocol(self) -> bool:
        """Whether the coordinator assigns partitions (KIP-848)."""
        return self.group_protocol.lower() == "consumer"

    @property
    def assignors(self) -> tuple[Any, ...]:
        """The assignors in order of preference: protocol names for the built-in ones, and the
        program's own `Assignor` objects."""
        return tuple(
            each if _is_assignor(each) else ASSIGNORS.get(each, each)
            for each in self.partition_assignment_strategy
        )


class ShareConsumerConfig(ClientConfig, frozen=True, kw_only=True):
    """The keys of a share consumer (KIP-932)."""

    check_crcs: bool = config_key(True)
    client_rack: str = config_key("")
    default_api_timeout_ms: int = config_key(60_000, low=0, high=INT_MAX)
    fetch_max_bytes: int = config_key(52_428_800, low=0, high=INT_MAX)
    fetch_max_wait_ms: int = config_key(500, low=0, high=INT_MAX)
    fetch_min_bytes: int = config_key(1, low=0, high=INT_MAX)
    group_id: str | None = config_key(None)
    max_poll_records: int = config_key(500, low=1, high=INT_MAX)
    share_acknowledgement_mode: str = config_key("implicit", one_of=("implicit", "explicit"))
    share_acquire_mode: str = config_key(
        "batch_optimized", one_of=("batch_optimized", "record_limit")
    )


_TWO_PHASE = "two-phase commit (KIP-939) is not stable in Apache Kafka either"
_TELEMETRY = "pk does not push client metrics to the broker (KIP-714)"
_METRICS = "this client does not have the metrics of the Java client"
_BYTES = "names a Java class; keys and values are bytes here"
_CLASSES = "names Java classes"

_REFUSED: Final[dict[str, tuple[str | None, str]]] = {
    "transaction.two.phase.commit.enable": ("false", _TWO_PHASE),
    "enable.metrics.push": ("false", _TELEMETRY),
    "metric.reporters": ("", _METRICS),
    "metrics.num.samples": (None, _METRICS),
    "metrics.recording.level": (None, _METRICS),
    "metrics.sample.window.ms": (None, _METRICS),
    "partitioner.availability.timeout.ms": (
        "0",
        "partitions are never skipped because of the age of their queue",
    ),
    "key.serializer": (None, _BYTES),
    "value.serializer": (None, _BYTES),
    "key.deserializer": (None, _BYTES),
    "value.deserializer": (None, _BYTES),
    "interceptor.classes": ("", _CLASSES),
    "config.providers": ("", _CLASSES),
    "security.providers": ("", _CLASSES),
    "bootstrap.controllers": (None, "give a broker's address instead"),
}
"""Known keys that are refused, each with its neutral value, which is accepted (None: there is
none), and the reason."""

_CONFIG_OWNERS: Final[dict[str, type[ClientConfig]]] = {
    "an admin client": AdminConfig,
    "a producer": ProducerConfig,
    "a consumer": ConsumerConfig,
    "a share consumer": ShareConsumerConfig,
}

C = TypeVar("C", bound=ClientConfig)


@cache
def keys(cls: type[ClientConfig]) -> dict[str, ConfigKey]:
    """Return the keys of `cls` by Kafka's names."""
    return {name.replace("_", "."): key for name, key in cls.config_keys.items()}


def parse(cls: type[C], config: Mapping[str, object] | None) -> C:
    """Parse a config into typed values. `bootstrap.servers` is not one of its keys. Raises
    ConfigError, which names the key."""
    known = keys(cls)
    values: dict[str, Any] = {}
    for name, value in (config or {}).items():
        if name in known:
            values[name.replace(".", "_")] = _parse_value(name, known[name], value)
        else:
            _refuse(cls, name, value)
    parsed = cls(**values)
    _check_together(parsed)
    if isinstance(parsed, ConsumerConfig):
        _check_protocol(parsed, config or {})
    return parsed


def _parse_value(name: str, key: ConfigKey, value: object) -> object:
    default = key.default
    parsed: Any
    if key.accepts is not None and not isinstance(default, tuple) and key.accepts(value):
        return value
    if isinstance(default, bool):
        parsed = _parse_bool(name, value)
    elif isinstance(default, int):
        parsed = _parse_int(name, value, key.low, key.high)
    elif isinstance(default, float):
        parsed = _parse_float(name, value, key.low, key.high)
    elif isinstance(default, tuple):
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise ConfigError(f"{name}: must be a list, not {value!r}")
        parsed = tuple(
            part if key.accepts is not None and key.accepts(part) else str(part).strip()
            for part in cast(Sequence[Any], parts)
        )
    else:
        if value is not None and not isinstance(value, str | int):
            raise ConfigError(f"{name}: must be text, not {value!r}")
        parsed = value if value is None else str(value)
        if default is None and parsed == "":
            raise ConfigError(f"{name}: must not be empty")
        if default is not None and parsed is None:
            raise ConfigError(f"{name}: must be given")
    if key.one_of:
        parsed = parsed.lower()
        if parsed not in key.one_of:
            raise ConfigError(f"{name}: must be one of {', '.join(key.one_of)}, not {value!r}")
    if key.check and not key.secret and (problem := key.check(parsed)):
        raise ConfigError(f"{name}={value}: {problem}")
    return parsed


def _parse_bool(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name}: must be true or false, not {value!r}")
    return text == "true"


def _parse_int(name: str, value: object, low: int | None, high: int | None) -> int:
    whole = value if isinstance(value, str | int) and not isinstance(value, bool) else ""
    try:
        number = int(whole)
    except ValueError:
        raise ConfigError(f"{name}: must be a whole number, not {value!r}") from None
    if (low is not None and number < low) or (high is not None and number > high):
        raise ConfigError(f"{name}: must be from {low} to {high}, not {number}")
    return number


def _parse_float(name: str, value: object, low: float, high: float) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise ConfigError(f"{name}: must be a number from {low:g} to {high:g}, not {value!r}")
    return number


def _refuse(cls: type[ClientConfig], name: str, value: object) -> None:
    if name in _REFUSED:
        allowed, why = _REFUSED[name]
        if allowed is not None and str(value).lower() == allowed:
            return
        raise ConfigError(f"{name} is not supported: {why}")
    if name.startswith(("ssl.", "sasl.")):
        has = "TLS by OpenSSL, without Java classes"
        if name.startswith("sasl."):
            has = f"only the SASL mechanisms {', '.join(SASL_MECHANISMS)}"
        raise ConfigError(f"{name} is not supported: pk has {has}")
    if name == "bootstrap.servers":
        raise ConfigError("bootstrap.servers: pass the addresses as the first argument")
    owners = [owner for owner, other in _CONFIG_OWNERS.items() if name in keys(other)]
    if owners:
        here = next(
            (owner for owner, other in _CONFIG_OWNERS.items() if other is cls), "this client"
        )
        raise ConfigError(f"{name} is a key of {' and of '.join(owners)}, not of {here}")
    hint = did_you_mean_key(name, [*keys(cls), *_REFUSED])
    raise ConfigError(f"{name} is not a config key of Kafka's clients{hint}")


def _check_together(config: ClientConfig) -> None:
    if config.uses_sasl:
        check_login(config)
    if config.ssl_context is not None:
        neutral = type(config)()
        for name in config.config_keys:
            other = name.startswith("ssl_") and name != "ssl_context"
            if other and getattr(config, name) != getattr(neutral, name):
                raise ConfigError(f"ssl.context replaces {name.replace('_', '.')}: give one")
    if isinstance(config, ProducerConfig):
        if config.delivery_timeout_ms < config.linger_ms + config.request_timeout_ms:
            raise ConfigError(
                "delivery.timeout.ms: must be at least linger.ms + request.timeout.ms"
                f" ({config.linger_ms} + {config.request_timeout_ms})"
            )
        if config.compression_gzip_level == 0:
            raise ConfigError("compression.gzip.level: must be from 1 to 9, or -1")
    if isinstance(config, ShareConsumerConfig) and (
        config.fetch_max_wait_ms >= config.request_timeout_ms
    ):
        raise ConfigError("fetch.max.wait.ms: must be less than request.timeout.ms")
    if isinstance(config, ConsumerConfig):
        if config.heartbeat_interval_ms >= config.session_timeout_ms:
            raise ConfigError("heartbeat.interval.ms: must be less than session.timeout.ms")
        if config.fetch_max_wait_ms >= config.request_timeout_ms:
            raise ConfigError("fetch.max.wait.ms: must be less than request.timeout.ms")


_CLASSIC_KEYS: Final = (
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
"""Keys of the classic protocol, whose values a broker's config determines for the consumer
protocol: intervals, timeouts and assignment."""


def _check_protocol(config: ConsumerConfig, given: Mapping[str, object]) -> None:
    """Refuse keys of the other group protocol, as Java does."""
    if config.joins_by_consumer_protocol:
        foreign = [name for name in _CLASSIC_KEYS if name in given]
        if foreign:
            raise ConfigError(f"{foreign[0]} cannot be set when group.protocol=consumer")
    elif config.group_remote_assignor is not None:
        raise ConfigError("group.remote.assignor cannot be set when group.protocol=classic")


def idempotence(config: ProducerConfig, given: Mapping[str, object] | None) -> bool:
    """Return whether the producer is idempotent. As in Java, a conflicting key turns idempotence
    off unless it was requested explicitly. Raises ConfigError if `enable.idempotence=true` or a
    `transactional.id` was given but another key conflicts.
    """
    if not config.enable_idempotence:
        if config.transactional_id is not None:
            raise ConfigError("transactional.id: enable.idempotence must not be false")
        return False
    conflict = None
    if config.required_acks != -1:
        conflict = "acks must be all"
    elif config.retries == 0:
        conflict = "retries must be above 0"
    elif config.max_in_flight_requests_per_connection > 5:
        conflict = "max.in.flight.requests.per.connection must be at most 5"
    if conflict is None:
        return True
    if config.transactional_id is not None:
        raise ConfigError(f"transactional.id: {conflict}")
    if given is not None and "enable.idempotence" in given:
        raise ConfigError(f"enable.idempotence=true: {conflict}")
    if config.max_in_flight_requests_per_connection > 5:
        raise ConfigError(
            "max.in.flight.requests.per.connection: must be at most 5 for an idempotent producer;"
            " set enable.idempotence=false to allow more"
        )
    return False
