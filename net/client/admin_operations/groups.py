"""Admin operations on groups and their offsets."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin_operations.base import (
    FAILURES,
    AdminBase,
    Failure,
    by_topic,
    check,
    failure,
)
from pk.net.client.answers import Answers
from pk.net.client.cluster import Backoff
from pk.net.client.connection import Connection
from pk.net.client.errors import RequestTimedOut

_CONSUMER_GROUP_DESCRIBE = 69
_SHARE_GROUP_DESCRIBE = 77
_STREAMS_GROUP_DESCRIBE = 89
_LEAVE_GROUP = 13
_OFFSET_FETCH = 9
_NAMED_OFFSETS_MAX = 9
"""OffsetCommit and OffsetFetch use topic ids from version 10 on; names suffice here."""

_GROUPS_A_REQUEST = 500
"""The most groups in one OffsetFetch request, so that the response stays within a few megabytes."""

V = TypeVar("V")

_READING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_NOT_THIS_TYPE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
CONSUMER_PROTOCOL = "consumer"


class GroupOperations(AdminBase):
    """The part of `Admin` about groups."""

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> r.ListedGroups:
        """List the groups of all coordinators (ListGroups). Filters by state need brokers from 2.6
        on, by type from 3.8 on.

        A request to a coordinator that is still loading its groups is retried, as in Java's client.
        """
        from pk.core.wire.messages.list_groups import ListGroupsRequest

        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        low = 5 if request.types_filter else 4 if request.states_filter else 0
        reading: dict[int, Failure] = {}

        async def ask(connection: Connection) -> list[r.GroupListing]:
            node_id = connection.node.node_id
            backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
            while (response := await connection.request(request, low=low)).error_code in _READING:
                reading[node_id] = KafkaError(response.error_code, "ListGroups")
                await trio.sleep(backoff.next_ms() / 1000)
            check(response, "ListGroups")
            return [
                r.GroupListing(
                    g.group_id, g.protocol_type, g.group_state, g.group_type.capitalize(), node_id
                )
                for g in response.groups
            ]

        answers = await self._by_broker(None, ask)
        errors = answers.errors
        errors |= {b: e for b, e in reading.items() if isinstance(errors.get(b), RequestTimedOut)}
        listed = {g.group_id: g for groups in answers.ok.values() for g in groups}
        return r.ListedGroups(tuple(listed[group_id] for group_id in sorted(listed)), errors)

    async def describe_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> Answers[str, r.GroupDescription]:
        """Describe groups with their members: classic groups and, if the broker supports them,
        consumer, share and streams groups.

        The error of a group that does not exist is GROUP_ID_NOT_FOUND.
        """

        async def ask(connection: Connection, ids: list[str]) -> Answers[str, r.GroupDescription]:
            answers: Answers[str, r.GroupDescription] = Answers()
            for describe in (
                _describe_consumer,
                _describe_classic,
                _describe_share,
                _describe_streams,
            ):
                todo = [i for i in ids if i not in answers or _is_other_type(answers, i)]
                if todo:
                    described = await describe(connection, todo, include_authorized_operations)
                    answers.update(described)
            return answers

        return _named(await self._by_coordinator(group_ids, ask))

    async def delete_groups(self, group_ids: Iterable[str]) -> Answers[str, None]:
        """Delete empty groups with their offsets (DeleteGroups, KIP-229)."""
        from pk.core.wire.messages.delete_groups import DeleteGroupsRequest

        async def ask(connection: Connection, ids: list[str]) -> Answers[str, None]:
            response = await connection.request(DeleteGroupsRequest(groups_names=ids))
            return Answers((a.group_id, failure(a.error_code)) for a in response.results)

        return _named(await self._by_coordinator(group_ids, ask, changes=True))

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> Answers[TopicPartition, r.OffsetAndMetadata | None]:
        """Return the offsets that a group has committed for `partitions` (None: all) (OffsetFetch).
        A partition without a committed offset gets None.

        `require_stable` (2.5, KIP-447) makes partitions with the commit of an open transaction fail
        with UNSTABLE_OFFSET_COMMIT. Raises KafkaError for the whole group.
        """
        wanted = None if partitions is None else list(partitions)
        if wanted == []:
            return Answers()

        async def ask(connection: Connection) -> list[Any]:
            return await _fetch_offsets(connection, group_id, wanted, require_stable)

        topics = await self._one_group(group_id, ask, changes=False)
        answers: Answers[TopicPartition, r.OffsetAndMetadata | None] = Answers()
        for t in topics:
            for p in t.partitions:
                partition = TopicPartition(t.name, p.partition_index)
                if p.error_code:
                    answers.add(partition, KafkaError(p.error_code, str(partition)))
                elif p.committed_offset >= 0:
                    commit = r.OffsetAndMetadata(
                        p.committed_offset, p.committed_leader_epoch, p.metadata or ""
                    )
                    answers.add(partition, commit)
        return answers.of(sorted(answers) if wanted is None else wanted, lambda _: None)

    async def list_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> Answers[str, Answers[TopicPartition, r.OffsetAndMetadata]]:
        """List all committed offsets of each group (OffsetFetch): from brokers since 3.0 with one
        request per coordinator, from older brokers with one request per group."""

        async def ask(connection: Connection, ids: list[str]) -> _GroupsCommits:
            if connection.version_of(_OFFSET_FETCH, low=2, high=_NAMED_OFFSETS_MAX) >= 8:
                return await _fetch_offsets_of(connection, ids)
            answers: _GroupsCommits = Answers()
            for group_id in ids:
                try:
                    topics = await _fetch_offsets(connection, group_id, None, False)
                    answers.add(group_id, _commits(topics))
                except KafkaError as e:
                    answers.add(group_id, e)
            return answers

        return _named(await self._by_coordinator(group_ids, ask))

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, r.OffsetAndMetadata]
    ) -> Answers[TopicPartition, None]:
        """Commit offsets for a group without joining it (OffsetCommit). The group must be empty or
        new.

        If the group is active, every partition fails with UNKNOWN_MEMBER_ID.
        """
        from pk.core.wire.messages.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        if not offsets:
            return Answers()
        topics: list[OffsetCommitRequestTopic] = []
        for topic, indexes in by_topic(offsets).items():
            commits: list[OffsetCommitRequestPartition] = []
            for index in indexes:
                offset = offsets[TopicPartition(topic, index)]
                if offset.offset < 0:
                    raise ValueError(f"cannot commit offset {offset.offset}: offsets start at 0")
                commits.append(
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        committed_metadata=offset.metadata,
                    )
                )
            topics.append(OffsetCommitRequestTopic(name=topic, partitions=commits))
        request = OffsetCommitRequest(group_id=group_id, topics=topics)

        async def ask(connection: Connection) -> Answers[TopicPartition, None]:
            response = await connection.request(request, high=_NAMED_OFFSETS_MAX)
            answers: Answers[TopicPartition, None] = Answers(
                (TopicPartition(t.name, p.partition_index), failure(p.error_code))
                for t in response.topics
                for p in t.partitions
            )
            return _raise_if_moved(answers)

        return await self._one_group(group_id, ask)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, None]:
        """Delete a group's committed offsets for partitions (OffsetDelete, KIP-496, 2.4). Raises
        KafkaError for the whole group."""
        from pk.core.wire.messages.offset_delete import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )

        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)

        async def ask(connection: Connection) -> Answers[TopicPartition, None]:
            response = await connection.request(request)
            if response.error_code:
                raise _naming(KafkaError(response.error_code), group_id)
            return Answers(
                (TopicPartition(t.name, p.partition_index), failure(p.error_code))
                for t in response.topics
                for p in t.partitions
            )

        return await self._one_group(group_id, ask)

    async def remove_members(
        self, group_id: str, members: Iterable[r.MemberToRemove], *, reason: str | None = None
    ) -> Answers[r.MemberToRemove, None]:
        """Remove members from a group by instance id or member id (LeaveGroup, KIP-345).

        Brokers before 2.4 get one request per member, and only by member id. Raises KafkaError for
        the whole group.
        """
        from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

        leaving = list(dict.fromkeys(members))

        async def ask(connection: Connection) -> Answers[r.MemberToRemove, None]:
            by_instance = any(member.instance_id is not None for member in leaving)
            version = connection.version_of(_LEAVE_GROUP, low=3 if by_instance else 0)
            if version < 3:
                left: Answers[r.MemberToRemove, None] = Answers()
                for m in leaving:
                    left.add(m, await _leave_alone(connection, group_id, m, version))
                return left
            request = LeaveGroupRequest(group_id=group_id)
            for member in leaving:
                identity = MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.instance_id
                )
                if version >= 5:
                    identity.reason = reason
                request.members.append(identity)
            response = await connection.request(request, version=version)
            check(response, f"group {group_id!r}")
            codes = {(m.member_id, m.group_instance_id): m.error_code for m in response.members}
            return Answers(
                (m, failure(codes.get((m.member_id, m.instance_id), 0))) for m in leaving
            )

        return await self._one_group(group_id, ask)


_GroupsCommits = Answers[str, Answers[TopicPartition, r.OffsetAndMetadata]]


def _is_other_type(answers: Answers[str, Any], group_id: str) -> bool:
    error = answers.errors.get(group_id)
    return isinstance(error, KafkaError) and error.code in _NOT_THIS_TYPE


def _named(answers: Answers[str, V]) -> Answers[str, V]:
    """Return the same answers with the group's name in each error."""
    for group_id, error in answers.errors.items():
        if isinstance(error, KafkaError):
            answers.errors[group_id] = _naming(error, group_id)
    return answers


