"""Operations on injected faults in pk's brokers (`pk.faults.enable`), for tests. Apache Kafka has
none."""

from collections.abc import Iterable, Mapping
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.core.wire.messages.pk_faults import PkFaultsRequest, PkFaultsResponse
from pk.net.client.admin_operations.partitions import PartitionOperations
from pk.net.client.admin_operations.topics import TopicOperations
from pk.net.client.results import ElectionType

FAULTS_OFF = (
    "does not inject faults: only a broker of pk with pk.faults.enable=true in its config does"
)

AWAY_MS: Final = 300


class FaultOperations(TopicOperations, PartitionOperations):
    """Operations on the injected faults of brokers."""

    async def ask_faults(
        self, request: PkFaultsRequest, node_ids: Iterable[int] | None = None
    ) -> Mapping[int, PkFaultsResponse]:
        """Send one request about faults to brokers (None: all) and return their answers.

        Raises KafkaError: SECURITY_DISABLED if a broker does not inject faults, and the error of a
        broker that refuses the request.
        """
        if node_ids is None:
            await self._retry(lambda: self.cluster.refresh(()), "the cluster")
            node_ids = sorted(self.cluster.metadata.brokers)
        answers: dict[int, PkFaultsResponse] = {}
        for node_id in node_ids:
            try:
                answer = await self.cluster.request(request, node_id=node_id)
            except KafkaError as e:
                if e.code == ErrorCode.UNSUPPORTED_VERSION:
                    raise KafkaError(
                        ErrorCode.SECURITY_DISABLED, f"broker {node_id} {FAULTS_OFF}"
                    ) from None
                raise
            if answer.error_code:
                raise KafkaError(answer.error_code, answer.error_message)
            answers[node_id] = answer
        return answers

    async def move_leader(self, tp: TopicPartition, *, away_ms: int = AWAY_MS) -> int:
        """Make another in-sync replica the leader of a partition, and return its id. If there is no
        other, the leader resigns, leads again `away_ms` later, and -1 is returned.

        The order of the partition's replicas changes. Raises KafkaError: NOT_CONTROLLER if the only
        in-sync replica is not on the controller.
        """
        described = (await self.describe_topics([tp.topic])).value(tp.topic)
        found = next((p for p in described.partitions if p.partition == tp.partition), None)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp.topic}:{tp.partition}")
        others = [node for node in found.isr if node != found.leader_id]
        if not others:
            request = PkFaultsRequest(
                action="move-leader", topic=tp.topic, partition=tp.partition, delay_ms=away_ms
            )
            return (await self.ask_faults(request, [found.leader_id]))[found.leader_id].count
        order = [others[0], *(node for node in found.replicas if node != others[0])]
        (await self.alter_reassignments({tp: order})).value(tp)
        (await self.elect_leaders(ElectionType.PREFERRED, [tp])).value(tp)
        return others[0]
