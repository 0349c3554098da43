"""Random clusters: histories of events that a controller could have decided."""

from __future__ import annotations

from hypothesis import strategies as st

from pk.core.auth.acls import AclBinding
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
    ScramCredentialChanged,
    ScramCredentialRemoved,
    StrangersSecretMade,
    TopicCreated,
    TopicDeleted,
)
from pk.core.quota.entity import ENTITY_TYPES, Entity, EntityPart

ids = st.binary(min_size=16, max_size=16)
nodes = st.integers(0, 2**31 - 1)
epochs = st.integers(-1, 2**31 - 1)
texts = st.text(max_size=12)
principals = st.sampled_from(["User:alice", "User:CN=a:b", "Group:"])
quota_entities = st.lists(
    st.builds(EntityPart, st.sampled_from(ENTITY_TYPES), st.none() | texts), max_size=2
).map(tuple)
node_lists = st.lists(st.integers(0, 9), max_size=4, unique=True).map(tuple)
id_lists = st.lists(ids, max_size=2).map(tuple)
endpoints = st.lists(
    st.builds(Endpoint, texts, texts, st.integers(0, 65535), st.integers(0, 3)), max_size=2
).map(tuple)
ranges = st.lists(
    st.builds(FeatureRange, texts, st.integers(0, 9), st.integers(0, 9)), max_size=2
).map(tuple)

acls = st.builds(
    AclBinding,
    st.integers(2, 7),
    st.sampled_from(["a", "ab", "*"]),
    st.integers(3, 4),
    st.sampled_from(["User:a", "User:*"]),
    st.sampled_from(["*", "127.0.0.1"]),
    st.integers(2, 15),
    st.integers(2, 3),
)


def any_event() -> st.SearchStrategy[Event]:
    """Any single event, possible or not."""
    none = st.none()
    return st.one_of(
        st.builds(ClusterCreated, texts),
        st.builds(ControllerElected, nodes, epochs),
        st.builds(
            BrokerRegistered,
            nodes,
            st.integers(0, 2**62),
            ids,
            endpoints,
            none | texts,
            id_lists,
            ranges,
            st.booleans(),
            st.booleans(),
        ),
        st.builds(
            BrokerChanged,
            nodes,
            st.integers(0, 2**62),
            none | st.booleans(),
            none | st.booleans(),
            none | id_lists,
        ),
        st.builds(BrokerUnregistered, nodes, st.integers(0, 2**62)),
        st.builds(ControllerRegistered, nodes, ids, endpoints, ranges),
        st.builds(TopicCreated, texts, ids),
        st.builds(TopicDeleted, ids),
        st.builds(
            PartitionCreated,
            ids,
            nodes,
            node_lists,
            node_lists,
            st.integers(-1, 9),
            epochs,
            epochs,
            node_lists,
            node_lists,
            node_lists,
            node_lists,
            id_lists,
            st.booleans(),
        ),
        st.builds(
            PartitionChanged,
            ids,
            nodes,
            none | st.integers(-1, 9),
            none | node_lists,
            none | node_lists,
            none | node_lists,
            none | node_lists,
            none | node_lists,
            none | node_lists,
            none | id_lists,
            none | st.booleans(),
        ),
        st.builds(ConfigChanged, st.sampled_from([2, 4, 16, 32]), texts, texts, none | texts),
        st.builds(FeatureChanged, texts, st.integers(0, 9)),
        st.builds(ProducerIdsAllocated, nodes, st.integers(0, 2**62), st.integers(0, 2**62)),
        acls.map(lambda rule: AclCreated(*rule)),
        acls.map(lambda rule: AclDeleted(*rule)),
        st.builds(
            ScramCredentialChanged,
            texts,
            st.integers(1, 2),
            st.binary(max_size=9),
            st.binary(max_size=9),
            st.binary(max_size=9),
            st.integers(4096, 16384),
        ),
        st.builds(ScramCredentialRemoved, texts, st.integers(1, 2)),
        st.builds(StrangersSecretMade, st.binary(min_size=1, max_size=9)),
        st.builds(
            DelegationTokenChanged,
            texts,
            principals,
            principals,
            st.lists(principals, max_size=2).map(tuple),
            st.integers(0, 9),
            st.integers(0, 9),
            st.integers(0, 9),
        ),
        st.builds(DelegationTokenRemoved, texts),
        st.builds(ClientQuotaChanged, quota_entities, texts, none | st.floats(allow_nan=False)),
    )


