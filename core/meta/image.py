"""The cluster's metadata at one moment: an immutable value, replaced when events are applied.

A caller may keep an image, compare it, and read it across an await. `apply` copies each dictionary
that its events touch once per call, however many events there are, so creating ten thousand
partitions copies each dictionary once. Everything else is shared with the old image. That sharing
makes `changes(old, new)` cheap: the same object means no change.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from pk.core.auth.acls import NO_ACLS, AclBinding, Acls, AclsEdit
from pk.core.auth.delegation_tokens import DelegationToken, Tokens
from pk.core.auth.principal import KafkaPrincipal
from pk.core.auth.scram import ScramCredential
from pk.core.meta.events import (
    BROKER,
    TOPIC,
    AclCreated,
    AclDeleted,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    ControllerRegistered,
    DelegationTokenChanged,
    DelegationTokenRemoved,
    Endpoint,
    Event,
    FeatureChanged,
    FeatureRange,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    RestoredLog,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    StrangersSecretMade,
    TopicCreated,
    TopicDeleted,
)
from pk.core.quota.entity import Entity, Quotas
from pk.core.structs import repr_without
from pk.core.values import INTERNAL_TOPICS, NO_LEADER, NO_NODE, ZERO_UUID, TopicPartition, Uuid

ConfigResource = tuple[int, str]
"""A resource type and a resource name."""

Configs = Mapping[ConfigResource, Mapping[str, str]]
"""The configs that each resource sets. A resource without any is absent."""

ScramUser = tuple[str, int]
"""A user and a SCRAM mechanism."""

_K = TypeVar("_K")
_V = TypeVar("_V")

NO_CONFIGS: Final[Mapping[str, str]] = {}


class ContradictoryEvent(Exception):
    """The event contradicts earlier events: the log is damaged, or a decision was wrong."""


class BrokerImage(Struct, frozen=True):
    """A registered broker."""

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    log_dirs: tuple[Uuid, ...]
    features: tuple[FeatureRange, ...]
    fenced: bool
    in_controlled_shutdown: bool
    out_offset: int = -1
    """The offset in the metadata log at which the controller last removed this broker from ISRs,
    because it was fenced, registered unfenced, lost a directory or wanted to shut down. -1:
    never."""
    known_offset: int = -1
    """The offset up to which this broker is known to have applied the metadata log. The broker may
    be ahead of it."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the address at which clients of `listener` reach the broker, or None if it has no
        such listener."""
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint
        return None

    @property
    def may_lead(self) -> bool:
        """Whether the broker may lead partitions. Such brokers are preferred for new replicas."""
        return not self.fenced and not self.in_controlled_shutdown


class ControllerImage(Struct, frozen=True):
    """The registration of a node that may become the controller."""

    controller_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]


class PartitionImage(Struct, frozen=True):
    """The committed state of a partition."""

    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: not in the ISR, but known to have every committed record
    (KIP-966)."""
    last_known_elr: tuple[int, ...] = ()
    """Replicas that are neither in the ISR nor eligible, but may be the only ones left with all
    acknowledged records (unclean_recovery.py). If there is no leader, the first one led last."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[Uuid, ...] = ()
    """The log directory of each replica, in the order of `replicas`; empty if none is known
    (KIP-858)."""
    recovering: bool = False
    """Whether the leader was elected uncleanly and has not yet reported its recovery."""
    unclean_epoch: int = -1
    """The last leader epoch whose election may have lost acknowledged records."""
    restored: RestoredLog | None = None
    """The objects from which the log is restored, or None if the log began empty."""

    @property
    def reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    def directory(self, node: int) -> Uuid:
        """Return the id of the log directory that holds `node`'s replica, or ZERO_UUID if
        unknown."""
        if not self.directories or node not in self.replicas:
            return ZERO_UUID
        return self.directories[self.replicas.index(node)]

    @property
    def preferred_leader(self) -> int:
        """The first replica."""
        return self.replicas[0] if self.replicas else NO_LEADER


class TopicImage(Struct, frozen=True):
    """A topic with its partitions, in order of their numbers from 0."""

    name: str
    topic_id: Uuid
    partitions: tuple[PartitionImage, ...] = ()

    @property
    def internal(self) -> bool:
        """Whether the topic is one of Kafka's internal topics."""
        return self.name in INTERNAL_TOPICS

    def partition(self, partition: int) -> PartitionImage | None:
        """Return a partition by number, or None."""
        return self.partitions[partition] if 0 <= partition < len(self.partitions) else None


