"""Decisions about configs of topics, brokers, groups and client metrics subscriptions. Pure:
(image, request) → events.

Each resource in a request is decided separately and has its own error. IncrementalAlterConfigs
(KIP-339) changes single keys; AlterConfigs replaces all keys of a resource.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar

from pk.core.auth.sasl_config import check_changed_login
from pk.core.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    ConfigError,
    Key,
    Scope,
    TopicConfig,
    Type,
    Value,
    any_broker_key,
    broker_key,
    key_of,
)
from pk.core.config.listener_keys import FOR_ALL_BROKERS
from pk.core.config.security_promises import check_changed_key
from pk.core.config.tables import LISTENER_PREFIX, OWN_PREFIX
from pk.core.config.unsupported import PLUGIN_KEYS
from pk.core.errors import ErrorCode, KafkaError
from pk.core.java_regex import JavaRegex
from pk.core.machine import Decision
from pk.core.meta import elections
from pk.core.meta.describe import (
    Described,
    describe_topic,
)
from pk.core.meta.events import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigChanged, Event
from pk.core.meta.image import ConfigResource, MetadataImage
from pk.core.meta.partition_rules import MIN_ISR
from pk.core.meta.topic_names import check_name
from pk.core.wire.messages import alter_configs as legacy
from pk.core.wire.messages import incremental_alter_configs as incremental

__all__ = ["Described", "Operation", "alter", "check_topic", "describe_topic", "incremental_alter"]


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


R = TypeVar("R", legacy.AlterConfigsResource, incremental.AlterConfigsResource)
A = TypeVar("A")


class Change(Protocol):
    """One key of an IncrementalAlterConfigs request."""

    name: str
    config_operation: int
    value: str | None


_THROTTLED: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_NEEDS_A_RESTART: Final = frozenset({"listeners", "listener.security.protocol.map"})
"""Keys that Kafka's brokers can change while they run, and pk's cannot."""

_LEADERSHIP: Final = frozenset({MIN_ISR, "unclean.leader.election.enable"})
"""Keys that decide which replicas may lead."""

_REPLICA: Final = re.compile(r"\s*[0-9]+\s*:\s*[0-9]+\s*")
_DURATION: Final = re.compile(
    r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?",
    re.IGNORECASE,
)
_MATCH_KEYS: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def _parse(keys: Mapping[str, Key], given: Mapping[str, str]) -> dict[str, Value]:
    return {name: key_of(keys, name).parse(text) for name, text in given.items()}


def check_topic(
    own: Mapping[str, str], config: BrokerConfig, before: Mapping[str, str] | None = None
) -> None:
    """Raise KafkaError(INVALID_CONFIG) if a topic must not set these keys. `before` are its current
    keys, or None for a new topic."""
    try:
        values = _parse(TOPIC_KEYS, own)
        config.topic(own).check()
        for name in _THROTTLED:
            _check_throttled(name, values.get(name))
        enabled = bool(values.get("remote.storage.enable"))
        disabled = before is not None and config.topic(before).remote_storage_enable and not enabled
        if disabled and not values.get("remote.log.delete.on.disable"):
            raise ConfigError(
                "It is invalid to disable remote storage without deleting remote data. If you "
                "want to keep the remote data and turn to read only, please set "
                "`remote.storage.enable=true,remote.log.copy.disable=true`. If you want to "
                "disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        if enabled and not config.remote_log_storage_system_enable:
            raise ConfigError(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                "configured with remote log storage."
            )
        if enabled:
            _check_tiered(config.topic(own))
    except ConfigError as e:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(e)) from e


def _check_tiered(topic: TopicConfig) -> None:
    """Raise ConfigError if a topic with remote storage is compacted, or its local retention exceeds
    its retention. The messages are Apache Kafka's."""
    if topic.cleanup_policy not in ((), ("delete",)):
        raise ConfigError(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy "
            "being an empty list."
        )
    limits = (
        ("retention.bytes", topic.retention_bytes, topic.local_retention_bytes),
        ("retention.ms", topic.retention_ms, topic.local_retention_ms),
    )
    for name, whole, local in limits:
        refused = f"Invalid value {local} for configuration local.{name}: Value must not be"
        if local == -1 < whole:
            raise ConfigError(f"{refused} -1 as {name} value is set as {whole}.")
        if local > whole > -1:
            raise ConfigError(f"{refused} more than {name} property value: {whole}")
    for name, whole, local in limits:
        if topic.remote_log_copy_disable and local != whole:
            raise ConfigError(
                f"When `remote.log.copy.disable` is set to true, the `local.{name}` and `{name}` "
                "must be set to the identical value because there will be no more logs copied to "
                "the remote storage."
            )


