"""DescribeProducers (61), version 0: the producers of partitions, and their sequences (KIP-664)."""

from pk.core.api.authorization import check
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


async def handle(context: Context, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Describe the producers of each partition. A repeated partition is described once: its index
    takes four bytes, its producers may be many."""
    response = DescribeProducersResponse()
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        answers: list[PartitionResponse] = []
        response.topics.append(TopicResponse(name=topic.name, partitions=answers))
        for index in topic.partition_indexes:
            await let_others_run()
            if (topic.name, index) in seen:
                continue
            seen.add((topic.name, index))
            answer = PartitionResponse(partition_index=index)
            answers.append(answer)
            try:
                check(context, Operation.READ, ResourceType.TOPIC, topic.name)
                partition = context.broker.data.replicas.partition(topic.name, index)
                partition.check_leader()
                producers = list(partition.log.state.producers)
            except KafkaError as e:
                answer.error_code, answer.error_message = e.code, e.message
                producers = []
            for state in producers:
                answer.active_producers.append(
                    ProducerState(
                        producer_id=state.producer_id,
                        producer_epoch=state.epoch,
                        last_sequence=state.last_sequence,
                        last_timestamp=state.timestamp,
                        coordinator_epoch=state.coordinator_epoch,
                        current_txn_start_offset=state.txn_first_offset,
                    )
                )
                await let_others_run()
    return response
