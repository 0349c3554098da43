"""Decisions about many things pause again and again, up to their last step."""

from __future__ import annotations

import gc
from random import Random

from meta.world import cluster, create, topic

from pk.core.config import BrokerConfig
from pk.core.meta import configs, topics
from pk.core.meta.events import (
    TOPIC,
    ConfigChanged,
    Event,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
)
from pk.core.meta.image import (
    COMPARED_AT_ONCE,
    DIFFERS_AS_SAME,
    MetadataImage,
    changes,
    changes_in_turns,
)
from pk.core.turns import AT_ONCE, Turns, at_once
from pk.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

MANY = 8 * AT_ONCE


def pauses(work: Turns[object]) -> int:
    return sum(1 for _ in work)


def test_events_of_many_topics_are_applied_in_turns_and_so_is_what_they_change() -> None:
    """Each event is looked at, and each topic and its configs once more at the end."""
    events = [
        *(TopicCreated(f"t{n}", n.to_bytes(16, "big")) for n in range(MANY)),
        *(ConfigChanged(TOPIC, f"t{n}", "flush.ms", "5") for n in range(MANY)),
    ]
    image = MetadataImage()
    assert pauses(image.apply_in_turns(events)) >= 3 * MANY // AT_ONCE
    assert at_once(image.apply_in_turns(events)) == image.apply(events)


def test_what_differs_is_found_in_turns_and_so_is_what_does_not() -> None:
    partitions = 4 * COMPARED_AT_ONCE
    topic_id = bytes(16)
    few: list[Event] = [TopicCreated("t", topic_id), PartitionCreated(topic_id, 0, (1,), (1,), 1)]
    old = MetadataImage().apply(few)
    new = old.apply(PartitionCreated(topic_id, n, (1,), (1,), 1) for n in range(1, partitions))
    assert pauses(changes_in_turns(old, new)) >= 2 * (
        partitions * DIFFERS_AS_SAME // COMPARED_AT_ONCE - 1
    )
    newer = new.apply([PartitionChanged(topic_id=topic_id, partition=1, leader=1)])
    assert pauses(changes_in_turns(new, newer)) >= partitions // COMPARED_AT_ONCE
    assert [change.tp.partition for change in changes(new, newer).partitions] == [1]
    named = MetadataImage().apply(
        ConfigChanged(TOPIC, f"t{n}", "flush.ms", "5") for n in range(2 * COMPARED_AT_ONCE)
    )
    assert pauses(changes_in_turns(MetadataImage(), named)) >= 2


def test_partitions_that_are_added_count() -> None:
    image, _ = create(cluster(None), *(topic(f"t{n}", 1, 1) for n in range(20)))
    wanted = [CreatePartitionsTopic(name=f"t{n}", count=201, assignments=None) for n in range(20)]
    request = CreatePartitionsRequest(topics=wanted)
    work = topics.create_partitions(image, request, Random(1))
    assert pauses(work) >= 20 * 200 // AT_ONCE


def test_refusals_leave_nothing_for_the_collector() -> None:
    """An error's traceback holds the frames it came through, and one of them holds the errors:
    50,000 refused topics stayed in memory for good, since what a large request leaves is
    frozen."""
    resources = [
        AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=f"missing{n}",
            configs=[AlterableConfig(name="flush.ms", config_operation=0, value="1")],
        )
        for n in range(100)
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)
    gc.collect()
    gc.disable()
    try:
        decision = at_once(configs.incremental_alter(MetadataImage(), request, BrokerConfig({})))
        assert all(response.error_code for response in decision.reply.responses)
        del decision
        assert gc.collect() < len(resources)
    finally:
        gc.enable()
