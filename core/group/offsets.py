"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, and the expiry of offsets (KIP-186,
211, 848, 1251).

An offset is kept by group, topic and partition. It expires

- at its own time, if the commit had one (`RetentionTimeMs` of OffsetCommit 2 to 4);
- otherwise `offsets.retention.minutes` after its group became empty;
- in a group that no member ever joined (a consumer that only commits offsets), that long after the
  commit;
- in a stable group of consumers, that long after the commit, if no member is subscribed to the
  topic anymore.

An empty group is deleted with its last offset.

Offsets that a transaction commits are kept separately, by its producer id, until the transaction's
marker is in the log. Then they take effect or are discarded (KIP-447). Of two commits for one
partition, the later one in the log counts, regardless of the order of the markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import AnyGroup, CheckPartition, Committer, GroupType
from pk.core.group.classic.group import ClassicGroup
from pk.core.group.classic.groups import ClassicGroups
from pk.core.group.records import (
    Record,
    encode_record,
    offset_commit,
    offset_tombstone,
)
from pk.core.group.registry import not_found
from pk.core.group.settings import EXPIRED_RECORDS_MAX, DecisionBuilder, GroupSettings
from pk.core.record.build import frame_record
from pk.core.values import (
    NO_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ZERO_UUID,
    Uuid,
    new_list,
)
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pk.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pk.core.wire.messages.offsets_topic import OffsetCommitKey, OffsetCommitValue

GROUP_ID_NOT_FOUND_SINCE: Final = 9
"""The first version of OffsetCommit with an error code for an unknown group. Older versions return
ILLEGAL_GENERATION."""

NO_RETENTION: Final = -1
TIMESTAMP_MAX: Final = (1 << 63) - 1


class Committed(Struct, frozen=True, gc=False):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """When the offset expires, or -1 if the group's retention applies."""
    topic_id: Uuid
    """The topic's id, or ZERO_UUID if the commit did not contain it."""
    record_offset: int
    """The offset of the record in the log."""


Position = tuple[str, str, int]
"""A group, a topic and a partition."""


class CommitRecords(Struct):
    """The records of offsets to commit or delete, as messages and as encoded for the log, and the
    response to a commit. Creating thousands of them takes long, so it is done before the
    coordinator decides, in steps between which other tasks run."""

    reply: Any = None
    records: list[Record] = field(default_factory=new_list)
    framed: list[bytes] = field(default_factory=new_list)

    def add(self, record: Record) -> None:
        """Encode and add a record."""
        self.records.append(record)
        self.framed.append(frame_record(*encode_record(record)))


def metadata_error(metadata: str, metadata_max: int) -> ErrorCode:
    """Return OFFSET_METADATA_TOO_LARGE if `metadata` has more than `metadata_max` UTF-16 units,
    otherwise NONE."""
    if len(metadata) * 2 > metadata_max and utf16_units(metadata) > metadata_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def commit_records(
    request: OffsetCommitRequest, metadata_max: int, now_ms: int, response: OffsetCommitResponse
) -> Iterator[Record]:
    """Yield the records of an OffsetCommit, and fill `response`. An offset whose metadata is too
    large gets an error and no record. `metadata_max` is the limit in UTF-16 units."""
    expire_ms = NO_TIMESTAMP
    if request.retention_time_ms != NO_RETENTION:
        expire_ms = min(now_ms + request.retention_time_ms, TIMESTAMP_MAX)
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            error = metadata_error(metadata, metadata_max)
            answer.partitions.append(
                OffsetCommitResponsePartition(partition_index=index, error_code=error)
            )
            if error is ErrorCode.NONE:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms
                    if partition.commit_timestamp == NO_TIMESTAMP
                    else partition.commit_timestamp,
                    expire_timestamp=expire_ms,
                    # The version of the value with an expiry time has no field for the topic's id.
                    topic_id=topic.topic_id if expire_ms == NO_TIMESTAMP else ZERO_UUID,
                )
                yield offset_commit(request.group_id, topic.name, index, value)


