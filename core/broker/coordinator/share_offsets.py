"""Describes, sets and deletes the progress of share groups in their topics.

The group's coordinator knows the share partitions, and their share coordinators know the progress
of delivery. Therefore each of these operations takes two or three steps. The coordinator first logs
what it will do, and finally that it is done. After a failure the next coordinator finds this in the
log, and repeating a step does no harm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pk.core.broker.coordinator.broker_links import BrokerLinks
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.coordinator.share_state_client import Partitions, ShareStateClient
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.peers import PeerLost
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.share.effects import InitializeShareState
from pk.core.share.coordinator import UNINITIALIZED, UNKNOWN_COUNT, StateSummary
from pk.core.share.records import ShareKey
from pk.core.values import LATEST_TIMESTAMP, NO_OFFSET, TopicPartition, Uuid
from pk.core.wire.messages import alter_share_group_offsets as altering
from pk.core.wire.messages import delete_share_group_offsets as deleting
from pk.core.wire.messages import describe_share_group_offsets as describing
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

UNKNOWN_LAG: Final = -1
TIMEOUT_MS: Final = 10_000
"""The timeout of one request to a leader, in ms."""

_NO_PARTITION: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "This server does not host this topic-partition.",
)


class ShareOffsets:
    """The offsets of share groups. One for each broker."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        groups: GroupCoordinators,
        share_state_client: ShareStateClient,
        links: BrokerLinks,
    ) -> None:
        """`links` connect to the leaders of partitions, which know the ends of their logs."""
        self._state = state
        self._replicas = replicas
        self._groups = groups
        self._share_state_client = share_state_client
        self._links = links

    def close(self) -> None:
        """Close the connections."""
        self._links.close()

    # --- describe ---

    async def describe(
        self, results: describing.DescribeShareGroupOffsetsRequestGroup
    ) -> describing.DescribeShareGroupOffsetsResponseGroup:
        """Describe one group of a DescribeShareGroupOffsets request. Raises KafkaError, the error
        of this group."""
        group_id = results.group_id
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        known: Partitions = await self._groups.submit(
            group_id, lambda machine, _, now_ms: machine.share_partitions(group_id, now_ms)
        )
        image = self._state.image
        answer = describing.DescribeShareGroupOffsetsResponseGroup(group_id=group_id)
        wanted: dict[Uuid, set[int]] = defaultdict(set)
        if results.topics is None:
            for topic_id, partitions in known.items():
                if topic_id in image.topics_by_id:
                    wanted[topic_id].update(partitions)
        else:
            for topic in results.topics:
                await let_others_run()
                found = image.topics.get(topic.topic_name)
                if found is None:
                    answer.topics.append(_unknown_topic(topic))
                else:
                    wanted[found.topic_id].update(topic.partitions)
        summaries = await self._share_state_client.summaries(
            group_id,
            {t: known.get(t, frozenset()) & partitions for t, partitions in wanted.items()},
        )
        ends = await self._high_watermarks(
            TopicPartition(image.topics_by_id[key.topic_id].name, key.partition)
            for key, found in summaries.items()
            if isinstance(found, StateSummary) and found.start_offset != NO_OFFSET
        )
        for topic_id, partitions in wanted.items():
            await let_others_run()
            name = image.topics_by_id[topic_id].name
            answer.topics.append(
                describing.DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=topic_id,
                    partitions=[
                        _described(
                            number,
                            summaries.get(ShareKey(group_id, topic_id, number), UNINITIALIZED),
                            ends.get(TopicPartition(name, number)),
                        )
                        for number in sorted(partitions)
                    ],
                )
            )
        return answer

    async def _high_watermarks(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Return the high watermark of each partition, from its leader."""
        found: dict[TopicPartition, int | KafkaError] = {}
        elsewhere: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in partitions:
            await let_others_run()
            replica = self._replicas.find(tp.topic, tp.partition)
            if replica is not None and replica.leads and replica.offline is None:
                found[tp] = replica.high_watermark
                continue
            found[tp] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            led = self._state.leader_of(tp.topic, tp.partition)
            if led is not None and led[0] not in (-1, self._state.node_id):
                elsewhere[led[0]].append(tp)
        for node, tps in elsewhere.items():
            try:
                found.update(await self._request_high_watermarks(node, tps))
            except (PeerLost, KafkaError):
                continue
        return found

    async def _request_high_watermarks(
        self, node: int, tps: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | KafkaError]:
        topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for topic, number in tps:
            await let_others_run()
            topics[topic].append(
                ListOffsetsPartition(partition_index=number, timestamp=LATEST_TIMESTAMP)
            )
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=name, partitions=ps) for name, ps in topics.items()],
        )
        response = await self._links.request(node, request, timeout_ms=TIMEOUT_MS)
        answers = ((topic.name, one) for topic in response.topics for one in topic.partitions)
        return {
            TopicPartition(name, one.partition_index): KafkaError(one.error_code)
            if one.error_code
            else one.offset
            for name, one in answers
        }

    # --- alter ---

    async def alter(
        self, request: altering.AlterShareGroupOffsetsRequest
    ) -> altering.AlterShareGroupOffsetsResponse:
        """Handle AlterShareGroupOffsets. Raises KafkaError, the error of the whole request."""
        group_id = request.group_id
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
        image = self._state.image
        offsets: dict[Uuid, dict[int, int]] = defaultdict(dict)
        for topic in request.topics:
            found = image.topics.get(topic.topic_name)
            for partition in topic.partitions:
                index = partition.partition_index
                await let_others_run()
                if found is not None and found.partition(index) is not None:
                    offsets[found.topic_id][index] = partition.start_offset
        effects: list[InitializeShareState] = await self._groups.submit(
            group_id,
            lambda machine, _, now_ms: machine.alter_share_offsets(group_id, offsets, now_ms),
        )
        errors: dict[tuple[Uuid, int], KafkaError] = {}
        for effect in effects:
            errors.update(await self._carry_out(effect))
        response = altering.AlterShareGroupOffsetsResponse()
        for topic in request.topics:
            found = image.topics.get(topic.topic_name)
            answer = altering.AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
            response.responses.append(answer)
            if found is not None:
                answer.topic_id = found.topic_id
            for partition in topic.partitions:
                index = partition.partition_index
                one = altering.AlterShareGroupOffsetsResponsePartition(partition_index=index)
                answer.partitions.append(one)
                await let_others_run()
                if found is None or found.partition(index) is None:
                    one.error_code, one.error_message = _NO_PARTITION
                elif (error := errors.get((found.topic_id, index))) is not None:
                    one.error_code, one.error_message = error.code, error.message or None
        return response

    async def _carry_out(self, effect: InitializeShareState) -> dict[tuple[Uuid, int], KafkaError]:
        """Set new start offsets of share partitions, and report them to the group's coordinator.
        Returns errors by partition."""
        done: dict[Uuid, set[int]] = defaultdict(set)
        failed: dict[Uuid, set[int]] = defaultdict(set)
        errors: dict[tuple[Uuid, int], KafkaError] = {}
        for key, results in (await self._share_state_client.initialize_all(effect)).items():
            if results.error is None:
                done[key.topic_id].add(key.partition)
            else:
                failed[key.topic_id].add(key.partition)
                errors[key.topic_id, key.partition] = results.error
        await self._groups.submit(
            effect.group_id,
            lambda machine, _, now_ms: machine.share_initialized(
                effect.group_id, _frozen(done), _frozen(failed), now_ms
            ),
        )
        return errors

    # --- delete ---

    async def delete(
        self, request: deleting.DeleteShareGroupOffsetsRequest
    ) -> deleting.DeleteShareGroupOffsetsResponse:
        """Handle DeleteShareGroupOffsets. Raises KafkaError, the error of the whole request."""
        group_id = request.group_id
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
        image = self._state.image
        topic_ids = [
            found.topic_id
            for topic in request.topics
            if (found := image.topics.get(topic.topic_name)) is not None
        ]
        partitions: Partitions = await self._groups.submit(
            group_id,
            lambda machine, _, now_ms: machine.delete_share_offsets(group_id, topic_ids, now_ms),
        )
        errors = await self._delete_state(group_id, partitions)
        response = deleting.DeleteShareGroupOffsetsResponse()
        for topic in request.topics:
            await let_others_run()
            found = image.topics.get(topic.topic_name)
            answer = deleting.DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
            response.responses.append(answer)
            if found is None:
                answer.error_code, answer.error_message = _NO_PARTITION
            elif found.topic_id not in partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.error_message = "There is no offset information to delete."
            else:
                answer.topic_id = found.topic_id
                if (error := errors.get(found.topic_id)) is not None:
                    answer.error_code, answer.error_message = error.code, error.message or None
        return response

    async def delete_group(self, group_id: str) -> None:
        """Delete the state of a share group's partitions, before the group is deleted. Does nothing
        for a group of another type, or that does not exist. Raises KafkaError if the group must not
        be deleted."""
        partitions: Partitions = await self._groups.submit(
            group_id, lambda machine, _, now_ms: machine.begin_delete_share_group(group_id, now_ms)
        )
        for error in (await self._delete_state(group_id, partitions)).values():
            raise error

    async def _delete_state(self, group_id: str, partitions: Partitions) -> dict[Uuid, KafkaError]:
        """Delete the state of share partitions, and report this to the group's coordinator. Returns
        errors by topic."""
        if not partitions:
            return {}
        found = await self._share_state_client.delete(group_id, partitions)
        errors = {
            key.topic_id: results.error
            for key, results in found.items()
            if results.error is not None
        }
        deleted = [topic_id for topic_id in partitions if topic_id not in errors]
        await self._groups.submit(
            group_id, lambda machine, _, now_ms: machine.share_deleted(group_id, deleted, now_ms)
        )
        return errors


def _frozen(partitions: Mapping[Uuid, set[int]]) -> dict[Uuid, frozenset[int]]:
    return {topic_id: frozenset(found) for topic_id, found in partitions.items()}


def _unknown_topic(
    results: describing.DescribeShareGroupOffsetsRequestTopic,
) -> describing.DescribeShareGroupOffsetsResponseTopic:
    return describing.DescribeShareGroupOffsetsResponseTopic(
        topic_name=results.topic_name,
        partitions=[_described(number, UNINITIALIZED, None) for number in results.partitions],
    )


def _described(
    number: int, summary: StateSummary | KafkaError, end: int | KafkaError | None
) -> describing.DescribeShareGroupOffsetsResponsePartition:
    """Return the description of one share partition, whose log ends at `end`."""
    partition = describing.DescribeShareGroupOffsetsResponsePartition(
        partition_index=number, start_offset=NO_OFFSET, lag=UNKNOWN_LAG
    )
    error = summary if isinstance(summary, KafkaError) else None
    if isinstance(summary, StateSummary):
        partition.start_offset = summary.start_offset
        partition.leader_epoch = summary.leader_epoch
        if summary.start_offset != NO_OFFSET and isinstance(end, KafkaError):
            error = end
        elif isinstance(end, int) and summary.delivery_complete_count != UNKNOWN_COUNT:
            partition.lag = end - summary.start_offset - summary.delivery_complete_count
    if error is not None:
        partition.error_code, partition.error_message = error.code, error.message or None
    return partition
