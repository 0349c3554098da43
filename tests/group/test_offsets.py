"""Committed offsets: which members may commit, what a fetch returns, when an offset expires."""

from __future__ import annotations

import pytest
from group.scenario import START_MS, Scenario, classic_of, subscription

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import normalized
from pk.core.group.offsets import CommitRecords, delete_records
from pk.core.group.records import Record, decode_record, offset_commit
from pk.core.group.settings import EXPIRED_RECORDS_MAX, GroupSettings
from pk.core.wire.messages.list_groups import ListedGroup
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from pk.core.wire.messages.offsets_topic import OffsetCommitKey, OffsetCommitValue

NONE = ErrorCode.NONE
HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))


@pytest.fixture
def s() -> Scenario:
    return Scenario(
        GroupSettings(
            offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=HOUR_MS
        )
    )


def fetched(
    s: Scenario,
    topic: str,
    partition: int,
    *,
    group: str = "g",
    topic_id: bytes = bytes(16),
    require_stable: bool = False,
) -> OffsetFetchResponsePartitions:
    request = OffsetFetchRequestGroup(
        group_id=group,
        topics=[
            OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])
        ],
    )
    reply = s.take(s.machine.fetch(request, s.now_ms, require_stable=require_stable))
    assert (reply.topics[0].name, reply.topics[0].topic_id) == (topic, topic_id)
    return reply.topics[0].partitions[0]


def delete(s: Scenario, *positions: tuple[str, int], group: str = "g") -> list[int] | int:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
            )
            for topic, partition in positions
        ],
    )
    try:
        made = CommitRecords()
        for record in delete_records(request):
            made.add(record)
        reply = s.take(s.machine.delete_offsets(request, made, s.now_ms))
    except KafkaError as e:
        return e.code
    return [p.error_code for t in reply.topics for p in t.partitions]


def delete_groups(s: Scenario, *groups: str) -> dict[str, int]:
    return {g: s.take(s.machine.delete_group(g, s.now_ms)).error_code for g in groups}


def listed(s: Scenario, states: list[str], types: list[str]) -> list[ListedGroup]:
    return s.take(s.machine.list_groups(normalized(states), normalized(types), s.now_ms))


