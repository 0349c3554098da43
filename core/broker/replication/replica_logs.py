"""Reports logs to the controller: those of partitions without a leader, since the replica with the
longest log leads next (core/meta/unclean_recovery.py), those that were found damaged, when the
broker started or while it runs, and those of followers that stopped, since the controller decides
whether they continue (log_reconciler.py).

This broker neither leads nor follows a partition without a leader, so the log does not change after
its report until another image arrives. Each log is reported once to each controller, in each
incarnation and leader epoch. A report that fails is sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import trio

from pk.core.broker.controller.controller_client import NodeToController
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.log.damaged import Damage
from pk.core.meta.image import Changes
from pk.core.values import NO_EPOCH, NO_LEADER, NO_OFFSET, TopicIdPartition, Uuid
from pk.core.wire.messages.pk_replica_logs import (
    PartitionResult,
    PkReplicaLogsRequest,
    PkReplicaLogsResponse,
    ReplicaLog,
    TopicLogs,
)

logger = logging.getLogger("pk.replication")

RETRY_S: Final = 0.1
TIMEOUT_MS: Final = 5_000
LOGS_MAX: Final = 2_000
"""The maximum number of logs in one request."""

FINAL: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
"""The controller accepted the report, or the report is out of date. In the latter case, the next
image shows that, and the broker reports again."""


class ReplicaLogs:
    """Reports logs. One for each broker."""

    def __init__(
        self, state: BrokerState, replicas: Replicas, controller_client: NodeToController
    ) -> None:
        self._state = state
        self._replicas = replicas
        self._controller_client = controller_client
        self._due: dict[TopicIdPartition, None] = {}
        self._reported: tuple[int, int] = (-1, -1)
        """The epochs of the controller and of this broker under which everything was reported."""
        self._more = trio.Event()
        self._damaged: set[TopicIdPartition] = set()
        """The partitions that the controller knows to have damaged segments."""

    async def follow(self, opened: Iterable[Partition], delta: Changes) -> None:
        """Report partitions without a leader in the image, which is current now."""
        now = (self._state.image.controller_epoch, self._state.broker_epoch)
        if now != self._reported:
            self._reported = now
            for partition in list(self._replicas):
                await let_others_run()
                self._add(partition)
                self._add_marked(partition)
        else:
            for partition in opened:
                await let_others_run()
                self._add(partition)
        unreadable = set(self._replicas.opener.unreadable())
        for change in delta.partitions:
            await let_others_run()
            partition = self._replicas.find(*change.tp)
            if partition is not None:
                self._add(partition)
            elif unreadable:
                key = TopicIdPartition(change.topic.topic_id, change.new.partition)
                if key in unreadable:
                    self._due[key] = None
        if self._due:
            self._more.set()

    def _add(self, partition: Partition) -> None:
        """Queue the report of a log if its partition has no leader, or it has damaged segments."""
        if partition.image is not None and (
            partition.leader == NO_LEADER or partition.log.damaged_segments
        ):
            self._due[TopicIdPartition(partition.topic_id, partition.tp.partition)] = None

    def _add_marked(self, partition: Partition) -> None:
        """Queue the report of a log that this broker found damaged at its start, which a new
        controller does not know yet. A replica in the ISR counts as undamaged again."""
        image = partition.image
        if partition.log.mark is not None and image and self._state.node_id not in image.isr:
            self._due[TopicIdPartition(partition.topic_id, partition.tp.partition)] = None

    async def report_damage(self) -> None:
        """Report damaged logs. This happens before this broker is unfenced, because it could
        otherwise be elected although it has lost records."""
        due: list[TopicIdPartition] = []
        for partition in list(self._replicas):
            await let_others_run()
            if partition.log.mark is not None:
                due.append(TopicIdPartition(partition.topic_id, partition.tp.partition))
        for start in range(0, len(due), LOGS_MAX):
            while not await self._report(due[start : start + LOGS_MAX]):  # noqa: ASYNC110
                await trio.sleep(RETRY_S)

    def changed(self, partition: Partition) -> None:
        """Report that a follower stopped, or that the log's damaged segments changed."""
        self._due[TopicIdPartition(partition.topic_id, partition.tp.partition)] = None
        self._more.set()

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            due = list(self._due)[:LOGS_MAX]
            for key in due:
                del self._due[key]
            if self._due:
                self._more.set()
            if not await self._report(due):
                self._due.update(dict.fromkeys(due))
                self._more.set()
                await trio.sleep(RETRY_S)

    async def _report(self, due: list[TopicIdPartition]) -> bool:
        """Send one request. Returns whether the controller has accepted all reports in `due`."""
        request = self._request(due)
        if not request.topics:
            return True
        try:
            answer: PkReplicaLogsResponse = await self._controller_client.request(
                request, timeout_ms=TIMEOUT_MS
            )
        except KafkaError as e:
            logger.info("%d logs could not be reported to the controller: %s", len(due), e)
            return False
        codes = {one.error_code for topic in answer.topics for one in topic.partitions}
        for requested, decided in zip(request.topics, answer.topics, strict=False):
            for log, result in zip(requested.partitions, decided.partitions, strict=False):
                if log.stopped and result.error_code == ErrorCode.NONE:
                    self._apply_decision(
                        TopicIdPartition(requested.topic_id, log.partition_index), log, result
                    )
        refused = [code for code in (answer.error_code, *codes) if code not in FINAL]
        if not refused:
            self._damaged.difference_update(due)
            self._damaged.update(
                TopicIdPartition(topic.topic_id, log.partition_index)
                for topic in request.topics
                for log in topic.partitions
                if log.damaged_segments
            )
        else:
            logger.info(
                "the controller refused the report of %d logs: %s", len(due), error_name(refused[0])
            )
        return not refused

    def _apply_decision(
        self, key: TopicIdPartition, log: ReplicaLog, result: PartitionResult
    ) -> None:
        """Apply the decision of the controller, which compared the log of a stopped follower with
        its leader's."""
        topic = self._state.image.topic_by_id(key.topic_id)
        partition = self._replicas.find(topic.name, key.partition) if topic is not None else None
        if partition is None or partition.leader_epoch != log.leader_epoch:
            return
        stopped = partition.stopped
        if stopped is None or stopped.cut_offset != log.cut_offset:
            return
        if result.why != stopped.why:
            action = (
                "the follower keeps a copy of these records, truncates its log, and continues"
                if result.may_cut
                else "the follower does not truncate its log, and remains stopped"
            )
            logger.error("%s: %s: %s", partition.tp, action, result.why)
        partition.stopped = stopped._replace(may_cut=result.may_cut, why=result.why)

    def _request(self, due: Iterable[TopicIdPartition]) -> PkReplicaLogsRequest:
        topics: dict[Uuid, TopicLogs] = {}
        for key in due:
            log = self._log(key)
            if log is not None:
                topic = topics.setdefault(key.topic_id, TopicLogs(topic_id=key.topic_id))
                topic.partitions.append(log)
        return PkReplicaLogsRequest(
            broker_id=self._state.node_id,
            broker_epoch=self._state.broker_epoch,
            topics=list(topics.values()),
        )

    def _log(self, key: TopicIdPartition) -> ReplicaLog | None:
        """Return the report on a log, or None if there is nothing left to report."""
        topic = self._state.image.topic_by_id(key.topic_id)
        known = topic.partition(key.partition) if topic is not None else None
        if topic is None or known is None:
            return None
        partition = self._replicas.find(topic.name, key.partition)
        if partition is None or partition.offline is not None:
            return ReplicaLog(
                partition_index=key.partition,
                leader_epoch=known.leader_epoch,
                damage=Damage.UNREADABLE,
            )
        if partition.image is None or partition.topic_id != key.topic_id:
            return None
        log = partition.log
        if (
            partition.leader != NO_LEADER
            and log.mark is None
            and not log.damaged_segments
            and partition.stopped is None
            and key not in self._damaged
        ):
            return None
        return describe_log(partition)


def describe_log(partition: Partition) -> ReplicaLog:
    """Return the report on a partition's log."""
    log, mark, stopped = partition.log, partition.log.mark, partition.stopped
    return ReplicaLog(
        partition_index=partition.tp.partition,
        leader_epoch=partition.leader_epoch,
        last_epoch=log.state.last_batch_epoch,
        end_offset=log.state.log_end_offset,
        start_offset=log.state.log_start_offset,
        high_watermark=max(
            partition.high_watermark, mark.high_watermark if mark is not None else NO_OFFSET
        ),
        damage=mark.damage if mark is not None else Damage.NONE,
        kept_bytes=log.kept_bytes if mark is not None else 0,
        stopped=stopped is not None,
        cut_offset=stopped.cut_offset if stopped is not None else NO_OFFSET,
        leader_end_offset=stopped.leader_end_offset if stopped is not None else NO_OFFSET,
        leader_last_epoch=stopped.leader_last_epoch if stopped is not None else NO_EPOCH,
        damaged_segments=len(log.damaged_segments),
    )
