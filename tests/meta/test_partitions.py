"""AlterPartition, and who stays eligible: the errors of each, and what KIP-966 promises."""

from __future__ import annotations

from typing import Any

import pytest
from each import for_each
from meta.world import (
    CONFIG,
    SET,
    alter,
    alter_isr,
    beat,
    cluster,
    come_back,
    create,
    fence,
    first,
    topic,
    unfence,
)

from pk.core.errors import ErrorCode
from pk.core.meta import alter_partition, brokers
from pk.core.meta.events import BROKER, TOPIC
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    PartitionData,
    TopicData,
)
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest

Code = ErrorCode


def world(*nodes: int, isr_min: int = 2, unclean: bool = False) -> MetadataImage:
    """Topic t with one partition on `nodes`."""
    own: dict[str, str | None] = {"min.insync.replicas": str(isr_min)}
    if unclean:
        own["unclean.leader.election.enable"] = "true"
    image, (answer,) = create(
        cluster(*[None] * 4), topic("t", -1, -1, {0: list(nodes or (1, 2, 3))}, own)
    )
    assert answer.error_code == 0
    return image


# --- AlterPartition ---


def test_a_leader_changes_its_isr() -> None:
    image, answer = alter_isr(world(), 1, 3)
    assert (answer.error_code, answer.leader_id, answer.isr) == (0, 1, [1, 3])
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 1)
    partition = first(image)
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 3), 0, 1)
    image, answer = alter_isr(image, 1, 3, 2, version=2)
    assert (answer.isr, first(image).isr, answer.partition_epoch) == ([1, 3, 2], (1, 3, 2), 2)
    again, answer = alter_isr(image, 1, 3, 2)
    assert (answer.error_code, answer.partition_epoch) == (0, 2), "nothing to change is no error"
    assert again.offset == image.offset


@for_each(
    "isr, options, code",
    [
        ((1, 2), {"leader_epoch": 1}, Code.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 2}, Code.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, Code.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": 0}, Code.INVALID_UPDATE_VERSION),
        ((1, 2), {"leader": 2}, Code.INVALID_REQUEST),
        ((2, 3), {}, Code.INVALID_REQUEST),
        ((), {}, Code.INVALID_REQUEST),
        ((1, 1), {}, Code.INVALID_REQUEST),
        ((1, 4), {}, Code.INVALID_REQUEST),
        ((1, 2, 3), {}, Code.NONE),
        ((1, 3), {"epochs": {3: 99}}, Code.INELIGIBLE_REPLICA),
        ((1, 3), {"epochs": {3: -1}}, Code.NONE),
        ((1, 3), {"version": 2}, Code.NONE),
        ((1, 3), {"leader_recovery_state": 1}, Code.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 1}, Code.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 2}, Code.INVALID_REQUEST),
        ((1, 2), {"partition_index": 1}, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_changes_of_the_isr_are_refused(isr: Any, options: Any, code: ErrorCode) -> None:
    image, _ = alter_isr(world(), 1, 2)
    after, answer = alter_isr(image, *isr, **options)
    assert answer.error_code == code
    same = code not in (Code.NONE, Code.INELIGIBLE_REPLICA) or set(isr) == {1, 2}
    assert (first(after) == first(image)) == same


@pytest.mark.parametrize("how", ["fenced", "shutting down", "gone"])
def test_who_may_not_lead_may_not_join(how: str) -> None:
    # 3 leads another topic, so that it cannot go at once.
    image, _ = create(world(isr_min=1), topic("u", -1, -1, {0: [3, 2]}))
    image, _ = alter_isr(image, 1, 2)
    if how == "fenced":
        image = fence(image, 3)
    elif how == "shutting down":
        image, reply = beat(image, 3, want_shut_down=True)
        assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    else:
        request = UnregisterBrokerRequest(broker_id=3)
        image = image.apply(brokers.unregister_broker(image, request, CONFIG).records)
    after, answer = alter_isr(image, 1, 2, 3)
    assert answer.error_code == Code.INELIGIBLE_REPLICA and first(after).isr == (1, 2)


def test_no_copy_of_what_was_refused_has_somebody_join_later() -> None:
    """The first try was not answered, the second is refused, and then the first one is decided
    upon."""
    image, _ = alter_isr(world(isr_min=1), 1, 2)
    image = fence(image, 3)
    sent: dict[str, Any] = {"partition_epoch": first(image).partition_epoch, "epochs": {3: 3}}
    image, answer = alter_isr(image, 1, 2, 3, **sent)
    assert answer.error_code == Code.INELIGIBLE_REPLICA
    image = unfence(image, 3)
    image, answer = alter_isr(image, 1, 2, 3, **sent)
    assert answer.error_code == Code.INVALID_UPDATE_VERSION
    image, answer = alter_isr(image, 1, 2, 3)
    assert (answer.error_code, first(image).isr) == (Code.NONE, (1, 2, 3))
    image = fence(image, 3)
    before = first(image)
    image, answer = alter_isr(image, 1, partition_epoch=before.partition_epoch, epochs={1: 99})
    assert (answer.error_code, first(image)) == (Code.INELIGIBLE_REPLICA, before), "who goes, goes"


def test_an_unknown_topic_and_a_stale_broker() -> None:
    image = world()
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=image.brokers[1].broker_epoch,
        topics=[TopicData(topic_id=b"x" * 16, partitions=[PartitionData(partition_index=0)])],
    )
    answer = alter_partition.alter_partition(image, request, CONFIG, 3).reply
    assert answer.topics[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_ID
    request.broker_epoch += 1
    answer = alter_partition.alter_partition(image, request, CONFIG, 3).reply
    assert (answer.error_code, answer.topics) == (Code.STALE_BROKER_EPOCH, [])


def test_a_partition_named_twice_is_judged_as_the_first_change_left_it() -> None:
    image = world()
    data = PartitionData(new_isr=[1, 2])
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=image.brokers[1].broker_epoch,
        topics=[TopicData(topic_id=image.topics["t"].topic_id, partitions=[data, data])],
    )
    decision = alter_partition.alter_partition(image, request, CONFIG, 2)
    codes = [p.error_code for p in decision.reply.topics[0].partitions]
    assert codes == [Code.NONE, Code.INVALID_UPDATE_VERSION] and len(decision.records) == 1


