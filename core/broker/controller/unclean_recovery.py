"""Compares the logs that brokers report, and elects leaders for the partitions that wait for one
(core/meta/unclean_recovery.py).

Reports are kept in memory only. A new controller has none, and every broker sends its reports to it
(core/broker/replication/replica_logs.py).
"""

from __future__ import annotations

import logging
from math import inf
from typing import Final

import trio

from pk.core.broker.controller.active_controller import (
    ActiveController,
    Decide,
    OffLoopDecision,
)
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.meta.image import MetadataImage
from pk.core.meta.partition_rules import effective
from pk.core.meta.unclean_recovery import AGGRESSIVE, Report, Verdict, recover
from pk.core.values import NO_LEADER, TopicIdPartition
from pk.core.wire.messages.pk_replica_logs import PkReplicaLogsRequest, PkReplicaLogsResponse

logger = logging.getLogger("pk.controller")

RETRY_S: Final = 1.0
"""The pause after a failed decision, in seconds."""
LOG_WAIT_S: Final = 2.0
"""A partition that waits longer than this, in seconds, is logged. Brokers that restart together
need some time."""
LOGGED_PARTITIONS_MAX: Final = 5
"""The number of partitions named in one log line."""


class UncleanRecovery:
    """Elects leaders from reported logs. One per controller; `run` is one of its duties."""

    def __init__(self, controller: ActiveController, state: BrokerState) -> None:
        self._controller = controller
        self._state = state
        self._reports: dict[TopicIdPartition, dict[int, Report]] = {}
        self._since: dict[TopicIdPartition, float] = {}
        """The time at which this controller first learned that the partition waits."""
        self._logged: dict[TopicIdPartition, Verdict] = {}
        self._changed = trio.Event()
        self.waiting: dict[TopicIdPartition, Verdict] = {}
        """The partitions that have no leader until more is known, with the reasons."""
        controller.commit_listeners.append(self._on_commit)

    def reports(self) -> dict[TopicIdPartition, dict[int, Report]]:
        """The current reports of logs."""
        return {key: dict(logs) for key, logs in self._reports.items()}

    def add_reports(self, request: PkReplicaLogsRequest, response: PkReplicaLogsResponse) -> None:
        """Keep the accepted reports of a broker's request, after the controller has decided about
        it."""
        if response.error_code:
            return
        for topic, answer in zip(request.topics, response.topics, strict=True):
            for log, result in zip(topic.partitions, answer.partitions, strict=True):
                key = TopicIdPartition(topic.topic_id, log.partition_index)
                if not result.error_code:
                    logs = self._reports.setdefault(key, {})
                    logs[request.broker_id] = Report(request.broker_epoch, log)
        self._changed.set()

    async def run(self) -> None:
        """Compare reported logs and elect leaders until cancelled."""
        self._reports.clear()
        self._since.clear()
        self._logged.clear()
        self.waiting = {}
        while True:
            with trio.CancelScope(deadline=self._next_deadline()):
                await self._changed.wait()
            self._changed = trio.Event()
            self._drop_outdated()
            if self._reports:
                await self._compare_logs()

    def timed_out(self) -> frozenset[TopicIdPartition]:
        """Return the partitions that have waited for `unclean.recovery.timeout.ms`."""
        now, timeout_s = trio.current_time(), self._timeout_s
        return frozenset(key for key, since in self._since.items() if now - since >= timeout_s)

    @property
    def _timeout_s(self) -> float:
        config = effective(self._controller.image, self._state.config)
        if config.unclean_recovery_strategy != AGGRESSIVE:
            return inf
        return config.unclean_recovery_timeout_ms / 1000

    def _next_deadline(self) -> float:
        """Return the next time at which something changes without news: a partition has waited long
        enough, or must be logged."""
        now = trio.current_time()
        waits = (self._timeout_s, LOG_WAIT_S)
        due = (self._since[key] + wait for key in self.waiting for wait in waits)
        return min((at for at in due if at > now), default=inf)

    def _on_commit(self, before: MetadataImage, image: MetadataImage) -> None:
        """React to a change of brokers, configs or leaders."""
        if not self._reports:
            return
        if (
            before.brokers is not image.brokers
            or before.topics_by_id is not image.topics_by_id
            or before.configs is not image.configs
        ):
            self._changed.set()

    def _drop_outdated(self) -> None:
        """Drop outdated reports: those of other leader epochs, and those of partitions with a
        leader, except if a follower has stopped, or is damaged and not in sync again, or a replica
        has damaged segments."""
        image = self._controller.image
        for key, logs in list(self._reports.items()):
            topic = image.topic_by_id(key.topic_id)
            partition = topic.partition(key.partition) if topic is not None else None
            if partition is None:
                del self._reports[key]
                continue
            for node, report in list(logs.items()):
                log, broker = report.log, image.brokers.get(node)
                if broker is None or broker.broker_epoch != report.broker_epoch:
                    del logs[node]
                elif node in partition.replicas and (
                    log.damaged_segments or (log.damage and node not in partition.isr)
                ):
                    continue
                elif log.leader_epoch < partition.leader_epoch or (
                    partition.leader != NO_LEADER and not log.stopped
                ):
                    del logs[node]
            if not logs:
                del self._reports[key]
        for known in (self._since, self._logged, self.waiting):
            for key in [key for key in known if key not in self._reports]:
                del known[key]

    async def _compare_logs(self) -> None:
        config = self._state.config

        def prepare() -> Decide[dict[TopicIdPartition, Verdict]]:
            reports, timed_out = self.reports(), self.timed_out()
            return lambda image: recover(image, reports, config, timed_out)

        try:
            verdicts = await self._controller.submit(OffLoopDecision(prepare))
        except KafkaError as e:
            logger.info("logs could not be compared: %s", e)
            await trio.sleep(RETRY_S)
            self._changed.set()
            return
        self.waiting = {k: v for k, v in verdicts.items() if v.leader == NO_LEADER}
        for key in self.waiting:
            self._since.setdefault(key, trio.current_time())
        self._log_elected(verdicts)
        self._log_waiting()

    def _log_elected(self, verdicts: dict[TopicIdPartition, Verdict]) -> None:
        elected: dict[Verdict, list[TopicIdPartition]] = {}
        for key, verdict in verdicts.items():
            if verdict.leader != NO_LEADER:
                elected.setdefault(verdict, []).append(key)
        for verdict, keys in elected.items():
            if not verdict.lossy:
                logger.info(
                    "%s: broker %d becomes leader, since its log is the longest",
                    self._names(keys), verdict.leader,
                )  # fmt: skip
                continue
            logger.error(
                "%s: broker %d becomes leader, and acknowledged records may be lost: %s",
                self._names(keys), verdict.leader, verdict.reason,
            )  # fmt: skip

    def _log_waiting(self) -> None:
        """Log the waiting partitions: once for each reason, in one line for all partitions with
        it."""
        now = trio.current_time()
        waiting: dict[Verdict, list[TopicIdPartition]] = {}
        for key, verdict in self.waiting.items():
            waits_s = now - self._since.get(key, now)
            if waits_s >= LOG_WAIT_S and self._logged.get(key) != verdict:
                self._logged[key] = verdict
                waiting.setdefault(verdict, []).append(key)
        for verdict, keys in waiting.items():
            brokers = " and ".join(map(str, verdict.awaited))
            waits = f" until the log of broker {brokers} is known" if brokers else ""
            logger.warning("%s: no leader%s: %s", self._names(keys), waits, verdict.reason)

    def _names(self, keys: list[TopicIdPartition]) -> str:
        topics = self._controller.image.topics_by_id
        names = [f"{topics[k.topic_id].name}-{k.partition}" for k in keys if k.topic_id in topics]
        more = (
            f" and {len(names) - LOGGED_PARTITIONS_MAX} more"
            if len(names) > LOGGED_PARTITIONS_MAX
            else ""
        )
        return ", ".join(names[:LOGGED_PARTITIONS_MAX]) + more