class TestCommit:
    def test_a_consumer_without_a_group_only_commits(self, s: Scenario) -> None:
        assert s.commit({("t", 0): 5, ("t", 1): 7}, metadata="m") == [NONE, NONE]
        assert s.fetch() == {("t", 0): 5, ("t", 1): 7}
        found = fetched(s, "t", 0)
        assert (found.metadata, found.committed_leader_epoch) == ("m", -1)
        assert s.state == "Empty"
        assert len(s.log) == 2, "no record of the group itself"

    def test_the_empty_group_id_may_commit(self, s: Scenario) -> None:
        assert s.commit({("t", 0): 5}, group="") == [NONE]
        assert s.fetch("") == {("t", 0): 5}

    @pytest.mark.parametrize(
        ("version", "error"),
        [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
    )
    def test_a_generation_of_an_unknown_group(
        self, s: Scenario, version: int, error: ErrorCode
    ) -> None:
        assert s.commit({("t", 0): 5}, member_id="m", generation=3, version=version) == error

    def test_into_a_group_with_members_only_they_commit(self, s: Scenario) -> None:
        (member,) = s.stable(1)
        offsets = {("t", 0): 5}
        assert s.commit(offsets) == ErrorCode.UNKNOWN_MEMBER_ID
        assert s.commit(offsets, member_id="who", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert s.commit(offsets, member_id=member, generation=0) == ErrorCode.ILLEGAL_GENERATION
        assert s.commit(offsets, member_id=member) == ErrorCode.ILLEGAL_GENERATION
        assert s.commit(offsets, member_id=member, generation=1) == [NONE]
        s.join_new()
        assert s.commit(offsets, member_id=member, generation=1) == [NONE], "while all join"

    def test_not_between_join_and_sync(self, s: Scenario) -> None:
        member, _ = s.join_new()
        s.after(3000)
        error = s.commit({("t", 0): 5}, member_id=member, generation=1)
        assert error == ErrorCode.REBALANCE_IN_PROGRESS

    def test_into_an_empty_group_anybody(self, s: Scenario) -> None:
        (member,) = s.stable(1)
        s.leave(member)
        assert s.commit({("t", 0): 5}) == [NONE]
        assert s.commit({("t", 0): 5}, member_id=member, generation=1) == (
            ErrorCode.UNKNOWN_MEMBER_ID
        )

    @pytest.mark.parametrize(
        ("metadata", "error"),
        [
            ("x" * 4096, NONE),
            ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
            ("é" * 4096, NONE),
            ("\U0001f600" * 2048, NONE),
            ("\U0001f600" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ],
    )
    def test_metadata_are_measured_as_java_does(
        self, s: Scenario, metadata: str, error: ErrorCode
    ) -> None:
        assert s.commit({("t", 0): 5}, metadata=metadata) == [error]
        assert s.fetch() == ({("t", 0): 5} if error == NONE else {})

    def test_what_the_log_holds(self, s: Scenario) -> None:
        s.commit({("t", 0): 5}, topic_id=ID)
        key, value = s.log[-1]
        assert key == b"\0\x01\0\x01g\0\x01t\0\0\0\0"
        assert value is not None
        assert value[:10] == b"\0\x04" + (5).to_bytes(8)
        assert value[10:14] == b"\xff" * 4
        assert value[14:15] == b"\x01", "empty compact string"
        assert value[15:23] == START_MS.to_bytes(8)
        assert value[23:] == b"\x01\0\x10" + ID, "one tagged field: the topic's id"

    @pytest.mark.parametrize("retention_ms", [-(1 << 63), (1 << 63) - 1])
    def test_a_retention_may_be_any_number(self, s: Scenario, retention_ms: int) -> None:
        assert s.commit({("t", 0): 5}, retention_ms=retention_ms, version=4) == [NONE]
        s.after(2 * RETENTION_MS)
        assert s.fetch() == ({("t", 0): 5} if retention_ms > 0 else {})

    def test_a_commit_with_a_retention_of_its_own_is_written_in_version_1(
        self, s: Scenario
    ) -> None:
        s.commit({("t", 0): 5}, retention_ms=1000, version=4, topic_id=ID)
        assert s.log[-1][1] == (
            b"\0\x01"
            + (5).to_bytes(8)
            + b"\0\0"
            + START_MS.to_bytes(8)
            + (START_MS + 1000).to_bytes(8)
        )

    def test_a_refused_append_changes_nothing(self, s: Scenario) -> None:
        s.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
        assert s.commit({("t", 0): 5}) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert s.fetch() == {}


class TestFetch:
    def test_what_was_never_committed(self, s: Scenario) -> None:
        for position in (("t", 1), ("u", 0)):
            s.commit({("t", 0): 5})
            found = fetched(s, *position)
            assert (found.committed_offset, found.metadata, found.error_code) == (-1, "", NONE)
        assert fetched(s, "t", 0, group="h").committed_offset == -1
        assert s.fetch("h") == {}

    def test_a_commit_of_version_1_may_bring_its_time(self, s: Scenario) -> None:
        request = OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, commit_timestamp=77),
                        OffsetCommitRequestPartition(partition_index=1),
                    ],
                )
            ],
        )
        records = s.decide_commit(request, 1).records
        values = [record.value for record in records if isinstance(record.value, OffsetCommitValue)]
        assert [value.commit_timestamp for value in values] == [77, s.now_ms]

    def test_a_topic_made_again_has_no_offsets(self, s: Scenario) -> None:
        s.commit({("t", 0): 5}, topic_id=ID)
        assert fetched(s, "t", 0, topic_id=ID).committed_offset == 5
        assert fetched(s, "t", 0, topic_id=OTHER_ID).committed_offset == -1
        assert fetched(s, "t", 0).committed_offset == 5, "asked by name"


