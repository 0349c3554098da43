"""Random clusters: histories of events that a controller could have decided."""

from __future__ import annotations

from hypothesis import strategies as st

from pk.core.meta.events import (
    BROKER,
    TOPIC,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    ControllerRegistered,
    Endpoint,
    Event,
    FeatureChanged,
    FeatureRange,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)

ids = st.binary(min_size=16, max_size=16)
nodes = st.integers(0, 2**31 - 1)
epochs = st.integers(-1, 2**31 - 1)
texts = st.text(max_size=12)
node_lists = st.lists(st.integers(0, 9), max_size=4, unique=True).map(tuple)
id_lists = st.lists(ids, max_size=2).map(tuple)
endpoints = st.lists(
    st.builds(Endpoint, texts, texts, st.integers(0, 65535), st.integers(0, 3)), max_size=2
).map(tuple)
ranges = st.lists(
    st.builds(FeatureRange, texts, st.integers(0, 9), st.integers(0, 9)), max_size=2
).map(tuple)


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
    )


@st.composite
def histories(draw: st.DrawFn, events_max: int = 40) -> list[Event]:
    """Events that fit each other, as a controller's log holds them."""
    topics: dict[bytes, tuple[str, int]] = {}
    brokers: dict[int, int] = {}
    events: list[Event] = [ClusterCreated("c")]
    for number in range(draw(st.integers(0, events_max))):
        choice = draw(st.integers(0, 11))
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
        else:
            events.append(ProducerIdsAllocated(1, 0, number * 1000))
    return events