def _naming(error: KafkaError, group_id: str) -> KafkaError:
    if error.message is None or error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        gone = error.code == ErrorCode.GROUP_ID_NOT_FOUND
        suffix = " does not exist" if gone else ""
        return KafkaError(error.code, f"group {group_id!r}{suffix}")
    return error


def _raise_if_moved(
    answers: Answers[TopicPartition, None],
) -> Answers[TopicPartition, None]:
    """Raise the error if the coordinator has moved. Each partition has this error, but the whole
    request must be sent again."""
    for error in answers.errors.values():
        moved = isinstance(error, KafkaError) and error.code in (
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        )
        if moved:
            raise error
    return answers


async def _leave_alone(
    connection: Connection, group_id: str, member: r.MemberToRemove, version: int
) -> Failure | None:
    from pk.core.wire.messages.leave_group import LeaveGroupRequest

    request = LeaveGroupRequest(group_id=group_id, member_id=member.member_id)
    try:
        response = await connection.request(request, version=version)
    except FAILURES as e:
        return e
    return failure(response.error_code)


async def _fetch_offsets(
    connection: Connection,
    group_id: str,
    partitions: list[TopicPartition] | None,
    require_stable: bool,
) -> list[Any]:
    """Return the topics of an OffsetFetch response of any version. Raises KafkaError for the
    group."""
    from pk.core.wire.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

    low = 7 if require_stable else 2 if partitions is None else 1
    version = connection.version_of(_OFFSET_FETCH, low=low, high=_NAMED_OFFSETS_MAX)
    grouped = None if partitions is None else by_topic(partitions)
    request = OffsetFetchRequest()
    if require_stable:
        request.require_stable = True
    if version >= 8:
        topics = None
        if grouped is not None:
            topics = [
                OffsetFetchRequestTopics(name=t, partition_indexes=ps) for t, ps in grouped.items()
            ]
        request.groups = [OffsetFetchRequestGroup(group_id=group_id, topics=topics)]
        response = await connection.request(request, version=version)
        answer = response.groups[0]
    else:
        request.group_id = group_id
        request.topics = None
        if grouped is not None:
            request.topics = [
                OffsetFetchRequestTopic(name=t, partition_indexes=ps) for t, ps in grouped.items()
            ]
        response = answer = await connection.request(request, version=version)
    if answer.error_code:
        raise KafkaError(answer.error_code, f"group {group_id!r}")
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                raise KafkaError(partition.error_code, f"group {group_id!r}")
    return answer.topics