class MetadataImage(Struct, frozen=True):
    """The state of the whole cluster at one offset of its metadata log."""

    cluster_id: str = ""
    offset: int = 0
    """The number of events applied, which is the offset of the next event in the metadata log."""
    controller_id: int = NO_NODE
    controller_epoch: int = -1
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict[int, BrokerImage])
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict[int, ControllerImage])
    """Nodes that have registered as possible controllers."""
    topics: Mapping[str, TopicImage] = field(default_factory=dict[str, TopicImage])
    topics_by_id: Mapping[Uuid, TopicImage] = field(default_factory=dict[Uuid, TopicImage])
    configs: Configs = field(default_factory=dict[ConfigResource, Mapping[str, str]])
    features: Mapping[str, int] = field(default_factory=dict[str, int])
    """Finalized features and their levels. A disabled feature is absent."""
    producer_id_next: int = 0
    acls: Acls = NO_ACLS
    scram: Mapping[ScramUser, ScramCredential] = field(
        default_factory=dict[ScramUser, ScramCredential]
    )
    """The SCRAM credentials of users."""
    strangers_secret: bytes = b""
    """See `StrangersSecretMade`. Empty until the first SCRAM credential is set."""

    quotas: Quotas = field(default_factory=dict[Entity, Mapping[str, float]])
    """The quotas of users, client ids and addresses."""

    tokens: Tokens = field(default_factory=dict[str, DelegationToken])
    """The delegation tokens, including expired ones that have not been removed."""

    def __repr__(self) -> str:
        return repr_without(self, "strangers_secret", "configs")

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        """Return the topic with this id, or None."""
        return self.topics_by_id.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return a partition by topic name and number, or None."""
        found = self.topics.get(topic)
        return None if found is None else found.partition(partition)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        """Return the configs that a topic sets."""
        return self.configs.get((TOPIC, topic), NO_CONFIGS)

    def broker_configs(self, broker_id: int | None) -> Mapping[str, str]:
        """Return the configs that the cluster sets for one broker, or, given None, for all
        brokers."""
        name = "" if broker_id is None else str(broker_id)
        return self.configs.get((BROKER, name), NO_CONFIGS)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configs of any resource."""
        return self.configs.get((resource_type, name), NO_CONFIGS)

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether this is not the epoch of a registered broker. Its requests get
        STALE_BROKER_EPOCH."""
        broker = self.brokers.get(broker_id)
        return broker is None or broker.broker_epoch != broker_epoch

    @property
    def partition_count(self) -> int:
        """The number of partitions in the cluster."""
        return sum(len(topic.partitions) for topic in self.topics.values())

    def apply(self, events: Iterable[Event]) -> "MetadataImage":
        """Return the image after `events`. Raises ContradictoryEvent."""
        edit = _Edit(self)
        for event in events:
            edit.replay(event)
        return edit.finish()


class _Edit:
    """An image to which events are being applied. It copies a dictionary before the first write to
    it."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._changed: dict[str, Any] = {}
        """The new values of the image's fields, by name."""
        self._offset = image.offset
        self._partitions: dict[Uuid, list[PartitionImage]] = {}
        self._own_configs: dict[ConfigResource, dict[str, str]] = {}
        self._acls: AclsEdit | None = None

    def replay(self, event: Event) -> None:
        """Apply one event. Raises ContradictoryEvent."""
        try:
            self._replay(event)
        except (AssertionError, LookupError) as e:
            kind = type(event).__name__
            raise ContradictoryEvent(f"the event at {self._offset}, {kind}: {e!r}") from e
        self._offset += 1

    def _replay(self, event: Event) -> None:
        match event:
            case PartitionCreated():
                self._create_partition(event)
            case PartitionChanged():
                partitions = self._partitions_of(event.topic_id)
                partitions[event.partition] = changed(partitions[event.partition], event)
            case TopicCreated():
                self._create_topic(event)
            case TopicDeleted():
                self._delete_topic(event)
            case ConfigChanged():
                self._change_config(event)
            case BrokerRegistered():
                self._register(event)
            case BrokerChanged():
                self._change_broker(event)
            case BrokerUnregistered():
                del self._edit_brokers()[event.broker_id]
            case ControllerRegistered():
                self._register_controller(event)
            case FeatureChanged():
                self._change_feature(event)
            case ProducerIdsAllocated():
                self._changed["producer_id_next"] = event.next_producer_id
            case AclCreated() | AclDeleted():
                self._change_acl(event)
            case ScramCredentialChanged():
                self._edit_scram()[event.user, event.mechanism] = ScramCredential(
                    event.salt, event.stored_key, event.server_key, event.iterations
                )
            case ScramCredentialRemoved():
                del self._edit_scram()[event.user, event.mechanism]
            case DelegationTokenChanged():
                self._edit_tokens()[event.token_id] = _token(event)
            case DelegationTokenRemoved():
                del self._edit_tokens()[event.token_id]
            case ClientQuotaChanged():
                self._change_quota(event)
            case StrangersSecretMade():
                self._changed["strangers_secret"] = event.secret
            case ClusterCreated():
                self._changed["cluster_id"] = event.cluster_id
            case ControllerElected():
                self._changed["controller_id"] = event.controller_id
                self._changed["controller_epoch"] = event.epoch

    def finish(self) -> MetadataImage:
        for topic_id, partitions in self._partitions.items():
            topics, by_id = self._edit_topics()
            old = by_id[topic_id]
            topic = TopicImage(old.name, topic_id, tuple(partitions))
            topics[topic.name] = by_id[topic_id] = topic
        for resource, own in self._own_configs.items():
            configs = self._edit("configs", self._image.configs)
            if own:
                configs[resource] = own
            else:
                configs.pop(resource, None)
        if self._acls is not None:
            self._changed["acls"] = self._acls.finish()
        return replace(self._image, offset=self._offset, **self._changed)

    def _edit(self, name: str, old: Mapping[_K, _V]) -> dict[_K, _V]:
        """Return the copy of the image's field `name`, whose value is `old`."""
        if name not in self._changed:
            self._changed[name] = dict(old)
        return self._changed[name]

    def _edit_brokers(self) -> dict[int, BrokerImage]:
        return self._edit("brokers", self._image.brokers)

    def _edit_topics(self) -> tuple[dict[str, TopicImage], dict[Uuid, TopicImage]]:
        image = self._image
        return self._edit("topics", image.topics), self._edit("topics_by_id", image.topics_by_id)

    def _edit_scram(self) -> dict[ScramUser, ScramCredential]:
        return self._edit("scram", self._image.scram)

    def _edit_tokens(self) -> dict[str, DelegationToken]:
        return self._edit("tokens", self._image.tokens)

    def _change_quota(self, event: ClientQuotaChanged) -> None:
        quotas = self._edit("quotas", self._image.quotas)
        values = dict(quotas.get(event.entity, {}))
        if event.value is None:
            del values[event.key]
        else:
            values[event.key] = event.value
        if values:
            quotas[event.entity] = values
        else:
            del quotas[event.entity]

    def _partitions_of(self, topic_id: Uuid) -> list[PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            _, by_id = self._edit_topics()
            partitions = self._partitions[topic_id] = list(by_id[topic_id].partitions)
        return partitions

    def _create_topic(self, event: TopicCreated) -> None:
        topics, by_id = self._edit_topics()
        assert event.name not in topics and event.topic_id not in by_id, event
        topics[event.name] = by_id[event.topic_id] = TopicImage(event.name, event.topic_id)

    def _delete_topic(self, event: TopicDeleted) -> None:
        topics, by_id = self._edit_topics()
        topic = by_id.pop(event.topic_id)
        del topics[topic.name]
        self._partitions.pop(event.topic_id, None)
        resource = (TOPIC, topic.name)
        if resource in self._own_configs or resource in self._image.configs:
            self._own_configs[resource] = {}

    def _create_partition(self, event: PartitionCreated) -> None:
        partitions = self._partitions_of(event.topic_id)
        assert event.partition == len(partitions), event
        partitions.append(
            PartitionImage(
                event.partition,
                event.replicas,
                event.isr,
                event.leader,
                event.leader_epoch,
                event.partition_epoch,
                event.elr,
                event.last_known_elr,
                event.adding,
                event.removing,
                event.directories,
                event.recovering,
                event.unclean_epoch,
                event.restored,
            )
        )

    def _change_config(self, event: ConfigChanged) -> None:
        resource = (event.resource_type, event.resource_name)
        own = self._own_configs.get(resource)
        if own is None:
            own = self._own_configs[resource] = dict(self._image.config(*resource))
        if event.value is None:
            own.pop(event.key, None)
        else:
            own[event.key] = event.value

    def _register(self, event: BrokerRegistered) -> None:
        brokers = self._edit_brokers()
        old = brokers.get(event.broker_id)
        # An incarnation may report its addresses again. A new incarnation has a higher epoch.
        assert (
            old is None
            or event.broker_epoch > old.broker_epoch
            or (event.broker_epoch, event.incarnation_id) == (old.broker_epoch, old.incarnation_id)
        ), event
        out, known = event.out_offset, event.known_offset
        if old is not None:
            again = old.broker_epoch == event.broker_epoch
            out = old.out_offset if old.fenced or again else self._offset
            known = old.known_offset
        brokers[event.broker_id] = BrokerImage(
            event.broker_id,
            event.broker_epoch,
            event.incarnation_id,
            event.endpoints,
            event.rack,
            event.log_dirs,
            event.features,
            event.fenced,
            event.in_controlled_shutdown,
            out,
            known,
        )

    def _change_broker(self, event: BrokerChanged) -> None:
        brokers = self._edit_brokers()
        old = brokers[event.broker_id]
        assert event.broker_epoch == old.broker_epoch, event
        shutdown, known = event.in_controlled_shutdown, event.known_offset
        goes_out = event.fenced or shutdown or event.log_dirs is not None
        brokers[event.broker_id] = replace(
            old,
            fenced=old.fenced if event.fenced is None else event.fenced,
            in_controlled_shutdown=old.in_controlled_shutdown if shutdown is None else shutdown,
            log_dirs=old.log_dirs if event.log_dirs is None else event.log_dirs,
            out_offset=self._offset if goes_out else old.out_offset,
            known_offset=old.known_offset if known is None else known,
        )

    def _register_controller(self, event: ControllerRegistered) -> None:
        controllers = self._edit("controllers", self._image.controllers)
        controllers[event.controller_id] = ControllerImage(
            event.controller_id, event.incarnation_id, event.endpoints, event.features
        )

    def _change_acl(self, event: AclCreated | AclDeleted) -> None:
        if self._acls is None:
            self._acls = AclsEdit(self._image.acls)
        rule = AclBinding(
            event.resource_type,
            event.resource_name,
            event.pattern_type,
            event.principal,
            event.host,
            event.operation,
            event.permission,
        )
        comes = isinstance(event, AclCreated)
        assert comes != (rule in self._acls.rules), event
        if comes:
            self._acls.add(rule)
        else:
            self._acls.remove(rule)

    def _change_feature(self, event: FeatureChanged) -> None:
        features = self._edit("features", self._image.features)
        if event.level:
            features[event.name] = event.level
        else:
            features.pop(event.name, None)


def changed(old: PartitionImage, event: PartitionChanged) -> PartitionImage:
    """Return `old` after `event`. Epochs only rise."""
    return PartitionImage(
        old.partition,
        old.replicas if event.replicas is None else event.replicas,
        old.isr if event.isr is None else event.isr,
        old.leader if event.leader is None else event.leader,
        old.leader_epoch + (event.leader is not None),
        old.partition_epoch + 1,
        old.elr if event.elr is None else event.elr,
        old.last_known_elr if event.last_known_elr is None else event.last_known_elr,
        old.adding if event.adding is None else event.adding,
        old.removing if event.removing is None else event.removing,
        old.directories if event.directories is None else event.directories,
        old.recovering if event.recovering is None else event.recovering,
        old.unclean_epoch if event.unclean_epoch is None else event.unclean_epoch,
        old.restored,
    )


class PartitionChange(Struct):
    """A partition that was created or changed. Immutable."""

    topic: TopicImage
    """The topic in the new image."""
    old: PartitionImage | None
    """The earlier state, or None if the partition is new."""
    new: PartitionImage

    @property
    def tp(self) -> TopicPartition:
        """The topic's name and the partition's number."""
        return TopicPartition(self.topic.name, self.new.partition)


NO_CHANGES: Final[Mapping[int, PartitionChange]] = {}


class _Index(Struct):
    by_topic: dict[str, dict[int, PartitionChange]] = field(
        default_factory=dict[str, dict[int, PartitionChange]]
    )
    reassigned: set[str] = field(default_factory=set[str])


class Changes(Struct):
    """The differences between two images, for code that must react to them. Handle deletions first:
    a topic that was deleted and created again under its name is in both lists, with two ids."""

    topics_deleted: list[TopicImage] = field(default_factory=list[TopicImage])
    topics_created: list[TopicImage] = field(default_factory=list[TopicImage])
    partitions: list[PartitionChange] = field(default_factory=list[PartitionChange])
    """Partitions that were created (including those of new topics) or changed. Those of deleted
    topics are left out."""
    configs: list[ConfigResource] = field(default_factory=list[ConfigResource])
    """Resources whose configs were set, changed or removed."""
    brokers: list[int] = field(default_factory=list[int])
    """Brokers that registered, changed or unregistered."""
    features: bool = False
    acls: bool = False
    """Whether ACLs were created or deleted."""
    quotas: bool = False
    """Whether client quotas changed."""
    _index: _Index | None = None

    @property
    def topics_reassigned(self) -> set[str]:
        """The names of topics whose partitions were added or moved to other replicas, and of
        created and deleted topics. Assignments of consumers depend on the number of partitions and
        their racks, but not on leaders and ISRs."""
        return self._indexed().reassigned

    def of_topic(self, name: str) -> Mapping[int, PartitionChange]:
        """Return the changed partitions of one topic, by number."""
        return self._indexed().by_topic.get(name, NO_CHANGES)

    def _indexed(self) -> _Index:
        if self._index is None:
            index = self._index = _Index()
            for change in self.partitions:
                name = change.topic.name
                index.by_topic.setdefault(name, {})[change.new.partition] = change
                if change.old is None or change.old.replicas != change.new.replicas:
                    index.reassigned.add(name)
            index.reassigned.update(topic.name for topic in self.topics_deleted)
        return self._index

    def __bool__(self) -> bool:
        return bool(
            self.topics_deleted
            or self.topics_created
            or self.partitions
            or self.configs
            or self.brokers
            or self.features
            or self.acls
            or self.quotas
        )


def changes(old: MetadataImage, new: MetadataImage) -> Changes:
    """Return the differences between `old` and `new`. Objects that both share are skipped."""
    result = Changes(
        features=old.features is not new.features and old.features != new.features,
        acls=old.acls is not new.acls,
        quotas=old.quotas is not new.quotas,
    )
    if old.topics_by_id is not new.topics_by_id:
        _topic_changes(old, new, result)
    result.configs = changed_configs(old.configs, new.configs)
    if old.brokers is not new.brokers:
        result.brokers = _differing(old.brokers, new.brokers)
    return result


def changed_configs(old: Configs, new: Configs) -> list[ConfigResource]:
    """Return `Changes.configs` alone."""
    return [] if old is new else _differing(old, new)


def _topic_changes(old: MetadataImage, new: MetadataImage, result: Changes) -> None:
    before, after = old.topics_by_id, new.topics_by_id
    for topic_id, topic in before.items():
        if topic_id not in after:
            result.topics_deleted.append(topic)
    for topic_id, topic in after.items():
        was = before.get(topic_id)
        if was is topic:
            continue
        if was is None:
            result.topics_created.append(topic)
        known = was.partitions if was is not None else ()
        for partition in topic.partitions:
            one = known[partition.partition] if partition.partition < len(known) else None
            if one is partition:
                continue
            if one != partition:
                result.partitions.append(PartitionChange(topic, one, partition))


def _differing(old: Mapping[_K, object], new: Mapping[_K, object]) -> list[_K]:
    found: list[_K] = []
    for key, value in new.items():
        was = old.get(key)
        if was is not value and was != value:
            found.append(key)
    for key in old:
        if key not in new:
            found.append(key)
    return found


def _token(event: DelegationTokenChanged) -> DelegationToken:
    return DelegationToken(
        event.token_id,
        KafkaPrincipal.parse(event.owner),
        KafkaPrincipal.parse(event.requester),
        tuple(map(KafkaPrincipal.parse, event.renewers)),
        event.issue_ms,
        event.expiry_ms,
        event.max_ms,
    )
