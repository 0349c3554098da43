"""Commits of a member while its group moves.

A member's commit must not overwrite the commit of a later owner of the partition, and must not get
lost if the member still owns the partition.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing
from net_client.scripted_group import FAST, LOADING, P0, P1, PROTOCOLS, Held, coordinator, member
from net_client.support import trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.consumer import Consumer, open_consumer


async def committing(consumer: Consumer, offset: int) -> None:
    """Commit `offset` of partition 0."""
    await consumer.commit({P0: offset})


@trio_test
async def test_a_commit_that_is_cancelled_while_it_waits_lets_no_other_overtake() -> None:
    async with coordinator() as answers, member(answers, "consumer") as one:
        first = answers.hold_commit(LOADING)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await first.arrived.wait()
            with trio.move_on_after(0) as scope:
                await one.consumer.commit({P0: 120})
            assert scope.cancelled_caught
            nursery.start_soon(committing, one.consumer, 150)
            await trio.testing.wait_all_tasks_blocked()
            first.release.set()
        assert [offsets for _, offsets in answers.commits] == [{0: 100}, {0: 100}, {0: 150}]


@trio_test
async def test_a_background_commit_that_is_replaced_lets_no_other_overtake() -> None:
    async with (
        coordinator() as answers,
        member(answers, "consumer", auto=True, auto_commit_interval_ms=1) as one,
    ):
        first = answers.hold_commit(LOADING)
        offset = 200
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await first.arrived.wait()
            for _ in range(5):
                one.consumer.seek(P0, offset)
                offset += 1
                await one.consumer.poll(timeout_ms=5)
            nursery.start_soon(committing, one.consumer, 300)
            await trio.testing.wait_all_tasks_blocked()
            first.release.set()
        assert [offsets[0] for _, offsets in answers.commits][:2] == [100, 100]
        assert answers.commits[-1][1] == {0: 300}


@trio_test
async def test_only_what_failed_in_passing_is_committed_again() -> None:
    async with coordinator() as answers:
        answers.assigned = (P0, P1)
        async with member(answers, "consumer") as one:
            answers.answer_commit(0, LOADING)
            answers.answer_commit(LOADING)
            await one.consumer.commit({P0: 100, P1: 200})
            assert [o for _, o in answers.commits] == [{0: 100, 1: 200}, {1: 200}, {1: 200}]


@trio_test
async def test_a_partition_that_fails_for_good_keeps_no_other_from_being_committed() -> None:
    async with coordinator() as answers:
        answers.assigned = (P0, P1)
        async with member(answers, "consumer") as one:
            answers.answer_commit(ErrorCode.OFFSET_METADATA_TOO_LARGE, LOADING)
            with pytest.raises(KafkaError) as caught:
                await one.consumer.commit({P0: 100, P1: 200})
            assert caught.value.code == ErrorCode.OFFSET_METADATA_TOO_LARGE
            assert [o for _, o in answers.commits] == [{0: 100, 1: 200}, {1: 200}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_a_topic_that_was_deleted_does_not_hold_up_a_revocation(protocol: str) -> None:
    async with coordinator() as answers, member(answers, protocol, auto=True) as one:
        one.consumer.seek(P0, 100)
        answers.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answers.move(assigned=())
        await one.poll_until(lambda: "revoked" in one.told)
        assert [offsets for _, offsets in answers.commits] == [{0: 100}]


@trio_test
async def test_a_topic_that_may_be_new_is_waited_for_where_a_program_commits() -> None:
    async with coordinator() as answers, member(answers, "consumer") as one:
        answers.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await one.consumer.commit({P0: 100})
        assert [offsets for _, offsets in answers.commits] == [{0: 100}, {0: 100}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_what_was_asked_for_in_an_earlier_membership_is_not_committed_in_the_next(
    protocol: str,
) -> None:
    async with coordinator() as answers, member(answers, protocol) as one:
        first = answers.hold_commit(LOADING)
        async with trio.open_nursery() as nursery:

            async def commit() -> None:
                with pytest.raises(KafkaError) as caught:
                    await one.consumer.commit({P0: 100, P1: 100})
                assert caught.value.code == ErrorCode.ILLEGAL_GENERATION

            nursery.start_soon(commit)
            await first.arrived.wait()
            answers.put_out()
            await one.poll_until(lambda: one.told == ["assigned", "lost", "assigned"])
            first.release.set()
        await one.consumer.commit({P0: 150})
        assert answers.commits == [(1, {0: 100, 1: 100}), (2, {0: 150})]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_an_old_commit_in_the_background_does_not_go_back_behind_the_next_owners(
    protocol: str,
) -> None:
    async with (
        coordinator() as answers,
        member(answers, protocol, auto=True, auto_commit_interval_ms=1) as one,
    ):
        one.consumer.seek(P0, 100)
        first = answers.hold_commit(LOADING)
        await one.poll_until(first.arrived.is_set)
        before = len(answers.commits)
        answers.put_out()
        await one.poll_until(lambda: one.told == ["assigned", "lost", "assigned"])
        first.release.set()
        await one.poll_until(lambda: (2, {0: 150}) in answers.commits)
        assert all(commit == (2, {0: 150}) for commit in answers.commits[before:])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_a_partition_that_was_given_up_meanwhile_is_left_out(protocol: str) -> None:
    async with coordinator() as answers:
        answers.assigned = (P0, P1)
        async with member(answers, protocol) as one, trio.open_nursery() as nursery:
            first = answers.hold_commit(LOADING)

            async def commit() -> None:
                with pytest.raises(KafkaError) as caught:
                    await one.consumer.commit({P0: 100, P1: 200})
                assert caught.value.code == ErrorCode.ILLEGAL_GENERATION
                nursery.cancel_scope.cancel()

            nursery.start_soon(commit)
            await first.arrived.wait()
            answers.move(assigned=(P1,))
            await one.poll_until(lambda: one.consumer.assignment == {P1})
            first.release.set()
            await trio.sleep_forever()
        assert [offsets for _, offsets in answers.commits] == [{0: 100, 1: 200}, {1: 200}]


@trio_test
async def test_what_is_committed_without_a_group_does_not_depend_on_what_is_assigned() -> None:
    async with coordinator() as answers:
        async with open_consumer(answers.address, FAST) as consumer:
            consumer.assign([P0])
            first = answers.hold_commit(LOADING)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(committing, consumer, 100)
                await first.arrived.wait()
                consumer.assign([P1])
                first.release.set()
        assert answers.commits[:2] == [(-1, {0: 100}), (-1, {0: 100})]


@trio_test
async def test_a_commit_that_comes_before_its_epoch_waits_for_the_heartbeat_that_brings_it() -> (
    None
):
    async with coordinator() as answers, member(answers, "consumer", auto=True) as one:
        one.consumer.seek(P0, 100)
        # The partition was to go, and is free again: the member stands an epoch behind.
        refused = answers.hold_commit(ErrorCode.STALE_MEMBER_EPOCH)
        answers.interval_ms = 60_000
        answers.move(assigned=())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.poll_until, lambda: "revoked" in one.told)
            await refused.arrived.wait()
            answers.move(assigned=(P0,))
            refused.release.set()
        assert answers.commits[-1] == (3, {0: 100})
        assert answers.accepted == [{0: 100}]


@trio_test
async def test_a_commit_with_an_old_epoch_is_given_up_once_the_member_is_out() -> None:
    async with coordinator() as answers, member(answers, "consumer") as one:
        answers.commit_code = ErrorCode.STALE_MEMBER_EPOCH
        async with trio.open_nursery() as nursery:

            async def commit() -> None:
                with pytest.raises(KafkaError) as caught:
                    await one.consumer.commit({P0: 100})
                assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID

            nursery.start_soon(commit)
            await answers.until(lambda: len(answers.commits) > 1)
            answers.put_out()
        assert {commit[0] for commit in answers.commits} == {1}


@trio_test
async def test_a_commit_between_join_and_sync_is_made_with_the_new_generation() -> None:
    async with coordinator() as answers, member(answers, "classic") as one:
        sync = answers.held_sync = Held()
        answers.move(assigned=(P0,))
        await sync.arrived.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await trio.sleep(0.05)  # time for a commit, which may not come yet
            sync.release.set()
        assert answers.commits == [(2, {0: 100})]
        await one.poll_until(lambda: one.told == ["assigned", "assigned"])
        assert answers.story.count("SyncGroup") == 2


@trio_test
async def test_a_commit_of_the_generation_that_a_rebalance_ended_is_repeated_with_the_next() -> (
    None
):
    async with coordinator() as answers, member(answers, "classic") as one:
        refused = answers.hold_commit(ErrorCode.ILLEGAL_GENERATION)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await refused.arrived.wait()
            answers.move(assigned=(P0,))
            await one.poll_until(lambda: one.told == ["assigned", "assigned"])
            refused.release.set()
        assert answers.commits == [(1, {0: 100}), (2, {0: 100})]


@trio_test
async def test_who_closes_between_join_and_sync_has_committed_when_it_leaves() -> None:
    async with coordinator() as answers, member(answers, "classic", auto=True) as one:
        one.consumer.seek(P0, 100)
        sync = answers.held_sync = Held()
        answers.move(assigned=(P0,))
        await sync.arrived.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.consumer.close)
            await trio.sleep(0.05)  # time for a commit, which may not come yet
            sync.release.set()
        assert answers.accepted == [{0: 100}]
        assert answers.story[-1] == "LeaveGroup"


@trio_test
async def test_a_partition_that_is_not_held_is_not_committed_with_a_generation_to_come() -> None:
    async with coordinator() as answers, member(answers, "classic") as one:
        sync = answers.held_sync = Held()
        answers.move(assigned=(P0,))
        await sync.arrived.wait()
        with pytest.raises(KafkaError) as caught:
            await one.consumer.commit({P1: 100})
        assert caught.value.code == ErrorCode.REBALANCE_IN_PROGRESS
        sync.release.set()
        await one.poll_until(lambda: one.told == ["assigned", "assigned"])
        assert answers.story.count("SyncGroup") == 2