# --- eligible leader replicas ---


def test_who_leaves_a_small_isr_stays_eligible_until_it_is_large_enough() -> None:
    image, _ = alter_isr(world(isr_min=2), 1, 2)
    assert first(image).elr == (), "two are enough: what is acknowledged from now on 3 may lack"
    image, _ = alter_isr(image, 1)
    assert (first(image).isr, first(image).elr) == ((1,), (2,))
    image, _ = alter_isr(image, 1, 3)
    assert (first(image).isr, first(image).elr) == ((1, 3), ())


def test_the_last_of_the_isr_may_go_and_leads_again_when_it_is_back() -> None:
    image = fence(fence(fence(world(), 1), 2), 3)
    partition = first(image)
    assert (partition.isr, partition.leader) == ((), -1)
    assert (partition.elr, partition.last_known_elr) == ((2, 3), (3, 1))
    image = unfence(image, 1)
    assert first(image).leader == -1, "1 left while two were in sync: it may lack something"
    image = unfence(image, 2)
    partition = first(image)
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), (3,))
    assert (partition.recovering, partition.last_known_elr) == (False, (1,))


def test_who_was_not_shut_down_cleanly_is_eligible_for_nothing() -> None:
    image = fence(fence(fence(world(), 1), 2), 3)
    clean = come_back(image, 3, clean=True)
    assert (first(clean).leader, first(clean).elr) == (3, (2,))
    unclean = come_back(image, 3, clean=False)
    assert (first(unclean).leader, first(unclean).elr) == (-1, (2,))
    assert first(unfence(unclean, 2)).leader == 2