class TestTransactions:
    @staticmethod
    def pend(s: Scenario, producer_id: int, offset: int) -> None:
        value = OffsetCommitValue(offset=offset, commit_timestamp=s.now_ms)
        record = offset_commit("g", "t", 0, value)
        s.machine.replay(record, len(s.log), producer_id)
        s.log.append(s.machine.encode(record))

    def test_they_count_from_the_marker_on(self, s: Scenario) -> None:
        self.pend(s, 7, 5)
        assert s.fetch() == {}
        assert fetched(s, "t", 0, require_stable=True).error_code == (
            ErrorCode.UNSTABLE_OFFSET_COMMIT
        )
        s.machine.replay_end_marker(7, committed=True)
        assert fetched(s, "t", 0, require_stable=True).committed_offset == 5

    def test_aborted_ones_are_dropped(self, s: Scenario) -> None:
        self.pend(s, 7, 5)
        s.machine.replay_end_marker(7, committed=False)
        s.machine.replay_end_marker(8, committed=True)
        assert s.fetch() == {}
        assert fetched(s, "t", 0, require_stable=True).error_code == NONE

    def test_the_later_record_wins_whatever_the_marker(self, s: Scenario) -> None:
        self.pend(s, 7, 5)
        s.commit({("t", 0): 9})
        s.machine.replay_end_marker(7, committed=True)
        assert s.fetch() == {("t", 0): 9}

    def test_deleting_drops_what_is_pending(self, s: Scenario) -> None:
        self.pend(s, 7, 5)
        assert delete(s, ("t", 0)) == [NONE]
        s.machine.replay_end_marker(7, committed=True)
        assert s.fetch() == {}

    def test_a_group_with_pending_offsets_does_not_expire(self, s: Scenario) -> None:
        s.commit({("t", 0): 1})
        self.pend(s, 7, 5)
        s.after(RETENTION_MS + HOUR_MS)
        assert s.fetch() == {("t", 0): 1}
        s.machine.replay_end_marker(7, committed=False)
        s.after(HOUR_MS)
        assert s.machine.groups == {}


