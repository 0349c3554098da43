"""A follower that would have to cut below its own high watermark: its log beside its leader's."""

from __future__ import annotations

from typing import Any

import pytest
from each import for_each
from meta.test_unclean_recovery import key, world
from meta.world import CONFIG, alter_isr, fence, first

from pk.core.meta import unclean_recovery
from pk.core.meta.image import MetadataImage
from pk.core.meta.unclean_recovery import Report
from pk.core.wire.messages.pk_replica_logs import (
    PartitionResult,
    PkReplicaLogsRequest,
    ReplicaLog,
    TopicLogs,
)
from pk.core.wire.messages.pk_unclean_recovery import PkUncleanRecoveryRequest, TopicPartitions

SHORTER = {"cut_offset": 8, "leader_end_offset": 8}
"""The leader's log is the beginning of the follower's, which ends at 10."""
BOTH = {"cut_offset": 8, "leader_end_offset": 12, "leader_last_epoch": 1}
"""Both have records of their own from 8 on."""


def stopped(image: MetadataImage, **fields: Any) -> ReplicaLog:
    own = {"last_epoch": 0, "end_offset": 10, "start_offset": 0, "high_watermark": 10}
    told = {"leader_last_epoch": 0, "leader_epoch": first(image).leader_epoch, "stopped": True}
    return ReplicaLog(**{**own, **told, **fields})


def report(image: MetadataImage, node: int, **fields: Any) -> tuple[MetadataImage, PartitionResult]:
    """The image after follower `node` reported that it stopped, and the answer."""
    request = PkReplicaLogsRequest(
        broker_id=node,
        broker_epoch=image.brokers[node].broker_epoch,
        topics=[TopicLogs(topic_id=key(image).topic_id, partitions=[stopped(image, **fields)])],
    )
    decision = unclean_recovery.report(image, request, CONFIG)
    assert decision.reply.error_code == 0
    [result] = decision.reply.topics[0].partitions
    return image.apply(decision.records), result


@for_each(
    "fields, may_cut",
    [
        (BOTH, False),
        # A later epoch, and more records, show that the leader went on, not that it had these.
        ({**BOTH, "leader_end_offset": 1_000, "leader_last_epoch": 9}, False),
        ({}, False),  # the leader has not told
        ({**BOTH, "damage": 1}, True),
        ({**BOTH, "damage": 1, "leader_end_offset": 9}, False),  # 9 may be on this one alone
        ({**BOTH, "damage": 1, "leader_last_epoch": -1}, False),  # the later epoch is here
        ({**BOTH, "last_epoch": 7}, True),  # there has been no such epoch
        ({**BOTH, "last_epoch": 7, "leader_end_offset": 9}, False),
        ({**BOTH, "start_offset": 10}, True),  # all of it was deleted
    ],
)
def test_a_follower_goes_on_only_if_its_log_is_no_evidence(fields: dict, may_cut: bool) -> None:
    image, _ = alter_isr(world(), 1, 2)
    after, result = report(image, 3, **fields)
    assert (result.error_code, result.may_cut, bool(result.why)) == (0, may_cut, True)
    assert first(after) == first(image)


@pytest.mark.parametrize("isr_min", [1, 2])
def test_a_follower_in_the_isr_that_has_all_of_its_leaders_log_and_more_leads(isr_min: int) -> None:
    image = world(isr_min=isr_min)
    after, result = report(image, 2, **SHORTER)
    partition = first(after)
    assert (result.error_code, result.may_cut) == (0, False) and "and more" in result.why
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ())
    assert partition.leader_epoch == first(image).leader_epoch + 1
    assert partition.unclean_epoch == -1, "nothing was given up"
    assert set(partition.last_known_elr) == ({1, 3} if isr_min > 1 else set())


def test_so_does_one_out_of_the_isr_while_too_few_are_in_it() -> None:
    image, _ = alter_isr(world(), 1)
    assert first(report(image, 2, **SHORTER)[0]).leader == 2


@pytest.mark.parametrize(
    "fields",
    [
        BOTH,
        {"leader_end_offset": 8},  # the offset at which the logs diverge is unknown
        {**SHORTER, "high_watermark": 11},  # it lacks committed records as well
        {**SHORTER, "damage": 1},
    ],
)
def test_it_does_not_lead_if_either_log_may_have_what_the_other_lacks(fields: dict) -> None:
    image = world()
    after, result = report(image, 2, **fields)
    assert (first(after).leader, result.may_cut) == (1, False)


def test_it_does_not_lead_if_the_leader_may_have_gone_on_without_it() -> None:
    for image in (alter_isr(world(), 1, 3)[0], alter_isr(world(isr_min=1), 1)[0]):
        after, result = report(image, 2, **SHORTER)
        assert first(after).leader == 1 and "since" in result.why


def test_it_does_not_lead_if_it_is_fenced() -> None:
    image = fence(alter_isr(world(), 1)[0], 2)
    after, result = report(image, 2, **SHORTER)
    assert first(after) == first(image) and "may not lead" in result.why


def test_a_report_of_another_leader_epoch_decides_nothing() -> None:
    image = world()
    log = TopicLogs(topic_id=key(image).topic_id, partitions=[stopped(image, **SHORTER)])
    moved = fence(image, 1)
    request = PkReplicaLogsRequest(
        broker_id=3, broker_epoch=image.brokers[3].broker_epoch, topics=[log]
    )
    decision = unclean_recovery.report(moved, request, CONFIG)
    assert decision.records == [] and decision.reply.topics[0].partitions[0].error_code != 0


def test_an_operator_sees_both_logs_and_why_it_waits() -> None:
    image, _ = alter_isr(world(), 1, 3)
    broker_epoch = image.brokers[2].broker_epoch
    reports = {key(image): {2: Report(broker_epoch, stopped(image, **BOTH))}}
    request = PkUncleanRecoveryRequest(topics=[TopicPartitions(topic="t", partitions=[0])])
    [state] = unclean_recovery.describe(image, reports, request, CONFIG).reply.partitions
    assert (state.leader_id, state.why) == (
        1,
        "broker 2: from offset 8 on, each log has records that the other lacks",
    )
    assert [(r.broker_id, r.reported, r.end_offset, r.stopped) for r in state.replicas] == [
        (1, True, 12, False),
        (2, True, 10, True),
        (3, False, -1, False),
    ]
