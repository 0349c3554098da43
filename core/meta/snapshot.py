"""Snapshots of the image: the events that rebuild it, in one CBOR document. To load a snapshot,
apply its events."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from pk.core import cbor
from pk.core.meta.events import (
    AclCreated,
    BrokerRegistered,
    ClientQuotaChanged,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    ControllerRegistered,
    DelegationTokenChanged,
    Event,
    FeatureChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    StrangersSecretMade,
    TopicCreated,
    pack,
    unpack,
)
from pk.core.meta.image import ContradictoryEvent, MetadataImage
from pk.core.values import NO_EPOCH, NO_NODE

KIND: Final = "pk.metadata.snapshot"
VERSION: Final = 1


def events_of(image: MetadataImage) -> Iterator[Event]:
    """Return events that turn an empty image into `image` (except its offset)."""
    if image.cluster_id:
        yield ClusterCreated(image.cluster_id)
    if image.controller_epoch != NO_EPOCH:
        yield ControllerElected(image.controller_id, image.controller_epoch)
    for name, level in image.features.items():
        yield FeatureChanged(name, level)
    for b in image.brokers.values():
        yield BrokerRegistered(
            b.broker_id,
            b.broker_epoch,
            b.incarnation_id,
            b.endpoints,
            b.rack,
            b.log_dirs,
            b.features,
            b.fenced,
            b.in_controlled_shutdown,
            b.out_offset,
            b.known_offset,
        )
    for c in image.controllers.values():
        yield ControllerRegistered(c.controller_id, c.incarnation_id, c.endpoints, c.features)
    for topic in image.topics.values():
        yield TopicCreated(topic.name, topic.topic_id)
        for p in topic.partitions:
            yield PartitionCreated(
                topic.topic_id,
                p.partition,
                p.replicas,
                p.isr,
                p.leader,
                p.leader_epoch,
                p.partition_epoch,
                p.elr,
                p.last_known_elr,
                p.adding,
                p.removing,
                p.directories,
                p.recovering,
                p.unclean_epoch,
                p.restored,
            )
    for (resource_type, name), own in image.configs.items():
        for key, value in own.items():
            yield ConfigChanged(resource_type, name, key, value)
    for rule in image.acls:
        yield AclCreated(*rule)
    if image.strangers_secret:
        yield StrangersSecretMade(image.strangers_secret)
    for (user, mechanism), c in image.scram.items():
        yield ScramCredentialChanged(
            user, mechanism, c.salt, c.stored_key, c.server_key, c.iterations
        )
    for token in image.tokens.values():
        yield DelegationTokenChanged(
            token.token_id,
            str(token.owner),
            str(token.requester),
            tuple(map(str, token.renewers)),
            token.issue_ms,
            token.expiry_ms,
            token.max_ms,
        )
    for entity, values in image.quotas.items():
        for key, value in values.items():
            yield ClientQuotaChanged(entity, key, value)
    if image.producer_id_next:
        yield ProducerIdsAllocated(NO_NODE, NO_EPOCH, image.producer_id_next)


def dump(image: MetadataImage) -> bytes:
    """Encode `image` as a document."""
    body = {"offset": image.offset, "events": [pack(event) for event in events_of(image)]}
    return cbor.dumps(KIND, VERSION, body)


def load(data: bytes) -> MetadataImage:
    """Decode the image in a document. Raises cbor.CborError if it is damaged or newer than this
    program."""
    _, body = cbor.loads(KIND, data, VERSION)
    try:
        offset, packed = body["offset"], body["events"]
        image = MetadataImage().apply(unpack(one) for one in packed)
    except (KeyError, TypeError, IndexError, ContradictoryEvent) as e:
        raise cbor.CborError(f"{KIND}: contradicts itself: {e!r}") from e
    return replace(image, offset=offset)
