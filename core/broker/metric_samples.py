"""A broker's current metrics, by Kafka's names: its counters, and metrics computed here.

With 50,000 partitions this takes a while, so it lets other tasks run.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from typing import Final

from pk.core.broker.broker import Broker
from pk.core.broker.broker_metrics import OTHER, TopicMetrics
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.remote.remote_log_manager import RemoteLogManager
from pk.core.broker.upkeep.retention import copies_to_remote
from pk.core.metrics import Metric, Sample
from pk.core.values import NO_LEADER

_TOPIC: Final = "kafka.server:type=BrokerTopicMetrics,name="
_REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
_SOCKETS: Final = "kafka.server:type=socket-server-metrics,name="

_OF_TOPICS: Final[tuple[tuple[str, str, Callable[[TopicMetrics], int]], ...]] = (
    ("MessagesInPerSec", "Records that clients wrote.", lambda t: t.messages_in),
    ("BytesInPerSec", "Bytes of record batches that clients wrote.", lambda t: t.bytes_in),
    ("BytesOutPerSec", "Bytes of record batches that consumers read.", lambda t: t.bytes_out),
    (
        "ReplicationBytesOutPerSec",
        "Bytes of record batches that followers read.",
        lambda t: t.replication_bytes_out,
    ),
    (
        "FailedProduceRequestsPerSec",
        "Record batches that were refused.",
        lambda t: t.failed_produce,
    ),
)


async def metrics_of(broker: Broker) -> list[Metric]:
    """Return all metrics of the broker."""
    found = [*_topics(broker), *_requests(broker), *_sockets(broker)]
    found += await _partitions(broker)
    if broker.cluster.controller is not None and broker.cluster.controller.active:
        found += await _cluster(broker)
    found += await _coordinators(broker)
    if broker.remote is not None:
        found += await _remote(broker, broker.remote)
    counted = broker.metrics
    found += [
        Metric(
            f"{_CONTROLLER}ActiveControllerCount",
            "gauge",
            "1 on the controller, 0 elsewhere.",
            [
                Sample(
                    int(broker.cluster.controller is not None and broker.cluster.controller.active)
                )
            ],
        ),
        Metric(
            f"{_REPLICAS}IsrShrinksPerSec",
            "counter",
            "Times that a partition lost an in-sync replica.",
            [Sample(counted.isr_shrinks.value)],
        ),
        Metric(
            f"{_REPLICAS}IsrExpandsPerSec",
            "counter",
            "Times that a replica became in sync again.",
            [Sample(counted.isr_expands.value)],
        ),
        Metric(
            f"{_REPLICAS}CommittedRecordsLackingPerSec",
            "counter",
            "Times that a leader lacked records that its follower knew to be committed.",
            [Sample(counted.committed_truncated.value)],
        ),
        Metric(
            "kafka.log:type=LogScrubber,name=ScrubbedBytesPerSec",
            "counter",
            "Bytes of closed segments that were checked for damage.",
            [Sample(counted.scrubbed_bytes.value)],
        ),
        Metric(
            "kafka.log:type=LogScrubber,name=DamagedSegmentsPerSec",
            "counter",
            "Closed segments that were found damaged.",
            [Sample(counted.damaged_segments.value)],
        ),
        Metric(
            "kafka.log:type=LogScrubber,name=ReplacedSegmentsPerSec",
            "counter",
            "Damaged segments that were replaced by the leader's.",
            [Sample(counted.replaced_segments.value)],
        ),
        Metric(
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
            "histogram",
            "How long syncs of logs take, in ms.",
            [Sample(counted.log_flush)],
        ),
        Metric(
            "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
            "gauge",
            ("The partitions, groups and other events that requests wait for."),
            [Sample(broker.purgatory.size)],
        ),
        Metric(
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
            "gauge",
            "Fetch sessions of clients and followers.",
            [Sample(len(broker.data.fetch_sessions))],
        ),
    ]
    return found


def _topics(broker: Broker) -> Iterator[Metric]:
    topics, image = broker.metrics.topics, broker.image
    for name in [name for name in topics if name not in image.topics and name != OTHER]:
        del topics[name]  # the topic was deleted
    for name, text, value in _OF_TOPICS:
        samples = [Sample(value(t), {"topic": topic}) for topic, t in topics.items()]
        yield Metric(_TOPIC + name, "counter", text, samples, ("topic",))


def _requests(broker: Broker) -> Iterator[Metric]:
    requests = list(broker.metrics.requests.values())
    name = "kafka.network:type=RequestMetrics,name="
    yield Metric(
        f"{name}RequestsPerSec",
        "counter",
        "Requests that were answered.",
        [Sample(r.total_time.count, {"request": r.name}) for r in requests],
        ("request",),
    )
    yield Metric(
        f"{name}TotalTimeMs",
        "histogram",
        "From a request's arrival until its answer is ready, in ms.",
        [Sample(r.total_time, {"request": r.name}) for r in requests],
        ("request",),
    )
    yield Metric(
        f"{name}ErrorsPerSec",
        "counter",
        "Requests that failed as a whole.",
        [
            Sample(counter.value, {"request": r.name, "error": error})
            for r in requests
            for error, counter in r.errors.items()
        ],
        ("request", "error"),
    )


def _sockets(broker: Broker) -> Iterator[Metric]:
    listeners = broker.metrics.listeners.items()
    yield Metric(
        f"{_SOCKETS}connection-count",
        "gauge",
        "Open connections.",
        [Sample(one.opened - one.closed, {"listener": name}) for name, one in listeners],
        ("listener",),
    )
    for name, text, value in (
        ("connection-creation-total", "Connections that were opened.", "opened"),
        ("connection-close-total", "Connections that have closed.", "closed"),
        (
            "failed-authentication-total",
            "Connections that failed to authenticate.",
            "failed_authentication",
        ),
    ):
        samples = [Sample(getattr(one, value), {"listener": name}) for name, one in listeners]
        yield Metric(_SOCKETS + name, "counter", text, samples, ("listener",))


async def _partitions(broker: Broker) -> list[Metric]:
    tally: Tally[str] = Tally()
    image = broker.image
    for partition in list(broker.data.replicas):
        tally["PartitionCount"] += 1
        tally["OfflineReplicaCount"] += partition.offline is not None
        log = partition.log
        tally["DamagedReplicaCount"] += log.mark is not None or bool(log.damaged_segments)
        tally["StoppedReplicaCount"] += partition.stopped is not None
        if partition.leads:
            known = image.partition(*partition.tp)
            in_sync = len(partition.isr)
            least = partition.config.min_insync_replicas
            tally["LeaderCount"] += 1
            tally["UnderReplicatedPartitions"] += known is not None and in_sync < len(
                known.replicas
            )
            tally["UnderMinIsrPartitionCount"] += in_sync < least
            tally["AtMinIsrPartitionCount"] += in_sync == least
        await let_others_run()
    return [
        Metric(_REPLICAS + name, "gauge", text, [Sample(tally[name])])
        for name, text in (
            ("PartitionCount", "Partitions that this broker holds."),
            ("LeaderCount", "Partitions that this broker leads."),
            ("UnderReplicatedPartitions", "Led partitions with replicas that are not in sync."),
            ("UnderMinIsrPartitionCount", "Led partitions with fewer than min.insync.replicas."),
            ("AtMinIsrPartitionCount", "Led partitions with exactly min.insync.replicas."),
            ("OfflineReplicaCount", "Replicas whose log directory has failed."),
            ("DamagedReplicaCount", "Replicas whose log is damaged."),
            ("StoppedReplicaCount", "Replicas that would have to truncate committed records."),
        )
    ]


async def _remote(broker: Broker, remote: RemoteLogManager) -> list[Metric]:
    """Return the metrics of remote storage: data copied, data read, and data due to be copied."""
    lag_bytes = lag_segments = 0
    for partition in list(broker.data.replicas):
        if partition.leads and partition.remote is not None and copies_to_remote(partition):
            due_bytes, due_segments = partition.remote.copy_lag(partition.log)
            lag_bytes += due_bytes
            lag_segments += due_segments
        await let_others_run()
    done = remote.metrics
    counters = (
        ("RemoteCopyBytesPerSec", "Bytes copied to remote storage.", done.copied_bytes),
        ("RemoteCopyErrorsPerSec", "Copies to remote storage that failed.", done.copy_errors),
        ("RemoteFetchBytesPerSec", "Bytes read from remote storage.", remote.fetched_bytes),
        (
            "RemoteDeleteErrorsPerSec",
            "Remote segments whose deletion was delayed.",
            done.delete_errors,
        ),
    )
    gauges = (
        ("RemoteCopyLagBytes", "Bytes that are waiting to be copied.", lag_bytes),
        ("RemoteCopyLagSegments", "Segments that are waiting to be copied.", lag_segments),
    )
    return [
        *(Metric(_TOPIC + name, "counter", text, [Sample(n)]) for name, text, n in counters),
        *(Metric(_TOPIC + name, "gauge", text, [Sample(n)]) for name, text, n in gauges),
    ]


async def _cluster(broker: Broker) -> list[Metric]:
    tally: Tally[str] = Tally()
    controller = broker.cluster.controller
    assert controller is not None
    image = controller.image
    tally["GlobalTopicCount"] = len(image.topics)
    for topic in list(image.topics.values()):
        for partition in topic.partitions:
            tally["GlobalPartitionCount"] += 1
            tally["OfflinePartitionsCount"] += partition.leader == NO_LEADER
            tally["PreferredReplicaImbalanceCount"] += partition.leader != partition.replicas[0]
            await let_others_run()
    tally["UncleanRecoveryPartitionsCount"] = len(controller.unclean_recovery.waiting)
    for node in image.brokers.values():
        tally["FencedBrokerCount" if node.fenced else "ActiveBrokerCount"] += 1
    return [
        Metric(_CONTROLLER + name, "gauge", text, [Sample(tally[name])])
        for name, text in (
            ("GlobalTopicCount", "Topics of the cluster."),
            ("GlobalPartitionCount", "Partitions of the cluster."),
            ("OfflinePartitionsCount", "Partitions without a leader."),
            (
                "UncleanRecoveryPartitionsCount",
                "Partitions without a leader until the logs of more replicas are known.",
            ),
            (
                "PreferredReplicaImbalanceCount",
                "Partitions whose leader is not their preferred replica.",
            ),
            ("ActiveBrokerCount", "Brokers that are in service."),
            ("FencedBrokerCount", "Brokers that are registered and not in service."),
        )
    ]


async def _coordinators(broker: Broker) -> list[Metric]:
    groups: Tally[tuple[str, str]] = Tally()
    transactions: Tally[str] = Tally()
    for coordinator in broker.groups.coordinators:
        if coordinator.is_active:
            for group in list(coordinator.machine.groups.values()):
                groups[group.type.value, group.state_name] += 1
                await let_others_run()
    for coordinator in broker.groups.transactions:
        if coordinator.is_active:
            for transaction in list(coordinator.machine.transactions.values()):
                transactions[transaction.state.kafka_name] += 1
                await let_others_run()
    return [
        Metric(
            "kafka.server:type=group-coordinator-metrics,name=group-count",
            "gauge",
            "Groups that this broker coordinates.",
            [
                Sample(count, {"protocol": protocol, "state": state})
                for (protocol, state), count in groups.items()
            ],
            ("protocol", "state"),
        ),
        Metric(
            "kafka.server:type=transaction-coordinator-metrics,name=transaction-count",
            "gauge",
            "Transactional ids that this broker coordinates.",
            [Sample(count, {"state": state}) for state, count in transactions.items()],
            ("state",),
        ),
    ]