def test_where_nobody_is_eligible_any_more_nobody_leads_by_virtue_of_the_past() -> None:
    image = fence(fence(fence(world(), 1), 2), 3)
    image = come_back(image, 2, clean=False)
    assert (first(image).leader, first(image).elr) == (-1, (3,))
    image = come_back(image, 1, clean=False)
    image = come_back(image, 3, clean=False)
    partition = first(image)
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), ())
    assert partition.last_known_elr == (3, 1, 2), "their logs are compared: unclean_recovery.py"


def test_a_recovering_leader_is_alone() -> None:
    image = come_back(fence(world(1, isr_min=1), 1), 1, clean=False)
    assert (first(image).leader, first(image).recovering) == (1, True)
    after, answer = alter_isr(image, 1, leader_recovery_state=1)
    assert (answer.error_code, answer.leader_recovery_state, first(after)) == (0, 1, first(image))


def test_a_leader_that_comes_back_begins_a_new_epoch() -> None:
    image = world()
    before = first(image)
    for clean in (True, False):
        after = come_back(image, 1, clean=clean)
        assert first(after).leader == 2 and first(after).leader_epoch > before.leader_epoch
        assert 1 not in (*first(after).isr, *first(after).elr)


def test_the_bound_is_no_higher_than_there_are_replicas() -> None:
    image, _ = alter_isr(world(1, 2, isr_min=3), 1)
    assert first(image).elr == (2,)
    image, _ = alter_isr(image, 1, 2)
    assert first(image).elr == (), "two replicas are enough where there are no more"


# --- unclean leaders ---


def test_an_unclean_leader_is_one_only_where_the_topic_allows_it() -> None:
    for unclean in (False, True):
        image = fence(fence(fence(world(isr_min=1, unclean=unclean), 2), 3), 1)
        image = unfence(image, 2)
        partition = first(image)
        if unclean:
            assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ())
            assert partition.recovering
        else:
            assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))


def test_allowing_unclean_leaders_elects_them_at_once() -> None:
    image = unfence(fence(fence(fence(world(isr_min=1), 2), 3), 1), 2)
    assert first(image).leader == -1
    own, answer = alter(image, TOPIC, "t", ("unclean.leader.election.enable", SET, "true"))
    assert (answer.error_code, first(own).leader) == (0, 2)
    every, answer = alter(image, BROKER, "", ("unclean.leader.election.enable", SET, "true"))
    assert (answer.error_code, first(every).leader) == (0, 2)


# --- min.insync.replicas changes ---


def test_a_lower_bound_ends_eligibility_and_a_changed_one_a_partition_epoch() -> None:
    image, _ = alter_isr(world(isr_min=2), 1)
    assert first(image).elr == (2, 3)
    epoch = first(image).partition_epoch
    higher, _ = alter(image, TOPIC, "t", ("min.insync.replicas", SET, "3"))
    assert (first(higher).elr, first(higher).partition_epoch) == ((2, 3), epoch + 1)
    _, answer = alter_isr(higher, 1, 2, partition_epoch=epoch)
    assert answer.error_code == Code.INVALID_UPDATE_VERSION, "the leader may not know the bound"
    lower, _ = alter(image, TOPIC, "t", ("min.insync.replicas", SET, "1"))
    assert (first(lower).elr, first(lower).partition_epoch) == ((), epoch + 1)
    same, _ = alter(image, BROKER, "", ("min.insync.replicas", SET, "3"))
    assert first(same) == first(image), "the topic has a bound of its own"


@pytest.mark.parametrize("value", ["1", None])
def test_no_broker_has_a_bound_of_its_own(value: str | None) -> None:
    operation = 0 if value is not None else 1
    image, answer = alter(world(), BROKER, "1", ("min.insync.replicas", operation, value))
    expected = Code.INVALID_CONFIG if value is not None else Code.NONE
    assert answer.error_code == expected and image.broker_configs(1) == {}


def test_the_bound_of_all_brokers_cannot_be_removed() -> None:
    image, answer = alter(world(), BROKER, "", ("min.insync.replicas", SET, "2"))
    assert answer.error_code == 0
    after, answer = alter(image, BROKER, "", ("min.insync.replicas", 1, None))
    assert answer.error_code == Code.INVALID_CONFIG and after is not None
    assert after.broker_configs(None) == {"min.insync.replicas": "2"}