def _check_throttled(name: str, value: Value) -> None:
    if isinstance(value, tuple) and value not in ((), ("*",), ("none",)):
        for replica in value:
            if not _REPLICA.fullmatch(replica):
                raise ConfigError(
                    f"Invalid value [{', '.join(value)}] for configuration {name}: {name} must be "
                    "the literal '*' or a list of replicas in the following format: "
                    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
                )


def _check_broker(
    own: Mapping[str, str], resource: str, changed_keys: Iterable[str], config: BrokerConfig
) -> None:
    """Check only the keys that the request sets, because values stored earlier are not its fault.
    Unknown keys are stored, as Apache Kafka does for keys of plug-ins."""
    for name in changed_keys:
        try:
            key = broker_key(name) if name.startswith(OWN_PREFIX) else any_broker_key(name)
        except ConfigError as e:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(e)) from e
        known = name in BROKER_KEYS or name in PLUGIN_KEYS
        if (known and not key.dynamic) or name in _NEEDS_A_RESTART:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]"
            )
        if not resource and _is_per_broker(name, key):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                (
                    "Cannot update these configs at default cluster level, broker id must be "
                    f"specified: [{name}]"
                ),
            )
        try:
            changed = BrokerConfig({name: own[name]})
            _check_connection_limits(name, own, changed, config)
            check_changed_key(name, own[name], config)
            check_changed_login(name, own[name])
        except ConfigError as e:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(e)) from e


def _is_per_broker(name: str, key: Key) -> bool:
    """Whether a key can only be set for single brokers, as most keys of listeners are."""
    if name.startswith(LISTENER_PREFIX):
        return name.partition(LISTENER_PREFIX)[2].partition(".")[2] not in FOR_ALL_BROKERS
    return key.scope is Scope.PER_BROKER


def _check_connection_limits(
    name: str, own: Mapping[str, str], changed: BrokerConfig, config: BrokerConfig
) -> None:
    """Refuse limits under which a running broker could not be reconfigured, because it would accept
    no connections. Raises ConfigError."""
    if name in ("max.connections", "max.connection.creation.rate") and changed[name] == 0:
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: Invalid {name} 0 for "
            "configuration Invalid dynamic configuration"
        )
    overrides = "max.connections.per.ip.overrides"
    closed = name == "max.connections.per.ip" and changed[name] == 0
    if closed and not own.get(overrides, config[overrides]):
        raise ConfigError(
            f"requirement failed: {name} can be set to zero only if {overrides} property is set."
        )


