"""Sends requests to share coordinators on any broker, for group coordinators and for the leaders of
partitions (Kafka's persister).

The image determines the coordinator of a share partition: the broker that leads the partition of
`__share_group_state` for the share partition's key. The topic is created when it is first needed.
Requests about many share partitions are combined into one for each broker. A request that reaches a
broker that is not (or no longer) the coordinator is repeated until `TIMEOUT_S` has passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import trio

from pk.core.broker.coordinator.broker_links import BrokerLinks
from pk.core.broker.coordinator.share_coordinators import ShareCoordinators
from pk.core.broker.coordinator.share_state_requests import (
    DELETE,
    INITIALIZE,
    READ,
    READ_SUMMARY,
    WRITE,
    StateRequest,
)
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.peers import PeerLost
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.group.share.effects import InitializeShareState
from pk.core.meta.image import MetadataImage
from pk.core.share.batches import StateBatch
from pk.core.share.coordinator import ReadState, StateSummary
from pk.core.share.partition_state import StateWrite
from pk.core.share.records import ShareKey
from pk.core.values import NO_EPOCH, Uuid
from pk.core.wire.messages import delete_share_group_state as deleting
from pk.core.wire.messages import initialize_share_group_state as initializing
from pk.core.wire.messages import read_share_group_state as reading
from pk.core.wire.messages import read_share_group_state_summary as summarizing
from pk.core.wire.messages import write_share_group_state as writing

TIMEOUT_S: Final = 30.0
"""How long a request for a missing coordinator is repeated, in seconds."""
PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
"""The limits of the pause before a repeated request to a coordinator, in seconds; the pause doubles
each time."""
TIMEOUT_MS: Final = 10_000
"""The timeout of one request to another broker, in ms."""

RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The errors after which another broker is the coordinator, or will soon be."""

Partitions = Mapping[Uuid, frozenset[int]]


class StateResult(NamedTuple):
    """A coordinator's result for one share partition."""

    error: KafkaError | None
    answer: Any = None
    """The partition's part of the response; None with an error."""


