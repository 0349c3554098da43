"""Admin operations on the offsets of share groups (KIP-932)."""

from collections.abc import Iterable, Mapping
from typing import Any

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin_operations.base import AdminBase, Failure, by_topic, failure
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection


class ShareGroupOperations(AdminBase):
    """The part of `Admin` about the offsets of share groups."""

    async def list_share_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> Answers[str, Answers[TopicPartition, r.ShareGroupOffset]]:
        """List the position of each share group in the partitions that it has started to read, with
        one request per coordinator."""
        from pk.core.wire.messages.describe_share_group_offsets import (
            DescribeShareGroupOffsetsRequest,
            DescribeShareGroupOffsetsRequestGroup,
        )

        async def ask(
            connection: Connection, ids: list[str]
        ) -> Answers[str, Answers[TopicPartition, r.ShareGroupOffset]]:
            groups = [DescribeShareGroupOffsetsRequestGroup(group_id=i, topics=None) for i in ids]
            response = await connection.request(DescribeShareGroupOffsetsRequest(groups=groups))
            return Answers((group.group_id, _offsets(group)) for group in response.groups)

        return await self._by_coordinator(group_ids, ask)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> Answers[TopicPartition, None]:
        """Set the start offsets of a share group without members. Raises KafkaError for the whole
        group."""
        from pk.core.wire.messages.alter_share_group_offsets import (
            AlterShareGroupOffsetsRequest,
            AlterShareGroupOffsetsRequestPartition,
            AlterShareGroupOffsetsRequestTopic,
        )

        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=offsets[TopicPartition(name, index)]
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in by_topic(offsets).items()
            ],
        )

        async def ask(connection: Connection) -> Answers[TopicPartition, None]:
            response = await connection.request(request)
            if response.error_code:
                raise KafkaError(
                    response.error_code, response.error_message or f"share group {group_id!r}"
                )
            return Answers(
                (
                    TopicPartition(topic.topic_name, p.partition_index),
                    failure(p.error_code, p.error_message),
                )
                for topic in response.responses
                for p in topic.partitions
            )

        return await self._one_group(group_id, ask)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str]
    ) -> Answers[str, None]:
        """Delete the offsets of a share group without members for topics. Raises KafkaError for the
        whole group."""
        from pk.core.wire.messages.delete_share_group_offsets import (
            DeleteShareGroupOffsetsRequest,
            DeleteShareGroupOffsetsRequestTopic,
        )

        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
        )

        async def ask(connection: Connection) -> Answers[str, None]:
            response = await connection.request(request)
            if response.error_code:
                raise KafkaError(
                    response.error_code, response.error_message or f"share group {group_id!r}"
                )
            return Answers(
                (topic.topic_name, failure(topic.error_code, topic.error_message))
                for topic in response.responses
            )

        return await self._one_group(group_id, ask)


def _offsets(group: Any) -> Answers[TopicPartition, r.ShareGroupOffset] | Failure:
    """Return the offsets of one group."""
    if group.error_code:
        message = group.error_message or f"share group {group.group_id!r}"
        return KafkaError(group.error_code, message)
    found: Answers[TopicPartition, r.ShareGroupOffset] = Answers()
    for topic in group.topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.topic_name, p.partition_index)
            if p.error_code:
                found.add(tp, KafkaError(p.error_code, p.error_message or str(tp)))
            elif p.start_offset >= 0:
                lag = p.lag if p.lag >= 0 else None
                found.add(tp, r.ShareGroupOffset(p.start_offset, p.leader_epoch, lag=lag))
    return found
