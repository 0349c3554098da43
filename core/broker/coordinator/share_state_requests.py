"""The five requests to share coordinators, which have the same structure.

Each has a group, and share partitions as topics with partitions. The response has the same topics
and partitions, each partition with its own error. This module builds requests and responses, and
lets other tasks run if they are large.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from pk.core.broker.loop_time import let_others_run
from pk.core.errors import KafkaError
from pk.core.share.records import ShareKey
from pk.core.values import Uuid
from pk.core.wire.messages import delete_share_group_state as deleting
from pk.core.wire.messages import initialize_share_group_state as initializing
from pk.core.wire.messages import read_share_group_state as reading
from pk.core.wire.messages import read_share_group_state_summary as summarizing
from pk.core.wire.messages import write_share_group_state as writing

Fields = Mapping[str, Any]
"""The fields of a response for one share partition, except its number."""


class StateRequest(NamedTuple):
    """The classes of one of the five requests."""

    request: Callable[..., Any]
    topic: Callable[..., Any]
    response: Callable[..., Any]
    topic_result: Callable[..., Any]
    partition_result: Callable[..., Any]

    async def build_request(self, group_id: str, about: Mapping[ShareKey, Any]) -> Any:
        """Return the request about these share partitions, with the fields for each."""
        topics: dict[Uuid, list[Any]] = defaultdict(list)
        for key, requested in about.items():
            await let_others_run()
            topics[key.topic_id].append(requested)
        named = [
            self.topic(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ]
        return self.request(group_id=group_id, topics=named)

    async def build_response(
        self, request: Any, answer_one: Callable[[ShareKey, Any], Awaitable[Fields]]
    ) -> Any:
        """Return the response to a request, with the results of `answer_one` for one share
        partition after another. As in Kafka, a topic without partitions is left out, and everything
        is if no group is named."""
        results: list[Any] = []
        for topic in request.topics if request.group_id else ():
            partitions: list[Any] = []
            for requested in topic.partitions:
                key = ShareKey(request.group_id, topic.topic_id, requested.partition)
                fields = await answer_one(key, requested)
                partitions.append(self.partition_result(partition=requested.partition, **fields))
                await let_others_run()
            if partitions:
                results.append(self.topic_result(topic_id=topic.topic_id, partitions=partitions))
        return self.response(results=results)

    def error_response(self, request: Any, error: KafkaError, version: int) -> Any:
        """Return the response with the same error for every share partition."""
        return self.response(
            results=[
                self.topic_result(
                    topic_id=topic.topic_id,
                    partitions=[
                        self.partition_result(
                            partition=requested.partition,
                            error_code=error.code,
                            error_message=error.message,
                        )
                        for requested in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


INITIALIZE: Final = StateRequest(
    initializing.InitializeShareGroupStateRequest,
    initializing.InitializeStateData,
    initializing.InitializeShareGroupStateResponse,
    initializing.InitializeStateResult,
    initializing.PartitionResult,
)
READ: Final = StateRequest(
    reading.ReadShareGroupStateRequest,
    reading.ReadStateData,
    reading.ReadShareGroupStateResponse,
    reading.ReadStateResult,
    reading.PartitionResult,
)
WRITE: Final = StateRequest(
    writing.WriteShareGroupStateRequest,
    writing.WriteStateData,
    writing.WriteShareGroupStateResponse,
    writing.WriteStateResult,
    writing.PartitionResult,
)
DELETE: Final = StateRequest(
    deleting.DeleteShareGroupStateRequest,
    deleting.DeleteStateData,
    deleting.DeleteShareGroupStateResponse,
    deleting.DeleteStateResult,
    deleting.PartitionResult,
)
READ_SUMMARY: Final = StateRequest(
    summarizing.ReadShareGroupStateSummaryRequest,
    summarizing.ReadStateSummaryData,
    summarizing.ReadShareGroupStateSummaryResponse,
    summarizing.ReadStateSummaryResult,
    summarizing.PartitionResult,
)