class ShareStateClient:
    """Sends requests to share coordinators. One for each broker."""

    def __init__(
        self,
        state: BrokerState,
        coordinators: ShareCoordinators,
        links: BrokerLinks,
        purgatory: Purgatory,
    ) -> None:
        self._state = state
        self._coordinators = coordinators
        self._local_coordinators: dict[StateRequest, Callable[[Any], Awaitable[Any]]] = {
            INITIALIZE: coordinators.initialize,
            READ: coordinators.read,
            WRITE: coordinators.write,
            DELETE: coordinators.delete,
            READ_SUMMARY: coordinators.read_summary,
        }
        """The handlers of the requests, used if this broker is the coordinator."""
        self._links = links
        self._purgatory = purgatory

    def close(self) -> None:
        """Close the connections."""
        self._links.close()

    async def initialize(self, effect: InitializeShareState) -> tuple[Partitions, Partitions]:
        """Initialize the state of share partitions. Returns the initialized ones, and those that
        failed."""
        found = await self.initialize_all(effect)
        done: dict[Uuid, set[int]] = defaultdict(set)
        failed: dict[Uuid, set[int]] = defaultdict(set)
        for key, results in found.items():
            (done if results.error is None else failed)[key.topic_id].add(key.partition)
        return (
            {topic_id: frozenset(partitions) for topic_id, partitions in done.items()},
            {topic_id: frozenset(partitions) for topic_id, partitions in failed.items()},
        )

    async def initialize_all(self, effect: InitializeShareState) -> dict[ShareKey, StateResult]:
        """Like `initialize`, but return the result for each share partition."""
        about: dict[ShareKey, Any] = {}
        for topic_id, partition in _iter_partitions(effect.offsets):
            await let_others_run()
            about[ShareKey(effect.group_id, topic_id, partition)] = initializing.PartitionData(
                partition=partition,
                state_epoch=effect.state_epoch,
                start_offset=effect.offsets[topic_id][partition],
            )
        return await self._request(INITIALIZE, effect.group_id, about)

    async def read(self, key: ShareKey, leader_epoch: int) -> ReadState:
        """Return the stored state of a share partition. The leader's epoch fences earlier leaders.
        Raises KafkaError."""
        results = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        answer = await self._request_one(READ, key, results)
        return ReadState(
            answer.state_epoch,
            answer.start_offset,
            tuple(
                StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                for b in answer.state_batches
            ),
        )

    async def write(self, key: ShareKey, leader_epoch: int, write: StateWrite) -> None:
        """Store a change of a share partition's state. Raises KafkaError."""
        results = writing.PartitionData(
            partition=key.partition,
            state_epoch=write.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            state_batches=[writing.StateBatch(**batch._asdict()) for batch in write.batches],
        )
        await self._request_one(WRITE, key, results)

    async def delete(self, group_id: str, partitions: Partitions) -> dict[ShareKey, StateResult]:
        """Delete the state of share partitions."""
        about: dict[ShareKey, Any] = {}
        for topic_id, partition in _iter_partitions(partitions):
            await let_others_run()
            results = deleting.PartitionData(partition=partition)
            about[ShareKey(group_id, topic_id, partition)] = results
        return await self._request(DELETE, group_id, about)

    async def summaries(
        self, group_id: str, partitions: Partitions
    ) -> dict[ShareKey, StateSummary | KafkaError]:
        """Return the progress of delivery in share partitions."""
        about: dict[ShareKey, Any] = {}
        for topic_id, partition in _iter_partitions(partitions):
            await let_others_run()
            results = summarizing.PartitionData(partition=partition, leader_epoch=NO_EPOCH)
            about[ShareKey(group_id, topic_id, partition)] = results
        found = await self._request(READ_SUMMARY, group_id, about)
        return {
            key: StateSummary(
                results.answer.state_epoch,
                results.answer.leader_epoch,
                results.answer.start_offset,
                results.answer.delivery_complete_count,
            )
            if results.error is None
            else results.error
            for key, results in found.items()
        }

    # --- finding coordinators ---

    async def _request_one(self, kind: StateRequest, key: ShareKey, results: Any) -> Any:
        """Return the coordinator's result for one share partition. Raises KafkaError."""
        found = (await self._request(kind, key.group_id, {key: results}))[key]
        if found.error is not None:
            raise without_frames(found.error)
        return found.answer

    async def _request(
        self, kind: StateRequest, group_id: str, about: Mapping[ShareKey, Any]
    ) -> dict[ShareKey, StateResult]:
        """Send requests to the coordinators of all share partitions in `about`, and repeat those
        whose coordinator was missing."""
        found: dict[ShareKey, StateResult] = {}
        left: Mapping[ShareKey, Any] = about
        pause_s = PAUSE_S_MIN
        deadline = trio.current_time() + TIMEOUT_S
        while left:
            if self._coordinators.topic not in self._state.image.topics:
                await self._coordinators.create_topic()
            by_node: dict[int | None, dict[ShareKey, Any]] = defaultdict(dict)
            for key, results in left.items():
                await let_others_run()
                by_node[self._coordinator_of(key)][key] = results
            for node, results in by_node.items():
                found.update(await self._request_from(node, kind, group_id, results))
            left = {
                key: results
                for key, results in left.items()
                if (error := found[key].error) is not None and error.code in RETRIABLE
            }
            if left:
                if trio.current_time() + pause_s >= deadline:
                    break
                await self._purgatory.until(
                    lambda image=self._state.image: self._state.image is not image,
                    (MetadataImage,),
                    trio.current_time() + pause_s,
                )
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return found

    def _coordinator_of(self, key: ShareKey) -> int | None:
        number = self._coordinators.partition_of(key.coordinator_key)
        if number is None:
            return None
        led = self._state.leader_of(self._coordinators.topic, number)
        return None if led is None or led[0] < 0 else led[0]

    async def _request_from(
        self, node: int | None, kind: StateRequest, group_id: str, about: Mapping[ShareKey, Any]
    ) -> dict[ShareKey, StateResult]:
        found = dict.fromkeys(about, StateResult(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        if node is None:
            return found
        request = await kind.build_request(group_id, about)
        try:
            if node == self._state.node_id:
                response = await self._local_coordinators[kind](request)
            else:
                response = await self._links.request(node, request, timeout_ms=TIMEOUT_MS)
        except (PeerLost, KafkaError):
            return found
        answers = ((topic.topic_id, one) for topic in response.results for one in topic.partitions)
        for topic_id, answer in answers:
            await let_others_run()
            key = ShareKey(group_id, topic_id, answer.partition)
            if key in found:
                error = None
                if answer.error_code:
                    error = KafkaError(answer.error_code, answer.error_message or "")
                found[key] = StateResult(error, answer if error is None else None)
        return found


def _iter_partitions(partitions: Mapping[Uuid, Iterable[int]]) -> Iterator[tuple[Uuid, int]]:
    """Yield (topic id, partition) of each share partition, in order within a topic."""
    for topic_id, of_topic in partitions.items():
        for partition in sorted(of_topic):
            yield topic_id, partition