def _commits(topics: Any) -> Answers[TopicPartition, r.OffsetAndMetadata]:
    """Return the committed offsets in an OffsetFetch response."""
    found: Answers[TopicPartition, r.OffsetAndMetadata] = Answers()
    for t in topics:
        for p in t.partitions:
            tp = TopicPartition(t.name, p.partition_index)
            if p.error_code:
                found.add(tp, KafkaError(p.error_code, str(tp)))
            elif p.committed_offset >= 0:
                commit = r.OffsetAndMetadata(
                    p.committed_offset, p.committed_leader_epoch, p.metadata or ""
                )
                found.add(tp, commit)
    return found


async def _fetch_offsets_of(connection: Connection, ids: list[str]) -> _GroupsCommits:
    """Fetch all committed offsets of several groups that have the same coordinator."""
    from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    answers: _GroupsCommits = Answers()
    for at in range(0, len(ids), _GROUPS_A_REQUEST):
        groups = [
            OffsetFetchRequestGroup(group_id=group_id, topics=None)
            for group_id in ids[at : at + _GROUPS_A_REQUEST]
        ]
        request = OffsetFetchRequest(groups=groups)
        response = await connection.request(request, low=8, high=_NAMED_OFFSETS_MAX)
        for g in response.groups:
            answers.add(g.group_id, failure(g.error_code) or _commits(g.topics))
    return answers


