"""Leaders by evidence after unclean shutdowns: the replicas that must return first, the choice of
the longest log, damaged segments, and decisions of an operator."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from each import for_each
from meta.world import (
    CONFIG,
    alter_isr,
    beat,
    cluster,
    come_back,
    create,
    fence,
    first,
    register,
    registration,
    topic,
    unfence,
)

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.meta import brokers, snapshot, unclean_recovery
from pk.core.meta.image import MetadataImage
from pk.core.meta.partition_rules import PartitionRules
from pk.core.meta.unclean_recovery import Report
from pk.core.values import TopicIdPartition
from pk.core.wire.messages.pk_replica_logs import PkReplicaLogsRequest, ReplicaLog, TopicLogs
from pk.core.wire.messages.pk_unclean_recovery import PkUncleanRecoveryRequest, TopicPartitions
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest

AGGRESSIVE = BrokerConfig.parse({"node.id": "1", "unclean.recovery.strategy": "Aggressive"})
NONE = BrokerConfig.parse({"node.id": "1", "unclean.recovery.strategy": "None"})
DAMAGED = 1

Log = tuple[int, int] | tuple[int, int, int]
"""(epoch of the last batch, end), and its damage."""


def world(*nodes: int, isr_min: int = 2) -> MetadataImage:
    """Topic t with one partition on `nodes`, of five brokers."""
    own: dict[str, str | None] = {"min.insync.replicas": str(isr_min)}
    image, (answer,) = create(
        cluster(*[None] * 5), topic("t", -1, -1, {0: list(nodes or (1, 2, 3))}, own)
    )
    assert answer.error_code == 0
    return image


def key(image: MetadataImage) -> TopicIdPartition:
    return TopicIdPartition(image.topics["t"].topic_id, 0)


def known(image: MetadataImage, logs: dict[int, Log]) -> dict[TopicIdPartition, dict[int, Report]]:
    """Reports of these logs, as they are good for `image`."""
    epoch = first(image).leader_epoch
    return {
        key(image): {
            node: Report(
                image.brokers[node].broker_epoch,
                ReplicaLog(
                    leader_epoch=epoch,
                    last_epoch=log[0],
                    end_offset=log[1],
                    start_offset=0,
                    damage=log[2] if len(log) > 2 else 0,
                ),
            )
            for node, log in logs.items()
        }
    }


def compare(
    image: MetadataImage,
    logs: dict[int, Log],
    config: BrokerConfig = CONFIG,
    *,
    timed_out: bool = False,
) -> tuple[MetadataImage, unclean_recovery.Verdict]:
    """The image after the logs were compared, and the verdict."""
    late = {key(image)} if timed_out else set[TopicIdPartition]()
    decision = unclean_recovery.recover(image, known(image, logs), config, late)
    return image.apply(decision.records), decision.reply[key(image)]


def all_back(image: MetadataImage, *order: int) -> MetadataImage:
    """All of them crashed at once, and come back in this order, none cleanly."""
    for node in order:
        image, _ = register(image, registration(node, 1000 * image.offset + node))
    for node in order:
        image = unfence(image, node)
    return image


# --- who is needed ---


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3)])
@pytest.mark.parametrize("isr_min", [1, 2, 3])
def test_who_was_in_sync_when_all_crashed_at_once_is_needed_whoever_comes_first(
    order: tuple[int, ...], isr_min: int
) -> None:
    image = all_back(world(isr_min=isr_min), *order)
    partition = first(image)
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), ())
    assert set(unclean_recovery.needed(partition)) == {1, 2, 3}
    assert snapshot.load(snapshot.dump(image)) == image


def test_who_is_fenced_one_after_the_other_is_needed_too() -> None:
    """The controller notices their loss at different times; no leader acted in between."""
    image = fence(fence(fence(world(), 1), 2), 3)
    assert first(image).elr == (2, 3), "1 left while two were in sync, as far as one knew"
    assert unclean_recovery.needed(first(all_back(image, 2, 3))) == (3, 1, 2)


def test_who_went_before_the_leader_went_on_is_not_needed() -> None:
    """3 died, and 1 and 2 acknowledged without it, for months."""
    image = fence(world(), 3)
    assert first(image).last_known_elr == (3,)
    image, _ = beat(image, 1)
    assert PartitionRules(image, CONFIG).leader_has_applied_isr(first(image))
    image = all_back(image, 2, 1)
    assert set(unclean_recovery.needed(first(image))) == {1, 2}
    image, verdict = compare(image, {1: (0, 5), 2: (0, 7)})
    assert (first(image).leader, verdict.lossy) == (2, False)


def test_what_a_leader_acts_upon_is_told_once_for_each_that_goes() -> None:
    image = fence(world(), 3)
    image, _ = beat(image, 1, current_metadata_offset=image.offset - 2)
    assert image.brokers[1].known_offset == -1, "it has not heard of it"
    image, _ = beat(image, 1)
    told = image
    image, _ = beat(image, 1)
    assert image.offset == told.offset
    assert snapshot.load(snapshot.dump(image)) == image


def test_the_leaders_own_word_ends_it_too() -> None:
    image = come_back(fence(world(), 3), 3, clean=False)
    assert first(image).last_known_elr == (3,)
    image, answer = alter_isr(image, 1, 2, 3)
    assert (answer.error_code, first(image).last_known_elr) == (0, ())


def test_who_lost_eligibility_is_needed_until_enough_are_in_sync_again() -> None:
    image, _ = alter_isr(world(), 1, 2)
    image = fence(image, 2)
    assert (first(image).isr, first(image).elr) == ((1,), (2,))
    image = come_back(image, 2, clean=False)
    image, _ = beat(image, 1)
    assert first(image).last_known_elr == (2,), "nothing was acknowledged since it had everything"
    image = all_back(image, 1)
    assert unclean_recovery.needed(first(image)) == (1, 2)


def test_an_unregistered_broker_is_needed_by_what_has_no_leader() -> None:
    image = all_back(fence(fence(fence(world(), 1), 2), 3), 2, 3)
    decision = brokers.unregister_broker(image, UnregisterBrokerRequest(broker_id=1), CONFIG)
    image = image.apply(decision.records)
    _, verdict = compare(image, {2: (0, 5), 3: (0, 5)})
    assert verdict.awaited == (1,)


# --- who leads ---


@pytest.mark.parametrize(
    "logs, leader",
    [
        ({1: (0, 5), 2: (0, 7), 3: (0, 6)}, 2),
        ({1: (1, 3), 2: (0, 7), 3: (0, 6)}, 1),
        ({1: (0, 7), 2: (0, 7), 3: (0, 7)}, 3),
        ({1: (0, 7), 2: (0, 7), 3: (0, 7, DAMAGED)}, 1),
        ({1: (0, 7, DAMAGED), 2: (0, 7), 3: (0, 6)}, 2),
        ({1: (0, 0, DAMAGED), 2: (0, 0, DAMAGED), 3: (0, 4)}, 3),
        ({1: (-1, -1, DAMAGED), 2: (-1, 0), 3: (0, 4)}, 3),
    ],
)
def test_the_longest_log_leads(logs: dict[int, Log], leader: int) -> None:
    image = all_back(world(), 1, 2, 3)
    after, verdict = compare(image, logs)
    partition = first(after)
    assert (partition.leader, partition.isr, partition.elr) == (leader, (leader,), ())
    assert partition.leader_epoch == first(image).leader_epoch + 1 and partition.recovering
    assert (verdict.lossy, partition.unclean_epoch) == (False, -1)
    rest = tuple(sorted({1, 2, 3} - {leader}))
    assert tuple(sorted(partition.last_known_elr)) == rest, "until enough are in sync again"


def test_who_was_out_of_the_isr_and_has_more_leads() -> None:
    image, _ = alter_isr(world(1, 2, 3, 4), 1, 2)
    image = all_back(image, 1, 2)
    assert set(unclean_recovery.needed(first(image))) == {1, 2}
    after, _ = compare(image, {1: (0, 5), 2: (0, 6), 4: (0, 9)})
    assert first(after).leader == 4


def test_a_partition_waits_for_those_who_are_needed_however_long() -> None:
    image = all_back(world(), 1, 2, 3)
    for logs, awaits in (({1: (0, 5)}, {2, 3}), ({1: (0, 5), 3: (0, 9)}, {2})):
        for late in (False, True):
            after, verdict = compare(image, dict(logs), timed_out=late)
            assert (first(after).leader, set(verdict.awaited)) == (-1, awaits)
            assert "in sync" in verdict.reason
    after, verdict = compare(fence(image, 2), {1: (0, 5), 2: (0, 5), 3: (0, 9)})
    assert (first(after).leader, verdict.awaited) == (-1, (2,)), "it is gone again"


def test_aggressive_goes_on_after_its_time() -> None:
    image = all_back(world(), 1, 2, 3)
    logs: dict[int, Log] = {1: (0, 5), 3: (0, 4, DAMAGED)}
    after, verdict = compare(image, logs, AGGRESSIVE)
    assert (first(after).leader, verdict.awaited) == (-1, (2,))
    after, verdict = compare(image, logs, AGGRESSIVE, timed_out=True)
    partition = first(after)
    assert (partition.leader, verdict.lossy, partition.last_known_elr) == (1, True, ())
    assert partition.unclean_epoch == partition.leader_epoch
    after, verdict = compare(image, {1: (0, 5), 2: (0, 6), 3: (0, 7)}, AGGRESSIVE)
    assert (first(after).leader, verdict.lossy) == (3, False), "all are there: no record is lost"


def test_none_waits_for_the_last_leader_alone() -> None:
    image = all_back(world(), 3, 2, 1)
    after, verdict = compare(image, {2: (0, 9), 3: (0, 9)}, NONE)
    assert (first(after).leader, verdict.awaited) == (-1, (1,))
    after, _ = compare(image, {1: (0, 5), 2: (0, 9)}, NONE)
    assert first(after).leader == 1
    after, _ = compare(image, {1: (0, 5, DAMAGED), 2: (0, 9)}, NONE)
    assert first(after).leader == -1


def test_where_all_are_damaged_the_others_are_waited_for_too_and_the_loss_is_told() -> None:
    image, _ = alter_isr(world(1, 2, 3), 1, 2)
    image = all_back(image, 1, 2)
    damaged: dict[int, Log] = {1: (0, 5, DAMAGED), 2: (0, 6, DAMAGED)}
    _, verdict = compare(image, damaged)
    assert verdict.awaited == (3,), "the last one may have more"
    after, verdict = compare(image, {**damaged, 3: (0, 4)})
    assert (first(after).leader, verdict.lossy) == (2, True) and "lost records" in verdict.reason
    assert first(after).unclean_epoch == first(after).leader_epoch


def test_where_all_logs_end_below_what_was_committed_the_others_are_waited_for_too() -> None:
    """A power failure lost all unsynced records; one replica knows how far they were committed."""
    image, _ = alter_isr(world(1, 2, 3), 1, 2)
    image = all_back(image, 1, 2)
    reports = known(image, {1: (0, 5), 2: (0, 6)})
    reports[key(image)][1].log.high_watermark = 8
    decision = unclean_recovery.recover(image, reports, CONFIG)
    verdict = decision.reply[key(image)]
    assert (decision.records, verdict.awaited) == ([], (3,)) and "offset 8" in verdict.reason
    reports[key(image)] |= known(image, {3: (0, 8)})[key(image)]
    decision = unclean_recovery.recover(image, reports, CONFIG)
    assert first(image.apply(decision.records)).leader == 3
    assert not decision.reply[key(image)].lossy


def test_a_log_of_an_epoch_that_has_not_been_is_not_believed() -> None:
    image = all_back(world(), 1, 2, 3)
    after, verdict = compare(image, {1: (99, 50), 2: (0, 6), 3: (0, 5)})
    assert (first(after).leader, verdict.lossy) == (2, False)


def test_one_replica_leads_at_once() -> None:
    image = all_back(world(2, isr_min=2), 2)
    assert (first(image).leader, first(image).isr, first(image).unclean_epoch) == (2, (2,), -1)


def test_a_report_of_another_incarnation_or_leader_epoch_counts_for_nothing() -> None:
    image = all_back(world(), 1, 2, 3)
    reports = known(image, {1: (0, 5), 2: (0, 6), 3: (0, 7)})
    after = come_back(image, 3, clean=False)
    decision = unclean_recovery.recover(after, reports, CONFIG)
    assert (decision.records, decision.reply[key(image)].awaited) == ([], (3,))
    led, _ = compare(image, {1: (0, 5), 2: (0, 6), 3: (0, 7)})
    gone = all_back(led, 3)
    decision = unclean_recovery.recover(gone, reports, CONFIG)
    assert decision.records == [] and set(decision.reply[key(image)].awaited) == {1, 2, 3}


# --- what brokers report ---


def tell(
    image: MetadataImage,
    node: int,
    reports: dict[TopicIdPartition, dict[int, Report]] | None = None,
    **fields: Any,
) -> tuple[MetadataImage, ErrorCode | int]:
    """The image after a broker reported its log, and the code."""
    broker_epoch = fields.pop("broker_epoch", image.brokers[node].broker_epoch)
    topic_id = fields.pop("topic_id", key(image).topic_id)
    log = ReplicaLog(**{"leader_epoch": first(image).leader_epoch, "end_offset": 5, **fields})
    request = PkReplicaLogsRequest(
        broker_id=node,
        broker_epoch=broker_epoch,
        topics=[TopicLogs(topic_id=topic_id, partitions=[log])],
    )
    decision = unclean_recovery.report(image, request, CONFIG, reports or {})
    after, reply = image.apply(decision.records), decision.reply
    return after, reply.error_code or reply.topics[0].partitions[0].error_code


@pytest.mark.parametrize(
    "node, fields, code",
    [
        (1, {}, ErrorCode.NONE),
        (1, {"broker_epoch": 99}, ErrorCode.STALE_BROKER_EPOCH),
        (1, {"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        (1, {"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (4, {}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_each_report_is_answered(node: int, fields: dict, code: ErrorCode) -> None:
    image = all_back(world(), 1, 2, 3)
    after, found = tell(image, node, **fields)
    assert (found, after.offset) == (code, image.offset)


def damaged_segments(
    image: MetadataImage, *nodes: int
) -> dict[TopicIdPartition, dict[int, Report]]:
    """Reports of logs with a damaged segment."""
    epochs = {node: image.brokers[node].broker_epoch for node in nodes}
    return {key(image): {n: Report(e, ReplicaLog(damaged_segments=1)) for n, e in epochs.items()}}


def test_a_leader_with_a_damaged_segment_hands_over_and_stays_in_sync() -> None:
    image = world()
    after, code = tell(image, 1, damaged_segments=1)
    assert (first(after).leader, first(after).isr, code) == (2, (1, 2, 3), ErrorCode.NONE)
    assert first(after).leader_epoch == first(image).leader_epoch + 1


def test_not_to_one_that_has_damage_itself_or_may_not_lead() -> None:
    image = world()
    after, _ = tell(image, 1, damaged_segments(image, 2), damaged_segments=1)
    assert first(after).leader == 3
    fenced = fence(image, 3)
    after, _ = tell(fenced, 1, damaged_segments(image, 2), damaged_segments=1)
    assert first(after).leader == 1
    after, _ = tell(world(1), 1, damaged_segments=1)
    assert first(after).leader == 1


def test_damage_of_an_earlier_incarnation_says_nothing() -> None:
    image = world()
    reports = damaged_segments(image, 2, 3)
    reports[key(image)][2] = reports[key(image)][2]._replace(broker_epoch=-5)
    after, _ = tell(image, 1, reports, damaged_segments=1)
    assert first(after).leader == 2


def test_a_follower_with_a_damaged_segment_stays_in_sync() -> None:
    image = world()
    after, code = tell(image, 2, damaged_segments=1)
    assert (after.offset, code) == (image.offset, ErrorCode.NONE)


def test_that_all_is_well_again_is_taken_under_any_leader() -> None:
    image = world()
    assert tell(image, 2, leader_epoch=first(image).leader_epoch - 1)[1] == ErrorCode.NONE


def test_the_end_of_a_log_with_a_damaged_segment_counts() -> None:
    image = all_back(world(), 1, 2, 3)
    reports = known(image, {1: (0, 5), 2: (0, 9), 3: (0, 9)})
    reports[key(image)][2].log.damaged_segments = 1
    decision = unclean_recovery.recover(image, reports, CONFIG)
    verdict = decision.reply[key(image)]
    assert (verdict.leader, verdict.lossy) == (3, False)
    reports[key(image)][3].log.damaged_segments = 1
    decision = unclean_recovery.recover(image, reports, CONFIG)
    assert not decision.reply[key(image)].lossy


def test_a_damaged_replica_is_eligible_for_nothing_though_it_was_shut_down_cleanly() -> None:
    image = fence(fence(fence(world(), 1), 2), 3)
    old = image.brokers[3]
    image, _ = register(image, registration(3, 300, previous=old.broker_epoch))
    assert 3 in first(image).elr
    image, code = tell(image, 3, damage=DAMAGED)
    assert (code, first(image).elr) == (0, (2,))
    image = unfence(image, 3)
    assert first(image).leader == -1 and 3 in unclean_recovery.needed(first(image))
    assert first(unfence(image, 2)).leader == 2


# --- what operators do ---


def ask(
    image: MetadataImage, logs: dict[int, Log], leader: int = -1, **stopped: bool
) -> tuple[MetadataImage, unclean_recovery.PartitionState]:
    reports = known(image, logs)
    for report in reports[key(image)].values():
        report.log.stopped = bool(stopped)
    request = PkUncleanRecoveryRequest(
        topics=[TopicPartitions(topic="t", partitions=[0])], leader_id=leader
    )
    decision = unclean_recovery.describe(image, reports, request, CONFIG)
    return image.apply(decision.records), decision.reply.partitions[0]


def test_an_operator_sees_the_logs_and_says_who_leads() -> None:
    image = all_back(world(), 1, 2, 3)
    same, state = ask(image, {1: (0, 5), 3: (0, 7)})
    assert same.offset == image.offset and (state.error_code, state.awaits) == (0, [2])
    assert [(r.broker_id, r.reported, r.end_offset) for r in state.replicas] == [
        (1, True, 5),
        (2, False, -1),
        (3, True, 7),
    ]
    after, state = ask(image, {1: (0, 5), 3: (0, 7)}, leader=1)
    partition = first(after)
    assert (state.error_code, partition.leader, partition.isr) == (0, 1, (1,))
    assert partition.unclean_epoch == partition.leader_epoch and partition.last_known_elr == ()
    _, state = ask(image, {}, leader=4)
    assert state.error_code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    _, state = ask(after, {}, leader=2)
    assert state.error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_a_partition_whose_eligible_replica_is_away_waits_for_no_comparison() -> None:
    image = fence(world(1, isr_min=1), 1)
    assert (first(image).leader, first(image).elr) == (-1, (1,))
    _, state = ask(image, {})
    assert (state.leader_id, state.needed, state.awaits, state.why) == (-1, [1], [], "")


@pytest.mark.parametrize("leader", [1, 2])
def test_an_operator_decides_between_a_leader_and_a_follower_that_stopped(leader: int) -> None:
    image = world()
    after, state = ask(image, {2: (0, 9)}, leader=leader, stopped=True)
    partition = first(after)
    assert (state.error_code, partition.leader, partition.isr) == (0, leader, (leader,))
    assert partition.unclean_epoch == partition.leader_epoch == 1


# --- any crash ---


@for_each("seed", range(300))
def test_one_whole_log_of_those_in_sync_is_enough(seed: int) -> None:
    """All crash at once; the controller notices in any order, or not before they come back; each
    but one may lose its unsynced records; they return in any order. The leader has every record."""
    random = Random(seed)
    nodes = list(range(1, random.choice((2, 3, 4, 5)) + 1))
    image = world(*nodes, isr_min=random.choice((1, 2, 2, 3)))
    everything = 10
    # Before the crash, some fall behind or die, and the leader continues without them.
    behind = random.sample(nodes[1:], random.randrange(len(nodes)))
    for node in behind:
        if random.random() < 0.5:
            image = fence(image, node)
            image, _ = beat(image, first(image).leader)
        elif first(image).leader != node and node in first(image).isr:
            rest = [n for n in first(image).isr if n != node]
            image, _ = alter_isr(image, *rest)
    in_sync = [*first(image).isr, *first(image).elr]
    whole = random.choice(in_sync)
    ends = {n: everything if n == whole else random.randrange(everything + 3) for n in nodes}
    due = [*nodes, *nodes]
    random.shuffle(due)
    back: set[int] = set()
    for node in due:
        if first(image).leader > 0 and first(image).leader in back:
            break
        if node not in back and random.random() < 0.5:
            image = fence(image, node)
        else:
            image, _ = register(image, registration(node, random.randrange(1 << 60)))
            image = unfence(image, node)
            back.add(node)
        image = _elected(image, ends, back)
    for node in nodes:
        if node not in back:
            image, _ = register(image, registration(node, 1000 + node))
            image = unfence(image, node)
            back.add(node)
        image = _elected(image, ends, back)
    leader = first(image).leader
    assert leader > 0 and ends[leader] >= everything, (first(image), ends, whole)


def _elected(image: MetadataImage, ends: dict[int, int], back: set[int]) -> MetadataImage:
    if first(image).leader > 0:
        return image
    image, _ = compare(image, {node: (0, ends[node]) for node in back})
    return image