@st.composite
def histories(draw: st.DrawFn, events_max: int = 40) -> list[Event]:
    """Events that fit each other, as a controller's log holds them."""
    topics: dict[bytes, tuple[str, int]] = {}
    brokers: dict[int, int] = {}
    rules: set[AclBinding] = set()
    users: set[tuple[str, int]] = set()
    limited: set[Entity] = set()
    tokens: set[str] = set()
    events: list[Event] = [ClusterCreated("c")]
    for number in range(draw(st.integers(0, events_max))):
        choice = draw(st.integers(0, 16))
        topic = draw(st.sampled_from(sorted(topics))) if topics else None
        broker = draw(st.sampled_from(sorted(brokers))) if brokers else None
        if choice == 0 or (topic is None and choice in (1, 2, 3)):
            free = [n for n in "abcde" if n not in {name for name, _ in topics.values()}]
            if free:
                topic_id = number.to_bytes(16, "big")
                topics[topic_id] = (draw(st.sampled_from(free)), 0)
                events.append(TopicCreated(topics[topic_id][0], topic_id))
        elif topic is not None and choice in (1, 2):
            name, count = topics[topic]
            topics[topic] = (name, count + 1)
            replicas = draw(node_lists)
            events.append(PartitionCreated(topic, count, replicas, replicas, draw(epochs)))
        elif topic is not None and choice == 3:
            if topics[topic][1]:
                partition = draw(st.integers(0, topics[topic][1] - 1))
                leader, isr = draw(st.none() | st.integers(-1, 9)), draw(st.none() | node_lists)
                events.append(PartitionChanged(topic, partition, leader=leader, isr=isr))
        elif choice == 4 and topic is not None:
            if draw(st.booleans()):
                events.append(TopicDeleted(topic))
                del topics[topic]
        elif choice == 5:
            node = draw(st.integers(1, 4))
            brokers[node] = number
            events.append(BrokerRegistered(node, number, draw(ids), draw(endpoints)))
        elif choice == 6 and broker is not None:
            events.append(BrokerChanged(broker, brokers[broker], fenced=draw(st.booleans())))
        elif choice == 7 and broker is not None:
            events.append(BrokerUnregistered(broker, brokers.pop(broker)))
        elif choice == 8:
            value = draw(st.none() | texts)
            resource = draw(st.sampled_from([(TOPIC, n) for n in "abcde"] + [(BROKER, "")]))
            key = draw(st.sampled_from(["k", "l"]))
            known = {name for name, _ in topics.values()}
            if resource[0] == BROKER or resource[1] in known:
                events.append(ConfigChanged(*resource, key, value))
        elif choice == 9:
            feature = draw(st.sampled_from(["f", "g"]))
            events.append(FeatureChanged(feature, draw(st.integers(0, 2))))
        elif choice == 10:
            events.append(ControllerRegistered(draw(st.integers(1, 3)), draw(ids)))
        elif choice == 11:
            rule = draw(acls)
            events.append(AclDeleted(*rule) if rule in rules else AclCreated(*rule))
            rules ^= {rule}
        elif choice == 12:
            user = (draw(st.sampled_from(["a", "b"])), draw(st.integers(1, 2)))
            if user in users and draw(st.booleans()):
                users.remove(user)
                events.append(ScramCredentialRemoved(*user))
            else:
                users.add(user)
                events.append(ScramCredentialChanged(*user, b"s", b"k", b"v", number + 4096))
        elif choice == 13:
            events.append(StrangersSecretMade(bytes([number])))
        elif choice == 14:
            entity = (EntityPart("user", draw(st.sampled_from(["a", None]))),)
            limited ^= {entity}
            value = float(number) if entity in limited else None
            events.append(ClientQuotaChanged(entity, "producer_byte_rate", value))
        elif choice == 15:
            token = draw(st.sampled_from(["t", "u"]))
            if token in tokens and draw(st.booleans()):
                tokens.remove(token)
                events.append(DelegationTokenRemoved(token))
            else:
                tokens.add(token)
                changed = DelegationTokenChanged(token, "User:a", "User:b", (), 0, number, 99)
                events.append(changed)
        else:
            events.append(ProducerIdsAllocated(1, 0, number * 1000))
    return events