def _check_group(own: Mapping[str, str], config: BrokerConfig) -> None:
    try:
        values = _parse(GROUP_KEYS, own)
        for name, value in values.items():
            kind, _, rest = name.partition(".")
            low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
            if name == "streams.num.standby.replicas":
                high = "group.streams.max.standby.replicas"
            _check_between(name, value, config, low, high)
        for kind in ("consumer", "share", "streams"):
            session, beat = (
                values.get(n, config[f"group.{n}"])
                for n in (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
            )
            assert isinstance(session, int) and isinstance(beat, int)
            if session <= beat:
                raise ConfigError(
                    f"{kind}.session.timeout.ms must be above {kind}.heartbeat.interval.ms"
                )
        reset = own.get("share.auto.offset.reset", "latest")
        if reset not in ("earliest", "latest") and not _DURATION.fullmatch(reset):
            raise ConfigError(
                f"Invalid value {reset} for configuration share.auto.offset.reset: Invalid value "
                f"`{reset}` for configuration share.auto.offset.reset. The value must be either "
                "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )
    except ConfigError as e:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(e)) from e


def _check_between(name: str, value: Value, config: BrokerConfig, low: str, high: str) -> None:
    for bound, below in ((low, True), (high, False)):
        try:
            limit = config[bound]
        except ConfigError:
            continue  # This key has no such bound.
        assert isinstance(value, int) and isinstance(limit, int)
        if value < limit if below else value > limit:
            word = "greater" if below else "less"
            raise ConfigError(f"{name} must be {word} than or equal to {bound}")


def _check_client_metrics(own: Mapping[str, str]) -> None:
    try:
        values = _parse(CLIENT_METRICS_KEYS, own)
    except ConfigError as e:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(e)) from e
    match = values.get("match")
    for pattern in match if isinstance(match, tuple) else ():
        name, _, expression = pattern.partition("=")
        try:
            if name.strip() not in _MATCH_KEYS or not expression.strip():
                raise ValueError
            JavaRegex(expression.strip())
        except ValueError:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Illegal client matching pattern: {pattern}",
            ) from None


def _check_resource(image: MetadataImage, resource_type: int, name: str) -> None:
    """Raise KafkaError if the resource does not exist or cannot be configured."""
    if resource_type == TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if name not in image.topics:
            check_name(name)
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
    elif resource_type == BROKER:
        check_broker_name(name)
    elif resource_type in (GROUP, CLIENT_METRICS):
        if not name:
            missing = (
                "Default group resources are not allowed."
                if resource_type == GROUP
                else "Subscription name can't be empty"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, missing)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def check_broker_name(name: str, what: str = "Node") -> int | None:
    """Parse the id in a broker resource's name. Returns None for all brokers. `what` is the name of
    the resource in the error. Raises KafkaError(INVALID_REQUEST)."""
    if not name:
        return None
    if not (name.isascii() and name.isdigit() and len(name) <= 10):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}"
        )
    return int(name)


def _check(
    resource: ConfigResource,
    before: Mapping[str, str],
    own: Mapping[str, str],
    changed_keys: Iterable[str],
    config: BrokerConfig,
) -> None:
    resource_type, name = resource
    if resource_type == TOPIC:
        check_topic(own, config, before)
    elif resource_type == BROKER:
        _check_broker(own, name, changed_keys, config)
    elif resource_type == GROUP:
        _check_group(own, config)
    else:
        _check_client_metrics(own)


def incremental_alter(
    image: MetadataImage,
    request: incremental.IncrementalAlterConfigsRequest,
    config: BrokerConfig,
) -> Decision[Event, incremental.IncrementalAlterConfigsResponse]:
    """Decide an IncrementalAlterConfigs request, except for loggers, which each broker changes by
    itself."""

    def changed(resource: incremental.AlterConfigsResource) -> dict[str, str]:
        key = resource.resource_type, resource.resource_name
        return _changed(key, image.config(*key), resource.configs, config)

    decision, errors = _decide(image, request.resources, changed, config, request.validate_only)
    answers = _answers(incremental.AlterConfigsResourceResponse, request.resources, errors)
    decision.reply = incremental.IncrementalAlterConfigsResponse(responses=answers)
    return decision


def alter(
    image: MetadataImage, request: legacy.AlterConfigsRequest, config: BrokerConfig
) -> Decision[Event, legacy.AlterConfigsResponse]:
    """Decide an AlterConfigs request, which deletes the keys that it does not name."""

    def changed(resource: legacy.AlterConfigsResource) -> dict[str, str]:
        return {c.name: _required(c.name, c.value) for c in resource.configs}

    decision, errors = _decide(image, request.resources, changed, config, request.validate_only)
    answers = _answers(legacy.AlterConfigsResourceResponse, request.resources, errors)
    decision.reply = legacy.AlterConfigsResponse(responses=answers)
    return decision


