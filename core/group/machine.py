"""The group coordinator's machine: all groups and offsets of one partition of `__consumer_offsets`.

It uses wire messages and knows no broker: the runtime
(core/broker/coordinator/coordinator_runtime.py) appends its decisions. Groups and offsets are one
machine because each depends on the other: a commit is checked against the group's generation, an
offset expires according to its group's state, and a group is deleted with its last offset.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group import timer_keys, transactional_offsets
from pk.core.group.any_group import AnyGroup, GroupsOfType, GroupType
from pk.core.group.classic.group import ClassicGroup
from pk.core.group.classic.groups import ClassicGroups
from pk.core.group.consumer.classic_members import ClassicMembers
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.consumer.groups import ConsumerGroups
from pk.core.group.consumer.replay import KEYS as CONSUMER_KEYS
from pk.core.group.join import Join
from pk.core.group.offsets import CommitRecords, Offsets
from pk.core.group.records import Record, decode_record, encode_record
from pk.core.group.registry import Groups
from pk.core.group.settings import EXPIRY_PAUSE_MS, Client, DecisionBuilder, GroupSettings, NewId
from pk.core.group.share.effects import InitializeShareState
from pk.core.group.share.group import ShareGroup
from pk.core.group.share.groups import ShareGroups
from pk.core.group.share.replay import KEYS as SHARE_KEYS
from pk.core.group.streams.groups import StreamsGroups
from pk.core.group.streams.internal_topics import CreateInternalTopics
from pk.core.group.streams.replay import KEYS as STREAMS_KEYS
from pk.core.group.timer_keys import EXPIRATION
from pk.core.group.topics import Topics
from pk.core.machine import Decision
from pk.core.meta.image import Changes, MetadataImage
from pk.core.values import INTERNAL_TOPICS, NO_PRODUCER_ID, Uuid
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pk.core.wire.messages.delete_groups import DeletableGroupResult
from pk.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pk.core.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pk.core.wire.messages.list_groups import ListedGroup
from pk.core.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pk.core.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from pk.core.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from pk.core.wire.messages.offsets_topic import GroupMetadataKey
from pk.core.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from pk.core.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pk.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from pk.core.wire.schema import Message

RECORD_TYPES: Final[Mapping[type[Message], GroupType]] = {
    key: group_type
    for group_type, keys in (
        (GroupType.CLASSIC, (GroupMetadataKey,)),
        (GroupType.CONSUMER, CONSUMER_KEYS),
        (GroupType.SHARE, SHARE_KEYS),
        (GroupType.STREAMS, STREAMS_KEYS),
    )
    for key in keys
}
"""The type of group for each type of key. Keys that are not listed belong to offsets."""


def normalized(filters: list[str]) -> set[str]:
    """Normalize the filters of ListGroups for `GroupMachine.list_groups`: letter case and
    surrounding blanks are ignored."""
    names: set[str] = set()
    for name in filters:
        names.add(name.strip().lower())
    return names


class GroupMachine:
    """The state machine of one partition of `__consumer_offsets`. Every method that decides takes
    `now_ms` last and returns a Decision."""

    log_is_compacted: ClassVar[bool] = True

    def __init__(self, settings: GroupSettings, new_id: NewId) -> None:
        self.settings = settings
        self.groups = Groups()
        self.topics = Topics()
        self.classic = ClassicGroups(settings, new_id, self.groups)
        self.consumer = ConsumerGroups(settings, new_id, self.groups, self.topics)
        self.share = ShareGroups(settings, self.groups, self.topics)
        self.streams = StreamsGroups(settings, self.groups, self.topics)
        self._of_type: dict[GroupType, GroupsOfType] = {
            GroupType.CLASSIC: self.classic,
            GroupType.CONSUMER: self.consumer,
            GroupType.SHARE: self.share,
            GroupType.STREAMS: self.streams,
        }
        self.classic_members = ClassicMembers(self.consumer)
        self.offsets = Offsets(settings, self.classic)

    # Decisions

    def join(
        self,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Hashable,
        now_ms: int,
    ) -> Decision[Record, JoinGroupResponse]:
        """Decide JoinGroup 0–9, which is answered through `token`."""
        decision = DecisionBuilder(now_ms=now_ms)
        join = Join(request, version, client, token)
        group = self.groups.get(request.group_id)
        if group is None or isinstance(group, ClassicGroup):
            self.classic.join(join, decision)
        elif group.is_empty and group.type is not GroupType.SHARE:
            self._join_instead(group, join, decision)
        elif isinstance(group, ConsumerGroup):
            self.classic_members.join(group, join, decision)
        else:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return decision

    def _join_instead(self, group: AnyGroup, join: Join, decision: DecisionBuilder) -> None:
        """Replace a consumer or streams group without members by a classic group with the same
        name."""
        del self.groups[group.group_id]
        self.classic.join(join, decision)
        if group.group_id in self.groups:
            decision.records[:0] = group.tombstones()
            decision.revert = lambda: self.groups.put(group)
        else:
            self.groups.put(group)  # The JoinGroup was refused, so the group stays.

    def sync(
        self, request: SyncGroupRequest, version: int, token: Hashable, now_ms: int
    ) -> Decision[Record, SyncGroupResponse]:
        """Decide SyncGroup 0–5, which is answered through `token`."""
        decision = DecisionBuilder(now_ms=now_ms)
        group = self.groups.get_of(ConsumerGroup, request.group_id)
        if group is None:
            self.classic.sync(request, version, token, decision)
        else:
            self.classic_members.sync(group, request, token, decision)
        return decision

    def heartbeat(
        self, request: HeartbeatRequest, now_ms: int
    ) -> Decision[Record, HeartbeatResponse]:
        """Decide Heartbeat 0–4."""
        decision = DecisionBuilder(now_ms=now_ms)
        group = self.groups.get_of(ConsumerGroup, request.group_id)
        if group is None:
            self.classic.heartbeat(request, decision)
        else:
            self.classic_members.heartbeat(group, request, decision)
        return decision

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client: Client,
        now_ms: int,
    ) -> Decision[Record, ConsumerGroupHeartbeatResponse]:
        """Decide ConsumerGroupHeartbeat 0–1."""
        with DecisionBuilder(now_ms=now_ms, may_describe=client.may_describe) as decision:
            self.consumer.heartbeat(request, version, client, decision)
        return decision

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Decision[Record, ShareGroupHeartbeatResponse]:
        """Decide ShareGroupHeartbeat 1."""
        with DecisionBuilder(now_ms=now_ms) as decision:
            self.share.heartbeat(request, client, decision)
        return decision

    def streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Decision[Record, StreamsGroupHeartbeatResponse]:
        """Decide StreamsGroupHeartbeat 0."""
        with DecisionBuilder(now_ms=now_ms) as decision:
            self.streams.heartbeat(request, client, decision)
        return decision

    def streams_topics_created(
        self, effect: CreateInternalTopics, refused: Mapping[str, str], now_ms: int
    ) -> Decision[Record, bool]:
        """Apply the result of creating a streams group's internal topics: see
        `StreamsGroups.topics_created`."""
        decision = DecisionBuilder(reply=True, now_ms=now_ms)
        self.streams.topics_created(effect, refused, decision)
        return decision

    def share_initialized(
        self,
        group_id: str,
        done: Mapping[Uuid, frozenset[int]],
        failed: Mapping[Uuid, frozenset[int]],
        now_ms: int,
    ) -> Decision[Record, bool]:
        """Apply the result of initializing share partitions: see `ShareGroups.initialized`."""
        decision = DecisionBuilder(reply=True, now_ms=now_ms)
        self.share.initialized(group_id, done, failed, decision)
        return decision

    def share_partitions(
        self, group_id: str, now_ms: int
    ) -> Decision[Record, dict[Uuid, frozenset[int]]]:
        """Reply with the initialized share partitions of a group, by topic id. There are none if
        the share group does not exist."""
        group = self.groups.get_of(ShareGroup, group_id)
        if group is None:
            return DecisionBuilder(reply={}, now_ms=now_ms)
        found = group.state_partitions.initialized
        return DecisionBuilder(
            reply={topic_id: topic.partitions for topic_id, topic in found.items()}, now_ms=now_ms
        )

    def alter_share_offsets(
        self, group_id: str, offsets: Mapping[Uuid, Mapping[int, int]], now_ms: int
    ) -> Decision[Record, list[InitializeShareState]]:
        """Decide AlterShareGroupOffsets: see `ShareGroups.begin_alter`. Replies with the list of
        effects to carry out."""
        decision = DecisionBuilder(now_ms=now_ms)
        self.share.begin_alter(group_id, offsets, decision)
        decision.reply = [] if decision.reply is None else [decision.reply]
        return decision

    def delete_share_offsets(
        self, group_id: str, topic_ids: Sequence[Uuid], now_ms: int
    ) -> Decision[Record, dict[Uuid, frozenset[int]]]:
        """Decide DeleteShareGroupOffsets: see `ShareGroups.begin_delete`."""
        decision = DecisionBuilder(now_ms=now_ms)
        self.share.begin_delete(group_id, topic_ids, decision)
        return decision

    def begin_delete_share_group(
        self, group_id: str, now_ms: int
    ) -> Decision[Record, dict[Uuid, frozenset[int]]]:
        """Decide the first half of a DeleteGroups for a share group: see
        `ShareGroups.begin_delete_group`. Replies that there is nothing to do for a group of another
        type."""
        decision = DecisionBuilder(reply={}, now_ms=now_ms)
        if self.groups.get_of(ShareGroup, group_id) is not None:
            self.share.begin_delete_group(group_id, decision)
        return decision

    def share_deleted(
        self, group_id: str, topic_ids: Sequence[Uuid], now_ms: int
    ) -> Decision[Record, bool]:
        """Apply the share coordinators' deletion of the share partitions of these topics."""
        decision = DecisionBuilder(reply=True, now_ms=now_ms)
        self.share.deleted(group_id, topic_ids, decision)
        return decision

    def leave(
        self, request: LeaveGroupRequest, version: int, now_ms: int
    ) -> Decision[Record, LeaveGroupResponse]:
        """Decide LeaveGroup 0–5."""
        decision = DecisionBuilder(now_ms=now_ms)
        group = self.groups.get_of(ConsumerGroup, request.group_id)
        if group is None:
            self.classic.leave(request, version, decision)
        else:
            self.classic_members.leave(group, request, version, decision)
        return decision

    def commit(
        self, request: OffsetCommitRequest, version: int, prepared: CommitRecords, now_ms: int
    ) -> Decision[Record, OffsetCommitResponse]:
        """Decide OffsetCommit 2–10."""
        decision = DecisionBuilder(now_ms=now_ms)
        self.offsets.commit(request, version, prepared, decision)
        return decision

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        topic_ids: Mapping[str, Uuid],
        prepared: CommitRecords,
        now_ms: int,
    ) -> Decision[Record, TxnOffsetCommitResponse]:
        """Decide TxnOffsetCommit 0–5 for topics and partitions that exist, with the topics' ids by
        name."""
        check = transactional_offsets.check(request, self.groups.get(request.group_id))
        decision = DecisionBuilder(now_ms=now_ms)
        transactional_offsets.commit(request, topic_ids, check, prepared, decision)
        return decision

    def fetch(
        self, request: OffsetFetchRequestGroup, now_ms: int, *, require_stable: bool
    ) -> Decision[Record, OffsetFetchResponseGroup]:
        """Decide one group of an OffsetFetch 1–10."""
        reply = self.offsets.fetch(request, require_stable=require_stable)
        return DecisionBuilder(reply=reply, now_ms=now_ms)

    def delete_offsets(
        self, request: OffsetDeleteRequest, prepared: CommitRecords, now_ms: int
    ) -> Decision[Record, OffsetDeleteResponse]:
        """Decide OffsetDelete 0."""
        decision = DecisionBuilder(now_ms=now_ms)
        self.offsets.delete(request, prepared, decision)
        return decision

    def delete_group(self, group_id: str, now_ms: int) -> Decision[Record, DeletableGroupResult]:
        """Decide one group of a DeleteGroups 0–2. Replies with its result."""
        decision = DecisionBuilder(now_ms=now_ms)
        error = self.offsets.delete_group(group_id, decision)
        decision.reply = DeletableGroupResult(group_id=group_id, error_code=error)
        return decision

    def list_groups(
        self, states: Collection[str], types: Collection[str], now_ms: int
    ) -> Decision[Record, list[ListedGroup]]:
        """Decide ListGroups 0–5: replies with the groups in one of `states` and of one of `types`
        (see `normalized`). An empty filter matches all groups."""
        listed: list[ListedGroup] = []
        for group in self.groups.values():
            if (not types or group.type.value in types) and (
                not states or group.state_name.lower() in states
            ):
                listed.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type_name,
                        group_state=group.state_name,
                        group_type=group.type.value,
                    )
                )
        return DecisionBuilder(reply=listed, now_ms=now_ms)

    def describe(self, group_type: GroupType, group_id: str, now_ms: int) -> Decision[Record, Any]:
        """Reply with the description of a group of this type, for DescribeGroups,
        ConsumerGroupDescribe, ShareGroupDescribe or StreamsGroupDescribe. Raises
        GROUP_ID_NOT_FOUND."""
        return DecisionBuilder(reply=self._of_type[group_type].describe(group_id), now_ms=now_ms)

    def follow(self, image: MetadataImage, delta: Changes, now_ms: int) -> Decision[Record, None]:
        """Handle a new image: delete the offsets of deleted topics, and make groups check their
        topics again."""
        gone = [(t.name, t.topic_id) for t in delta.topics_deleted if t.name not in INTERNAL_TOPICS]
        decision = DecisionBuilder(now_ms=now_ms)
        if gone:
            self.offsets.topics_deleted(gone, decision)
        self.topics.use(image, has_new_topics=bool(delta.topics_created))
        for groups in self._of_type.values():
            groups.follow(image, delta, decision)
        return decision

    def rebalance(self, group_id: str, now_ms: int) -> Decision[Record, bool]:
        """Make a group rebalance at the request of a test. Members of the classic protocol join
        again. Members of the consumer protocol are fenced, lose their partitions, and join again.

        Raises KafkaError GROUP_ID_NOT_FOUND, and INVALID_REQUEST for a group of another type.
        """
        decision = DecisionBuilder(reply=True, now_ms=now_ms)
        group = self.groups.find(group_id)
        if isinstance(group, ClassicGroup):
            self.classic.rebalance(group_id, decision)
        elif isinstance(group, ConsumerGroup):
            self.consumer.fence(group, list(group.members.values()), decision)
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"group {group_id} has no partitions to distribute"
            )
        return decision

    # Time

    def loaded(self, now_ms: int) -> Decision[Record, None]:
        """Start serving: the log has been replayed to its end."""
        decision = DecisionBuilder(now_ms=now_ms)
        for groups in self._of_type.values():
            groups.loaded(decision)
        decision.schedule((EXPIRATION,), self.settings.offsets_retention_check_interval_ms)
        return decision

    def fire(self, key: Any, now_ms: int) -> Decision[Record, None]:
        """Handle the expired timer `key` of an earlier Decision."""
        decision = DecisionBuilder(now_ms=now_ms)
        if key == (EXPIRATION,):
            return self._expire(decision)
        group_type = timer_keys.OF_TYPE.get(key[0])
        if group_type is None:
            group = self.groups.get(key[1])
            group_type = GroupType.CLASSIC if group is None else group.type
        self._of_type[group_type].fire(key, decision)
        return decision

    def _expire(self, decision: DecisionBuilder) -> Decision[Record, None]:
        more = self.offsets.expire(decision)
        interval_ms = self.settings.offsets_retention_check_interval_ms
        decision.schedule((EXPIRATION,), EXPIRY_PAUSE_MS if more else interval_ms)
        return decision

    # The log

    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def replay(self, record: Record, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log, at `record_offset`. Only this method changes durable state."""
        group_type = RECORD_TYPES.get(type(record.key))
        if group_type is None:
            self.offsets.replay(record, record_offset, producer_id)
        else:
            self._of_type[group_type].replay(record)

    def replay_end_marker(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction's end marker in the log."""
        self.offsets.end_transaction(producer_id, committed=committed)
