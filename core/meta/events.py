"""The events of the metadata log: every change of the cluster, as frozen values.

An event is a fact, not a request: the controller decided it, the log holds it,
`MetadataImage.apply` replays it. Each is one record of the log, its value a CBOR document `[name,
version, fields in the order declared here]`.

To extend an event, add the new field at the end, with a default, and increment the class's VERSION.
An older program refuses the newer version, because it would drop fields that it does not know; a
newer program reads the shorter list of an older version. Never remove or reorder fields, or change
their meaning; define an event with a new name instead.
"""

from typing import Any, ClassVar, Final, NamedTuple, Union, cast, get_args

from msgspec import Struct

from pk.core import cbor
from pk.core.quota.entity import Entity, EntityPart
from pk.core.structs import repr_without
from pk.core.values import Uuid

KIND: Final = "pk.metadata.event"
ENVELOPE_VERSION: Final = 1

# The resource types of configs, numbered as in DescribeConfigs.
TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32


class Endpoint(NamedTuple):
    """A broker's advertised address for one listener."""

    name: str
    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


class FeatureRange(NamedTuple):
    """The levels of a feature that a broker supports."""

    name: str
    level_min: int
    level_max: int


class ClusterCreated(Struct, frozen=True):
    """The first event of every log."""

    VERSION: ClassVar[int] = 1
    cluster_id: str


class ControllerElected(Struct, frozen=True):
    """A controller took over the log. It decides the events that follow, under `epoch`."""

    VERSION: ClassVar[int] = 1
    controller_id: int
    epoch: int