def _check_min_isr(
    resource: ConfigResource, changed_keys: Iterable[str], new: Iterable[str]
) -> None:
    """Refuse to set `min.insync.replicas` for one broker, or to remove it for all: every broker
    must use the controller's value, or an eligible leader might lack acknowledged records
    (KIP-966)."""
    if resource[0] != BROKER or MIN_ISR not in changed_keys:
        return
    if resource[1]:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
        )
    if MIN_ISR not in new:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
        )


def _decide(
    image: MetadataImage,
    resources: Iterable[R],
    changed: Callable[[R], dict[str, str]],
    config: BrokerConfig,
    validate_only: bool,
) -> tuple[Decision[Event, Any], list[KafkaError | None]]:
    decision: Decision[Event, Any] = Decision()
    errors: list[KafkaError | None] = []
    seen = Counter((r.resource_type, r.resource_name) for r in resources)
    leads = False
    for one in resources:
        resource = one.resource_type, one.resource_name
        try:
            if seen[resource] > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            if len({c.name for c in one.configs}) != len(one.configs):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            _check_resource(image, *resource)
            old, new = image.config(*resource), changed(one)
            changed_keys = [name for name in new if old.get(name) != new[name]]
            removed = [name for name in old if name not in new]
            _check(resource, old, new, changed_keys, config)
            _check_min_isr(resource, [*changed_keys, *removed], new)
        except KafkaError as e:
            # The traceback refers to this frame, which refers to `errors`.
            errors.append(e.with_traceback(None))
            continue
        errors.append(None)
        if not validate_only:
            decision.records += [ConfigChanged(*resource, n, new[n]) for n in changed_keys]
            decision.records += [ConfigChanged(*resource, n, None) for n in removed]
        leads = leads or any(name in _LEADERSHIP for name in (*changed_keys, *removed))
    if leads and not validate_only:
        after = image.apply(decision.records)
        decision.records += elections.rules_changed(image, after, config)
    return decision, errors


def _answers(
    answer: Callable[..., A], resources: Iterable[R], errors: Iterable[KafkaError | None]
) -> list[A]:
    """Return the response for each resource."""
    answers: list[A] = []
    for resource, error in zip(resources, errors, strict=True):
        answers.append(
            answer(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return answers


def _required(name: str, value: str | None) -> str:
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
    return value


def _changed(
    resource: ConfigResource,
    own: Mapping[str, str],
    changes: Iterable[Change],
    config: BrokerConfig,
) -> dict[str, str]:
    new = dict(own)
    for change in changes:
        name, operation = change.name, change.config_operation
        if operation == Operation.DELETE:
            new.pop(name, None)
            continue
        value = _required(name, change.value)
        if operation == Operation.SET:
            new[name] = value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            new[name] = _edited(resource, new.get(name), name, operation, value, config)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown config operation {operation}")
    return new


def _edited(
    resource: ConfigResource,
    old: str | None,
    name: str,
    operation: int,
    value: str,
    config: BrokerConfig,
) -> str:
    """Return the list with members added or removed. A resource without its own value starts from
    the default."""
    try:
        key = _key(resource[0], name)
    except ConfigError as e:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(e)) from e
    if key.type is not Type.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {Operation(operation).name} to key {name} because its type is not LIST.",
        )
    if old is None:
        default = config.topic({})[name] if resource[0] == TOPIC else key.default_value()
        words = list(default) if isinstance(default, tuple) else []
    else:
        words = _split_list(old)
    if operation == Operation.APPEND:
        added = _split_list(value)
        if not added:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Configuration '{name}' values must not be empty."
            )
        words += [w for w in added if w not in words]
    else:
        words = [w for w in words if w not in _split_list(value)]
    return ",".join(words)


def _split_list(text: str) -> list[str]:
    return [w for w in (part.strip() for part in text.split(",")) if w]


def _key(resource_type: int, name: str) -> Key:
    if resource_type == BROKER:
        return broker_key(name)
    tables = {TOPIC: TOPIC_KEYS, GROUP: GROUP_KEYS, CLIENT_METRICS: CLIENT_METRICS_KEYS}
    return key_of(tables[resource_type], name)