class TestDelete:
    def test_offsets_of_an_empty_group(self, s: Scenario) -> None:
        s.commit({("t", 0): 5, ("t", 1): 6})
        assert delete(s, ("t", 0), ("u", 0)) == [NONE, NONE]
        assert s.fetch() == {("t", 1): 6}
        assert s.log[-1] == (b"\0\x01\0\x01g\0\x01t\0\0\0\0", None)

    def test_of_topics_that_consumers_do_not_read(self, s: Scenario) -> None:
        s.commit({("t", 0): 5, ("u", 0): 6})
        s.stable(1)
        assert delete(s, ("t", 0), ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE]
        assert s.fetch() == {("t", 0): 5}

    def test_what_is_refused(self, s: Scenario) -> None:
        assert delete(s, ("t", 0)) == ErrorCode.GROUP_ID_NOT_FOUND
        assert delete(s, ("t", 0), group="") == ErrorCode.INVALID_GROUP_ID
        s.join(protocol_type="connect", version=0)
        assert delete(s, ("t", 0)) == ErrorCode.NON_EMPTY_GROUP

    def test_a_group_with_its_offsets(self, s: Scenario) -> None:
        (member,) = s.stable(1)
        s.commit({("t", 0): 5, ("u", 0): 6}, member_id=member, generation=1)
        assert delete_groups(s, "g", "h") == {
            "g": ErrorCode.NON_EMPTY_GROUP,
            "h": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        s.leave(member)
        assert delete_groups(s, "g") == {"g": NONE}
        assert s.machine.groups == {} and s.fetch() == {}
        s.restart()
        assert s.machine.groups == {} and s.fetch() == {}


class TestExpiry:
    def test_a_simple_consumers_offsets_from_their_commit_on(self, s: Scenario) -> None:
        s.commit({("t", 0): 1})
        s.after(2 * HOUR_MS)
        s.commit({("t", 1): 1})
        s.after(RETENTION_MS - 2 * HOUR_MS - 1)
        assert len(s.fetch()) == 2
        s.after(1)
        assert s.fetch() == {("t", 1): 1}
        s.after(2 * HOUR_MS)
        assert s.machine.groups == {}
        s.restart()
        assert s.machine.groups == {}

    def test_a_groups_offsets_from_when_it_became_empty(self, s: Scenario) -> None:
        (member,) = s.stable(1, session_ms=1_000_000)
        s.commit({("t", 0): 1, ("u", 0): 2}, member_id=member, generation=1)
        for _ in range(200):
            s.after(900_000)
            s.heartbeat(member, 1)
        assert s.fetch() == {("t", 0): 1}, "u is not subscribed to"
        s.leave(member)
        s.after(RETENTION_MS - 1)
        assert s.fetch() == {("t", 0): 1}
        s.after(HOUR_MS)
        assert s.fetch() == {} and s.machine.groups == {}

    def test_an_empty_group_keeps_its_time_over_a_restart(self, s: Scenario) -> None:
        (member,) = s.stable(1)
        s.commit({("t", 0): 1}, member_id=member, generation=1)
        s.leave(member)
        s.after(RETENTION_MS - 2 * HOUR_MS)
        s.restart()
        s.after(3 * HOUR_MS)
        assert s.fetch() == {}

    def test_not_while_the_group_rebalances(self, s: Scenario) -> None:
        s.commit({("u", 0): 1})
        s.stable(1)
        later_ms = s.now_ms + RETENTION_MS
        assert len(s.machine.fire(("expiration",), later_ms).records) == 1
        s.join_new()
        assert s.state == "PreparingRebalance"
        assert s.machine.fire(("expiration",), later_ms).records == []

    def test_unknown_subscriptions_keep_everything(self, s: Scenario) -> None:
        s.stable(1, protocols=[("range", b"\0")])
        assert classic_of(s.machine).subscribed_topics is None
        s.commit({("u", 0): 1}, member_id="c-id1", generation=1)
        assert s.machine.fire(("expiration",), s.now_ms + RETENTION_MS).records == []

    def test_an_offset_with_a_time_of_its_own(self, s: Scenario) -> None:
        s.commit({("t", 0): 1}, retention_ms=2 * HOUR_MS, version=4)
        s.commit({("t", 1): 1})
        s.restart()
        s.after(2 * HOUR_MS - 1)
        assert len(s.fetch()) == 2
        s.after(1)
        assert s.fetch() == {("t", 1): 1}

    def test_many_go_in_several_rounds(self, s: Scenario) -> None:
        s.commit({("t", i): 1 for i in range(EXPIRED_RECORDS_MAX * 2)})
        records = len(s.log)
        s.after(RETENTION_MS)
        assert len(s.log) - records == EXPIRED_RECORDS_MAX
        s.after(200)
        assert s.fetch() == {} and s.machine.groups == {}

    def test_an_empty_group_without_offsets_goes_at_the_next_look(self, s: Scenario) -> None:
        s.join()
        s.after(HOUR_MS)
        assert s.machine.groups == {}

    def test_a_deleted_topics_offsets_go(self, s: Scenario) -> None:
        s.commit({("t", 0): 1}, topic_id=ID)
        s.commit({("t", 1): 1}, topic_id=OTHER_ID)
        s.commit({("t", 2): 1})
        s.commit({("u", 0): 1}, topic_id=ID)
        s.delete_topic("t", ID)
        assert s.fetch() == {("t", 1): 1, ("u", 0): 1}


class TestList:
    @pytest.mark.parametrize(
        ("states", "types", "expected"),
        [
            ([], [], ["g", "h"]),
            (["Stable"], [], ["g"]),
            ([" stable", "EMPTY"], [], ["g", "h"]),
            (["Dead"], [], []),
            ([], ["Classic"], ["g", "h"]),
            ([], ["consumer"], []),
            ([], ["nonsense"], []),
            (["empty"], ["classic", "share"], ["h"]),
        ],
    )
    def test_filters(
        self, s: Scenario, states: list[str], types: list[str], expected: list[str]
    ) -> None:
        s.stable(1)
        s.commit({("t", 0): 1}, group="h")
        assert [g.group_id for g in listed(s, states, types)] == expected

    def test_what_it_tells(self, s: Scenario) -> None:
        s.stable(1)
        s.commit({("t", 0): 1}, group="h")
        assert [(g.protocol_type, g.group_state, g.group_type) for g in listed(s, [], [])] == [
            ("consumer", "Stable", "classic"),
            ("", "Empty", "classic"),
        ]


class TestRecords:
    def test_types_that_are_not_kept_are_passed_over(self) -> None:
        assert decode_record(b"\0\x63\0\x01g", b"\0\0\0\0\0\x01\0") is None

    def test_the_first_type_of_an_offset_key(self) -> None:
        record = decode_record(
            b"\0\0\0\x01g\0\x01t\0\0\0\x02", b"\0\0" + (5).to_bytes(8) + b"\0\0" + bytes(8)
        )
        assert record == Record(
            OffsetCommitKey(group="g", topic="t", partition=2),
            OffsetCommitValue(offset=5, metadata="", commit_timestamp=0),
        )

    def test_subscribed_topics_come_back_with_the_log(self, s: Scenario) -> None:
        s.stable(1, protocols=[("range", subscription("t", "u"))])
        s.restart()
        assert classic_of(s.machine).subscribed_topics == {"t", "u"}