async def _describe_consumer(
    connection: Connection, ids: list[str], operations: bool
) -> Answers[str, r.GroupDescription]:
    if not connection.serves(_CONSUMER_GROUP_DESCRIBE):
        return Answers()
    from pk.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    request = ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=operations)
    response = await connection.request(request)
    return Answers(
        (
            g.group_id,
            failure(g.error_code, g.error_message)
            or r.GroupDescription(
                g.group_id,
                "Consumer",
                g.group_state,
                CONSUMER_PROTOCOL,
                g.assignor_name,
                tuple(
                    r.MemberDescription(
                        m.member_id,
                        m.instance_id,
                        m.client_id,
                        m.client_host,
                        _partitions(m.assignment),
                        tuple(m.subscribed_topic_names),
                        m.subscribed_topic_regex or None,
                        m.rack_id,
                        m.member_epoch,
                        _partitions(m.target_assignment),
                        {0: True, 1: False}.get(m.member_type),
                    )
                    for m in g.members
                ),
                connection.node,
                g.group_epoch,
                g.assignment_epoch,
                g.authorized_operations,
            ),
        )
        for g in response.groups
    )


async def _describe_share(
    connection: Connection, ids: list[str], operations: bool
) -> Answers[str, r.GroupDescription]:
    if not connection.serves(_SHARE_GROUP_DESCRIBE, 1):
        return Answers()
    from pk.core.wire.messages.share_group_describe import ShareGroupDescribeRequest

    request = ShareGroupDescribeRequest(group_ids=ids, include_authorized_operations=operations)
    response = await connection.request(request)
    return Answers(
        (
            g.group_id,
            failure(g.error_code, g.error_message)
            or r.GroupDescription(
                g.group_id,
                "Share",
                g.group_state,
                "share",
                g.assignor_name,
                tuple(
                    r.MemberDescription(
                        m.member_id,
                        None,
                        m.client_id,
                        m.client_host,
                        _partitions(m.assignment),
                        tuple(m.subscribed_topic_names),
                        rack_id=m.rack_id,
                        member_epoch=m.member_epoch,
                    )
                    for m in g.members
                ),
                connection.node,
                g.group_epoch,
                g.assignment_epoch,
                g.authorized_operations,
            ),
        )
        for g in response.groups
    )


async def _describe_streams(
    connection: Connection, ids: list[str], operations: bool
) -> Answers[str, r.GroupDescription]:
    if not connection.serves(_STREAMS_GROUP_DESCRIBE):
        return Answers()
    from pk.net.client.streams_groups import describe_streams_groups

    return await describe_streams_groups(connection, ids, operations)


async def _describe_classic(
    connection: Connection, ids: list[str], operations: bool
) -> Answers[str, r.GroupDescription]:
    from pk.core.wire.messages.describe_groups import DescribeGroupsRequest

    request = DescribeGroupsRequest(groups=ids)
    version = connection.version_of(request.API_KEY)
    if version >= 3:
        request.include_authorized_operations = operations
    response = await connection.request(request, version=version)
    answers: Answers[str, r.GroupDescription] = Answers()
    for g in response.groups:
        if g.error_code:
            answers.add(g.group_id, KafkaError(g.error_code, g.error_message))
        elif g.group_state == "Dead" and not g.members:
            # Versions before 6 return this for a group that does not exist (KIP-1043).
            answers.add(g.group_id, KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))
        else:
            group = r.GroupDescription(
                g.group_id,
                "Classic",
                g.group_state,
                g.protocol_type,
                g.protocol_data,
                tuple(_classic_member(m, g.protocol_type) for m in g.members),
                connection.node,
                authorized_operations=g.authorized_operations,
            )
            answers.add(g.group_id, group)
    return answers


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(t.topic_name, p)
            for t in assignment.topic_partitions
            for p in t.partitions
        )
    )


def _classic_member(m: Any, protocol_type: str) -> r.MemberDescription:
    """Decode a member of a classic group. If its metadata is not in the consumers' format
    (Connect's, or malformed), the member counts as having no assignment."""
    from pk.core.group.consumer_protocol import decode_assignment, decode_subscription

    topics: tuple[str, ...] = ()
    rack_id = None
    assigned: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER_PROTOCOL:
        try:
            if m.member_metadata:
                subscription = decode_subscription(m.member_metadata)
                topics, rack_id = subscription.topics, subscription.rack
            if m.member_assignment:
                assigned = tuple(decode_assignment(m.member_assignment))
        except ProtocolError:
            pass
    return r.MemberDescription(
        m.member_id,
        m.group_instance_id,
        m.client_id,
        m.client_host,
        tuple(sorted(assigned)),
        topics,
        rack_id=rack_id,
    )