class BrokerRegistered(Struct, frozen=True):
    """A broker registered: a new incarnation with its own epoch. It is fenced until its heartbeats
    show that it has caught up.

    Version 2 adds `out_offset` and `known_offset`, which snapshots contain (see `BrokerImage`).
    """

    VERSION: ClassVar[int] = 2
    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    log_dirs: tuple[Uuid, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False
    out_offset: int = -1
    known_offset: int = -1


class BrokerChanged(Struct, frozen=True):
    """A registered broker changed. A field is None if unchanged. Version 2 adds `known_offset`."""

    VERSION: ClassVar[int] = 2
    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: tuple[Uuid, ...] | None = None
    known_offset: int | None = None


class BrokerUnregistered(Struct, frozen=True):
    """A broker was removed permanently (UnregisterBroker)."""

    VERSION: ClassVar[int] = 1
    broker_id: int
    broker_epoch: int


class ControllerRegistered(Struct, frozen=True):
    """A node that may become the controller reported its addresses for brokers and controllers
    (KIP-919)."""

    VERSION: ClassVar[int] = 1
    controller_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()


class RestoredLog(NamedTuple):
    """The objects in remote storage from which a partition's first leader restores the log of a
    lost cluster (core/log/remote/restoring.py)."""

    end_offset: int
    """The last offset to restore."""
    cluster_ids: tuple[str, ...]
    """The clusters that copied the segments."""
    left_out: tuple[Uuid, ...]
    """The ids of segments that are left out because they are damaged."""
    producer_id_next: int
    """Producer ids below this were allocated by this cluster. In the restored segments, they belong
    to other producers."""
    start_offset: int = -1
    """The first offset to restore, or -1 if unknown."""


class TopicCreated(Struct, frozen=True):
    """A topic was created. Its partitions follow as separate events."""

    VERSION: ClassVar[int] = 1
    name: str
    topic_id: Uuid


class TopicDeleted(Struct, frozen=True):
    """A topic was deleted, with its partitions and configs."""

    VERSION: ClassVar[int] = 1
    topic_id: Uuid


class PartitionCreated(Struct, frozen=True):
    """The next partition of a topic was created. Partitions are created in order of their numbers.

    Version 2 adds `recovering`, version 3 `unclean_epoch`, version 4 `restored`.
    """

    VERSION: ClassVar[int] = 4
    topic_id: Uuid
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[Uuid, ...] = ()
    recovering: bool = False
    unclean_epoch: int = -1
    restored: RestoredLog | None = None


class PartitionChanged(Struct, frozen=True):
    """A partition changed. A field is None if unchanged. The partition epoch rises by one.

    A `leader` that is not None begins a new leader epoch, even if it is the current leader. Version
    2 adds `recovering`, version 3 `unclean_epoch`.
    """

    VERSION: ClassVar[int] = 3
    topic_id: Uuid
    partition: int
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    directories: tuple[Uuid, ...] | None = None
    recovering: bool | None = None
    unclean_epoch: int | None = None


class ConfigChanged(Struct, frozen=True):
    """A config of a resource was set, or removed if the value is None."""

    VERSION: ClassVar[int] = 1
    resource_type: int
    resource_name: str
    key: str
    value: str | None

    def __repr__(self) -> str:
        # A broker's config may be a password.
        return repr_without(self, *(() if self.resource_type == TOPIC else ("value",)))


class FeatureChanged(Struct, frozen=True):
    """A feature was finalized at `level`; 0 disables it."""

    VERSION: ClassVar[int] = 1
    name: str
    level: int


class ProducerIdsAllocated(Struct, frozen=True):
    """Producer ids below `next_producer_id` are allocated. The last block went to `broker_id`."""

    VERSION: ClassVar[int] = 1
    broker_id: int
    broker_epoch: int
    next_producer_id: int


class AclCreated(Struct, frozen=True):
    """An ACL was created: see `AclBinding`. No two ACLs are equal in all fields."""

    VERSION: ClassVar[int] = 1
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclDeleted(Struct, frozen=True):
    """An ACL was deleted."""

    VERSION: ClassVar[int] = 1
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class ScramCredentialChanged(Struct, frozen=True):
    """A user's SCRAM credential was set or replaced (KIP-554)."""

    VERSION: ClassVar[int] = 1
    user: str
    mechanism: int
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return repr_without(self, "salt", "stored_key", "server_key")


class ScramCredentialRemoved(Struct, frozen=True):
    """A user's SCRAM credential for one mechanism was removed."""

    VERSION: ClassVar[int] = 1
    user: str
    mechanism: int


class StrangersSecretMade(Struct, frozen=True):
    """The secret for the salts of unknown users was created. All brokers must return the same
    salts."""

    VERSION: ClassVar[int] = 1
    secret: bytes

    def __repr__(self) -> str:
        return repr_without(self, "secret")


class DelegationTokenChanged(Struct, frozen=True):
    """A delegation token was created, or its expiry changed (KIP-48). No event contains its HMAC:
    brokers compute it."""

    VERSION: ClassVar[int] = 1
    token_id: str
    owner: str
    """The owner as a principal, such as `User:alice`."""
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int


class DelegationTokenRemoved(Struct, frozen=True):
    """A delegation token was removed."""

    VERSION: ClassVar[int] = 1
    token_id: str


class ClientQuotaChanged(Struct, frozen=True):
    """The quota of a user, client id or address was set, or removed if the value is None
    (KIP-546)."""

    VERSION: ClassVar[int] = 1
    entity: Entity
    """The entity that the quota applies to; see core/quota/entity.py."""
    key: str
    value: float | None


Event = Union[  # noqa: UP007 - a runtime alias that type checkers narrow in `match`
    ClusterCreated,
    ControllerElected,
    BrokerRegistered,
    BrokerChanged,
    BrokerUnregistered,
    ControllerRegistered,
    TopicCreated,
    TopicDeleted,
    PartitionCreated,
    PartitionChanged,
    ConfigChanged,
    FeatureChanged,
    ProducerIdsAllocated,
    AclCreated,
    AclDeleted,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    StrangersSecretMade,
    ClientQuotaChanged,
    DelegationTokenChanged,
    DelegationTokenRemoved,
]

EVENTS: Final[dict[str, type[Any]]] = {cls.__name__: cls for cls in get_args(Event)}
"""Every event by its name in the log."""

_FIELDS: Final[dict[type[Any], tuple[str, ...]]] = {c: c.__match_args__ for c in EVENTS.values()}
_NESTED: Final[dict[str, type[Any]]] = {
    "endpoints": Endpoint,
    "features": FeatureRange,
    "entity": EntityPart,
}


def pack(event: Event) -> list[Any]:
    """Convert `event` to a value that CBOR can encode: `[name, version, fields]`."""
    cls = type(event)
    return [cls.__name__, cls.VERSION, [getattr(event, name) for name in _FIELDS[cls]]]


def unpack(packed: Any) -> Event:
    """Convert a value of `pack` back to an event. Raises cbor.CborError for any other value, and
    for a version that is too new."""
    try:
        name, version, values = packed
        cls = EVENTS[name]
    except (TypeError, ValueError, KeyError) as e:
        raise cbor.CborError(f"no event of the metadata log: {packed!r:.80}") from e
    if not isinstance(version, int) or version > cls.VERSION:
        raise cbor.CborError(
            f"{name}: version {version!r} is newer than this program knows ({cls.VERSION})"
        )
    names = _FIELDS[cls]
    if not isinstance(values, list) or len(cast(list[Any], values)) > len(names):
        raise cbor.CborError(f"{name}: not its fields: {values!r:.80}")
    try:
        return cls(*(_unpack(n, v) for n, v in zip(names, cast(list[Any], values), strict=False)))
    except TypeError as e:
        raise cbor.CborError(f"{name}: {e}") from e


def _unpack(name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if name == "restored":
        end_offset, cluster_ids, left_out, *rest = cast(list[Any], value)
        return RestoredLog(end_offset, tuple(cluster_ids), tuple(left_out), *rest)
    nested, items = _NESTED.get(name), cast(list[Any], value)
    return tuple(items) if nested is None else tuple(nested(*item) for item in items)


def encode(event: Event) -> bytes:
    """Encode `event` as the value of a record of the metadata log."""
    return cbor.dumps(KIND, ENVELOPE_VERSION, pack(event))


def decode(data: bytes | memoryview) -> Event:
    """Decode the event in a record's value. Raises cbor.CborError if it is damaged or too new."""
    return unpack(cbor.loads(KIND, data, ENVELOPE_VERSION)[1])
