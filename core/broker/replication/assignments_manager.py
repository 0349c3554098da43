"""Reports the log directory of each replica on this broker to the controller (KIP-858).

The controller assigns replicas to brokers, not to directories. A broker with several directories
reports afterwards which one it chose, and reports again when a replica has moved. The heartbeat
reports failed directories (`Replicas.offline_directories`); from the assignments the controller
knows which replicas have failed with them. A broker with one directory has nothing to report,
unless it once had others: the controller waits for the replicas in those.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain
from typing import Final

import trio

from pk.core.broker.controller.controller_client import NodeToController
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.meta.directory_id import UNKNOWN_DIRECTORIES
from pk.core.meta.image import Changes
from pk.core.values import Uuid
from pk.core.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

logger = logging.getLogger("pk.replication")

RETRY_S: Final = 0.5
TIMEOUT_MS: Final = 5_000
PARTITIONS_MAX: Final = 2250
"""The maximum number of partitions in one request, as in Kafka's broker."""

FINAL: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""The errors that mean that this broker no longer has the replica."""


class AssignmentsManager:
    """Reports the assignments that the controller does not know yet."""

    def __init__(
        self, state: BrokerState, replicas: Replicas, controller_client: NodeToController
    ) -> None:
        self._state = state
        self._replicas = replicas
        self._controller_client = controller_client
        self._due: dict[Partition, None] = {}
        self._more = trio.Event()

    async def follow(self, opened: Iterable[Partition], delta: Changes) -> None:
        """Report replicas whose directory differs from that in the image, which is current now."""
        replicas = self._replicas
        changed = chain((p.tp for p in opened), (change.tp for change in delta.partitions))
        # An opened partition may be listed twice, which does no harm.
        for tp in changed:
            await let_others_run()
            partition = replicas.find(*tp)
            if partition is not None:
                self._compare(partition)

    def moved(self, partition: Partition) -> None:
        """Report a replica that has moved to another directory."""
        self._compare(partition)

    def _compare(self, partition: Partition) -> None:
        if self._is_due(partition):
            self._due[partition] = None
            self._more.set()

    def _is_due(self, partition: Partition) -> bool:
        image, node_id = partition.image, self._state.node_id
        replicas = self._replicas
        if image is None or node_id not in image.replicas:
            return False
        known = image.directory(node_id)
        if known in UNKNOWN_DIRECTORIES and len(replicas.directories) < 2:
            return False
        return (
            known != partition.log.log_dir.directory_id
            and replicas.find(*partition.tp) is partition
        )

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            due = [partition for partition in self._due if self._is_due(partition)]
            due, rest = due[:PARTITIONS_MAX], due[PARTITIONS_MAX:]
            self._due = dict.fromkeys(rest)
            if rest:
                self._more.set()
            if due and not await self._report(due):
                await trio.sleep(RETRY_S)
                for partition in due:
                    self._compare(partition)

    async def _report(self, due: list[Partition]) -> bool:
        """Send one request. Returns whether the controller has accepted it."""
        request = self._request(due)
        try:
            answer: AssignReplicasToDirsResponse = await self._controller_client.request(
                request, timeout_ms=TIMEOUT_MS
            )
        except KafkaError as e:
            logger.warning("could not report %d directories to the controller: %s", len(due), e)
            return False
        codes = {
            one.error_code
            for directory in answer.directories
            for topic in directory.topics
            for one in topic.partitions
        }
        refused = [code for code in (answer.error_code, *codes) if code and code not in FINAL]
        if refused:
            logger.warning(
                "the controller refused the report of %d directories: %s",
                len(due),
                error_name(refused[0]),
            )
        return not refused

    def _request(self, due: list[Partition]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, dict[Uuid, TopicData]] = {}
        for partition in due:
            topics = directories.setdefault(partition.log.log_dir.directory_id, {})
            topic = topics.setdefault(partition.topic_id, TopicData(topic_id=partition.topic_id))
            topic.partitions.append(PartitionData(partition_index=partition.tp.partition))
        return AssignReplicasToDirsRequest(
            broker_id=self._state.node_id,
            broker_epoch=self._state.broker_epoch,
            directories=[
                DirectoryData(id=directory, topics=list(topics.values()))
                for directory, topics in directories.items()
            ],
        )