def delete_records(request: OffsetDeleteRequest) -> Iterator[Record]:
    """Yield tombstones for all partitions that an OffsetDelete names."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield offset_tombstone(request.group_id, topic.name, partition.partition_index)


class Offsets:
    """The offsets of one partition of `__consumer_offsets`."""

    def __init__(self, settings: GroupSettings, classic: ClassicGroups) -> None:
        self.settings = settings
        self._groups = classic.groups
        self.committed: dict[str, dict[str, dict[int, Committed]]] = {}
        """Offsets by group, topic and partition. No level is ever empty."""
        self.pending: dict[int, dict[Position, Committed]] = {}
        """The offsets that open transactions would commit, by producer id."""
        self._open: dict[Position, set[int]] = {}
        """The producer ids whose open transactions would commit an offset, by position."""
        self._classic = classic

    # OffsetCommit

    def commit(
        self,
        request: OffsetCommitRequest,
        version: int,
        prepared: CommitRecords,
        decision: DecisionBuilder,
    ) -> None:
        """Decide OffsetCommit for topics and partitions that exist. As in Kafka, its records are
        one batch, and a commit that is larger than a batch may be (`max.message.bytes` of the
        offsets topic) is refused. `prepared` are its records and response, created by
        `commit_records`.

        Raises ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
        """
        check = self._check_commit(request, version, decision)
        if check is not None:
            for topic in prepared.reply.topics:
                for partition in topic.partitions:
                    if partition.error_code == ErrorCode.NONE:
                        check(topic.name, topic.topic_id, partition.partition_index)
        decision.records, decision.framed, decision.reply = (
            prepared.records,
            prepared.framed,
            prepared.reply,
        )

    def _check_commit(
        self, request: OffsetCommitRequest, version: int, decision: DecisionBuilder
    ) -> CheckPartition | None:
        group = self._groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is None:
            if generation < 0:
                return None  # The client only stores its offsets in this group.
            if version >= GROUP_ID_NOT_FOUND_SINCE:
                raise not_found(request.group_id)
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        check = group.check_commit(
            Committer(request.member_id, request.group_instance_id, generation, version)
        )
        if isinstance(group, ClassicGroup) and request.member_id in group.members:
            self._classic.restart_session(group, request.member_id, decision)
        return check

    # OffsetFetch

    def fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """Decide one group of an OffsetFetch. `topics` None requests all offsets. A partition that
        is named repeatedly is answered once, because its index takes only four bytes, but its
        metadata may be long.

        Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is not None:
            group.check_fetch(request.member_id, request.member_epoch)
        topics = request.topics
        if topics is None:
            topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
                for name, partitions in self.committed.get(group_id, {}).items()
            ]
        response = OffsetFetchResponseGroup(group_id=group_id)
        known = self.committed.get(group_id, {})
        seen: set[tuple[str, int]] = set()
        for topic in topics:
            of_topic = known.get(topic.name, {})
            answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answer)
            for index in topic.partition_indexes:
                if (topic.name, index) in seen:
                    continue
                seen.add((topic.name, index))
                if require_stable and (group_id, topic.name, index) in self._open:
                    answer.partitions.append(_no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                    continue
                found = of_topic.get(index)
                if found is None or _other_topic(found.topic_id, topic.topic_id):
                    answer.partitions.append(_no_offset(index))
                    continue
                answer.partitions.append(
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=found.offset,
                        committed_leader_epoch=found.leader_epoch,
                        metadata=found.metadata,
                    )
                )
        return response

    # OffsetDelete, DeleteGroups

    def delete(
        self, request: OffsetDeleteRequest, prepared: CommitRecords, decision: DecisionBuilder
    ) -> None:
        """Decide OffsetDelete (KIP-496). `prepared` are the tombstones of all partitions that the
        request names, created by `delete_records`; only those of committed offsets are written.

        Raises INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        group_id = request.group_id
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.find(group_id)
        group.check_offset_delete()
        response = OffsetDeleteResponse()
        tombstones = zip(prepared.records, prepared.framed, strict=True)
        for topic in request.topics:
            subscribed = group.is_subscribed(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            answer = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(answer)
            committed = self.committed.get(group_id, {}).get(topic.name, {})
            for partition, (tombstone, framed) in zip(topic.partitions, tombstones, strict=False):
                index = partition.partition_index
                answer.partitions.append(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                )
                if not subscribed and (
                    index in committed or (group_id, topic.name, index) in self._open
                ):
                    decision.records.append(tombstone)
                    decision.framed.append(framed)
        decision.reply = response

    def delete_group(self, group_id: str, decision: DecisionBuilder) -> ErrorCode:
        """Delete an empty group and all its offsets. Returns GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP or
        NONE. The group itself is deleted last: if the log refuses some records, the rest can be
        deleted later."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        decision.atomic = False
        for topic, partition, _ in self._of_group(group_id):
            decision.records.append(offset_tombstone(group_id, topic, partition))
        of_group = self.committed.get(group_id, {})
        for other, topic, partition in self._open:
            if other == group_id and partition not in of_group.get(topic, {}):
                decision.records.append(offset_tombstone(group_id, topic, partition))
        decision.records += group.tombstones()
        return ErrorCode.NONE

    # Expiry

    def expire(self, decision: DecisionBuilder) -> bool:
        """Delete expired offsets. Returns whether there may be more than one round deletes."""
        decision.atomic = False
        in_transactions = {group_id for group_id, _, _ in self._open}
        for group in self._groups.values():
            if len(decision.records) >= EXPIRED_RECORDS_MAX:
                return True
            if group.type is GroupType.SHARE:
                # Share groups have no such offsets, and their progress in topics outlives their
                # members.
                continue
            self._expire_group(group, group.group_id in in_transactions, decision)
        return len(decision.records) >= EXPIRED_RECORDS_MAX

    def _expire_group(
        self, group: AnyGroup, in_transaction: bool, decision: DecisionBuilder
    ) -> None:
        group_id = group.group_id
        all_expired = not in_transaction
        for topic, partition, found in self._of_group(group_id):
            if len(decision.records) >= EXPIRED_RECORDS_MAX:
                return
            if self._is_expired(group, topic, partition, found, decision.now_ms):
                decision.records.append(offset_tombstone(group_id, topic, partition))
            else:
                all_expired = False
        if all_expired and group.is_empty:
            decision.records += group.tombstones()

    def _is_expired(
        self, group: AnyGroup, topic: str, partition: int, found: Committed, now_ms: int
    ) -> bool:
        since_ms = group.expires_from(found.commit_timestamp_ms)
        if since_ms is None:
            return False
        if group.is_subscribed(topic) or (group.group_id, topic, partition) in self._open:
            return False
        if found.expire_timestamp_ms != NO_TIMESTAMP:
            return now_ms >= found.expire_timestamp_ms
        return now_ms - since_ms >= self.settings.offsets_retention_ms

    def topics_deleted(self, topics: list[tuple[str, Uuid]], decision: DecisionBuilder) -> None:
        """Delete the offsets of deleted topics, given as (name, id), but not those of later topics
        with the same names."""
        decision.atomic = False
        gone = dict(topics)
        for group_id in self.committed:
            for topic, partition, found in self._of_group(group_id):
                if topic in gone and not _other_topic(found.topic_id, gone[topic]):
                    decision.records.append(offset_tombstone(group_id, topic, partition))
        for pending in self.pending.values():
            for (group_id, topic, partition), found in pending.items():
                if topic in gone and not _other_topic(found.topic_id, gone[topic]):
                    decision.records.append(offset_tombstone(group_id, topic, partition))

    def _of_group(self, group_id: str) -> Iterator[tuple[str, int, Committed]]:
        for topic, partitions in self.committed.get(group_id, {}).items():
            for partition, found in partitions.items():
                yield topic, partition, found

    # The log

    def replay(self, record: Record, record_offset: int, producer_id: int) -> None:
        """Apply the record of an offset, which was just written or is being loaded."""
        key, value = record
        assert isinstance(key, OffsetCommitKey)
        position = (key.group, key.topic, key.partition)
        if value is None:
            self._forget(position)
            for open_id in self._open.pop(position, ()):
                self.pending[open_id].pop(position, None)
            return
        assert isinstance(value, OffsetCommitValue)
        if key.group not in self._groups:
            self._groups.put(ClassicGroup(key.group))
        found = Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
        if producer_id == NO_PRODUCER_ID:
            self._keep(position, found)
        else:
            self.pending.setdefault(producer_id, {})[position] = found
            self._open.setdefault(position, set()).add(producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the marker of a transaction, which was just written or is being loaded."""
        for position, found in self.pending.pop(producer_id, {}).items():
            others = self._open[position]
            others.discard(producer_id)
            if not others:
                del self._open[position]
            if committed:
                group_id, topic, partition = position
                now = self.committed.get(group_id, {}).get(topic, {}).get(partition)
                if now is None or found.record_offset > now.record_offset:
                    self._keep(position, found)

    def _keep(self, position: Position, found: Committed) -> None:
        group_id, topic, partition = position
        of_group = self.committed.get(group_id)
        if of_group is None:
            of_group = self.committed[group_id] = {}
        of_topic = of_group.get(topic)
        if of_topic is None:
            of_topic = of_group[topic] = {}
        of_topic[partition] = found

    def _forget(self, position: Position) -> None:
        group_id, topic, partition = position
        of_group = self.committed.get(group_id, {})
        of_topic = of_group.get(topic, {})
        if of_topic.pop(partition, None) is None:
            return
        if not of_topic:
            del of_group[topic]
        if not of_group:
            del self.committed[group_id]


def _other_topic(known: Uuid, asked: Uuid) -> bool:
    return known != asked and known != ZERO_UUID and asked != ZERO_UUID


def _no_offset(index: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_EPOCH,
        metadata="",
        error_code=error,
    )


def utf16_units(text: str) -> int:
    """Return the length of a text as Java counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
