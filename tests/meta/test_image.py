"""The image: what events make of it, that old ones stay what they were, and what differs between
two."""

from __future__ import annotations

from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meta.strategies import histories
from msgspec.structs import astuple

from pk.core import cbor
from pk.core.auth.acls import AclBinding, Acls
from pk.core.meta import snapshot
from pk.core.meta.events import (
    TOPIC,
    AclCreated,
    AclDeleted,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    DelegationTokenChanged,
    DelegationTokenRemoved,
    Endpoint,
    Event,
    FeatureChanged,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    StrangersSecretMade,
    TopicCreated,
    TopicDeleted,
)
from pk.core.meta.image import Changes, ContradictoryEvent, MetadataImage, PartitionImage, changes

ID = bytes(15) + b"\x01"


class Model:
    """The cluster as plain dictionaries, an event at a time: slow, and obviously right."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.names: dict[bytes, str] = {}
        self.partitions: dict[tuple[str, int], tuple[Any, ...]] = {}
        self.configs: dict[tuple[int, str, str], str] = {}
        self.brokers: dict[int, tuple[Any, ...]] = {}
        self.features: dict[str, int] = {}
        self.producer_id_next = 0
        self.acls: set[AclBinding] = set()
        self.scram: dict[tuple[str, int], int] = {}
        self.secret = b""
        self.tokens: dict[str, int] = {}

    def replay(self, event: Event) -> None:
        match event:
            case ClusterCreated():
                self.cluster_id = event.cluster_id
            case TopicCreated():
                self.names[event.topic_id] = event.name
            case TopicDeleted():
                name = self.names.pop(event.topic_id)
                self.partitions = {k: v for k, v in self.partitions.items() if k[0] != name}
                self.configs = {k: v for k, v in self.configs.items() if k[:2] != (TOPIC, name)}
            case PartitionCreated():
                key = self.names[event.topic_id], event.partition
                self.partitions[key] = (event.replicas, event.isr, event.leader, 0, 0)
            case PartitionChanged():
                key = self.names[event.topic_id], event.partition
                replicas, isr, leader, leader_epoch, epoch = self.partitions[key]
                if event.isr is not None:
                    isr = event.isr
                if event.leader is not None:
                    leader, leader_epoch = event.leader, leader_epoch + 1
                self.partitions[key] = (replicas, isr, leader, leader_epoch, epoch + 1)
            case ConfigChanged():
                where = event.resource_type, event.resource_name, event.key
                self.configs.pop(where, None)
                if event.value is not None:
                    self.configs[where] = event.value
            case BrokerRegistered():
                self.brokers[event.broker_id] = (event.incarnation_id, event.endpoints, True)
            case BrokerChanged():
                incarnation, endpoints, _ = self.brokers[event.broker_id]
                self.brokers[event.broker_id] = (incarnation, endpoints, event.fenced)
            case BrokerUnregistered():
                del self.brokers[event.broker_id]
            case FeatureChanged():
                self.features.pop(event.name, None)
                if event.level:
                    self.features[event.name] = event.level
            case AclCreated():
                self.acls.add(AclBinding(*astuple(event)))
            case AclDeleted():
                self.acls.remove(AclBinding(*astuple(event)))
            case ProducerIdsAllocated():
                self.producer_id_next = event.next_producer_id
            case ScramCredentialChanged():
                self.scram[event.user, event.mechanism] = event.iterations
            case ScramCredentialRemoved():
                del self.scram[event.user, event.mechanism]
            case StrangersSecretMade():
                self.secret = event.secret
            case DelegationTokenChanged():
                self.tokens[event.token_id] = event.expiry_ms
            case DelegationTokenRemoved():
                del self.tokens[event.token_id]

    def matches(self, image: MetadataImage) -> None:
        assert image.cluster_id == self.cluster_id
        assert {t.topic_id: t.name for t in image.topics.values()} == self.names
        assert all(image.topics[t.name] is t for t in image.topics_by_id.values())
        assert set(image.topics_by_id) == set(self.names)
        assert {
            (t.name, n): (p.replicas, p.isr, p.leader, p.leader_epoch, p.partition_epoch)
            for t in image.topics.values()
            for n, p in enumerate(t.partitions)
        } == self.partitions
        assert {
            (*resource, key): value
            for resource, own in image.configs.items()
            for key, value in own.items()
        } == self.configs
        assert all(image.configs.values()), "a resource without keys is gone"
        assert {
            i: (b.incarnation_id, b.endpoints, b.fenced) for i, b in image.brokers.items()
        } == self.brokers
        assert image.features == self.features
        assert image.producer_id_next == self.producer_id_next
        assert set(image.acls) == self.acls and image.acls == Acls().changed(image.acls, ())
        assert {user: c.iterations for user, c in image.scram.items()} == self.scram
        assert image.strangers_secret == self.secret
        assert {one.token_id: one.expiry_ms for one in image.tokens.values()} == self.tokens


@settings(max_examples=examples(40))
@given(histories(), st.data())
def test_an_image_is_what_a_plain_model_says(history: list[Event], data: st.DataObject) -> None:
    model, image = Model(), MetadataImage()
    left = list(history)
    while left:
        count = data.draw(st.integers(1, len(left)))
        batch, left = left[:count], left[count:]
        old, was = image, snapshot.dump(image)
        image = image.apply(batch)
        for event in batch:
            model.replay(event)
        model.matches(image)
        assert snapshot.dump(old) == was, "the old image is untouched"
    assert image.offset == len(history)
    assert image == MetadataImage().apply(history), "batches make no difference"


@settings(max_examples=examples(40))
@given(histories())
def test_a_snapshot_stands_for_its_events(history: list[Event]) -> None:
    image = MetadataImage().apply(history)
    assert snapshot.load(snapshot.dump(image)) == image


def test_a_snapshot_that_is_damaged_is_refused() -> None:
    data = snapshot.dump(MetadataImage().apply([ClusterCreated("c"), TopicCreated("t", ID)]))
    for broken in (b"", data[:-3], cbor.dumps("pk.other", 1, {})):
        with pytest.raises(cbor.CborError):
            snapshot.load(broken)
    twice = {"offset": 2, "events": [["TopicCreated", 1, ["t", ID]]] * 2}
    for body in (twice, {}, [], {"offset": 0, "events": 7}):
        with pytest.raises(cbor.CborError):
            snapshot.load(cbor.dumps(snapshot.KIND, 1, body))
    with pytest.raises(cbor.CborError, match="newer"):
        snapshot.load(cbor.dumps(snapshot.KIND, 2, {}))


def partitions_of(image: MetadataImage) -> dict[tuple[bytes, int], PartitionImage]:
    return {(t.topic_id, p.partition): p for t in image.topics.values() for p in t.partitions}


@settings(max_examples=examples(40))
@given(histories(), histories(events_max=15))
def test_changes_are_what_differs(history: list[Event], more: list[Event]) -> None:
    cut = len(history) // 2
    old = MetadataImage().apply(history[:cut])
    new = old.apply(history[cut:])
    for a, b in ((old, new), (new, MetadataImage().apply(more))):
        found = changes(a, b)
        before, after = partitions_of(a), partitions_of(b)
        assert {t.topic_id for t in found.topics_deleted} == set(a.topics_by_id) - set(
            b.topics_by_id
        )
        assert {t.topic_id for t in found.topics_created} == set(b.topics_by_id) - set(
            a.topics_by_id
        )
        expected = {k: (before.get(k), p) for k, p in after.items() if before.get(k) != p}
        assert {
            (c.topic.topic_id, c.new.partition): (c.old, c.new) for c in found.partitions
        } == expected
        assert all(b.topics[c.tp.topic] is c.topic for c in found.partitions)
        assert set(found.configs) == {
            r for r in {*a.configs, *b.configs} if a.configs.get(r) != b.configs.get(r)
        }
        assert set(found.brokers) == {
            i for i in {*a.brokers, *b.brokers} if a.brokers.get(i) != b.brokers.get(i)
        }
        assert found.features == (a.features != b.features)
        assert found.acls or set(a.acls) == set(b.acls)
        for name, topic in b.topics.items():
            assert {n: (c.old, c.new) for n, c in found.of_topic(name).items()} == {
                n: change
                for (topic_id, n), change in expected.items()
                if topic_id == topic.topic_id
            }


def test_the_same_image_has_no_changes() -> None:
    image = MetadataImage().apply([TopicCreated("t", ID), FeatureChanged("f", 1)])
    assert not changes(image, image)
    assert not changes(image, image.apply([ProducerIdsAllocated(1, 1, 1000)]))
    assert changes(MetadataImage(), image)
    assert not Changes()


def test_what_no_event_touches_is_shared() -> None:
    first = MetadataImage().apply(
        [
            TopicCreated("t", ID),
            PartitionCreated(ID, 0, (1,), (1,), 1),
            BrokerRegistered(1, 0, bytes(16), ()),
        ]
    )
    second = first.apply([ConfigChanged(TOPIC, "t", "k", "v")])
    assert second.topics is first.topics and second.brokers is first.brokers
    third = second.apply([TopicCreated("u", bytes(16))])
    assert third.topics["t"] is first.topics["t"] and third.configs is second.configs


@pytest.mark.parametrize(
    "event",
    [
        TopicCreated("t", bytes(16)),
        TopicCreated("u", ID),
        PartitionCreated(ID, 1, (), (), -1),
        BrokerRegistered(1, 5, b"x" * 16, ()),
        BrokerChanged(1, 4, fenced=False),
    ],
)
def test_an_event_that_contradicts_the_image_is_a_damaged_log(event: Event) -> None:
    image = MetadataImage().apply([TopicCreated("t", ID), BrokerRegistered(1, 5, bytes(16), ())])
    with pytest.raises(ContradictoryEvent):
        image.apply([event])


def test_a_topic_made_again_in_one_step_is_another_one() -> None:
    old = MetadataImage().apply(
        [
            TopicCreated("t", ID),
            PartitionCreated(ID, 0, (1,), (1,), 1),
            ConfigChanged(TOPIC, "t", "k", "v"),
        ]
    )
    other = bytes(15) + b"\x02"
    new = old.apply([TopicDeleted(ID), TopicCreated("t", other)])
    assert new.topics["t"].topic_id == other and new.topics["t"].partitions == ()
    assert new.topic_configs("t") == {} and new.topic_by_id(ID) is None
    found = changes(old, new)
    assert [t.topic_id for t in found.topics_deleted] == [ID]
    assert [t.topic_id for t in found.topics_created] == [other]
    assert found.configs == [(TOPIC, "t")]


def test_questions_that_an_image_answers() -> None:
    at = Endpoint("PLAINTEXT", "h", 1, 0)
    image = MetadataImage().apply(
        [
            TopicCreated("__consumer_offsets", ID),
            PartitionCreated(ID, 0, (2, 1), (1,), -1),
            BrokerRegistered(2, 0, bytes(16), (at,)),
            BrokerRegistered(1, 1, bytes(16), (), fenced=False),
        ]
    )
    assert image.brokers[1].may_lead and not image.brokers[2].may_lead
    assert image.brokers[2].endpoint("PLAINTEXT") == at and image.brokers[2].endpoint("SSL") is None
    topic = image.topics["__consumer_offsets"]
    assert topic.internal and topic.partition(1) is None and topic.partition(-1) is None
    partition = image.partition("__consumer_offsets", 0)
    assert partition is not None and partition.preferred_leader == 2
    assert image.partition("t", 0) is None and image.partition_count == 1
