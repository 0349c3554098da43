"""Broker keys of the server itself: identity, listeners, limits, replication, metrics (format: config_keys.py)."""

from typing import Final

BROKER: Final = """
add.partitions.to.txn.retry.backoff.max.ms INT 100 valid=0..
    ?

add.partitions.to.txn.retry.backoff.ms INT 20 valid=1..
    ?

advertised.listeners LIST null
    ?

alter.config.policy.class.name CLASS null
    ?

alter.log.dirs.replication.quota.window.num INT 11 valid=1..
    ?

alter.log.dirs.replication.quota.window.size.seconds INT 1 valid=1..
    ?

auto.create.topics.enable BOOLEAN true
    ?

auto.leader.rebalance.enable BOOLEAN true
    ?

background.threads INT 10 valid=1.. dynamic=cluster
    ?

broker.heartbeat.interval.ms INT 2000
    ?

broker.id INT -1
    ?

broker.rack STRING null
    ?

broker.session.timeout.ms INT 9000
    ?

client.quota.callback.class CLASS null
    ?

config.providers LIST "" dynamic=cluster
    ?

connections.max.idle.ms LONG 600000
    ?

controlled.shutdown.enable BOOLEAN true
    ?

controller.quota.window.num INT 11 valid=1..
    ?

controller.quota.window.size.seconds INT 1 valid=1..
    ?

controller.socket.timeout.ms INT 30000
    ?

create.topic.policy.class.name CLASS null
    ?

default.replication.factor INT 1
    ?

delete.records.purgatory.purge.interval.requests INT 1
    ?

delete.topic.enable BOOLEAN true
    ?

early.start.listeners LIST null
    ?

fetch.max.bytes INT 57671680 valid=1024..
    ?

fetch.purgatory.purge.interval.requests INT 1000
    ?

initial.broker.registration.timeout.ms INT 60000
    ?

inter.broker.listener.name STRING null
    ?

kafka.metrics.polling.interval.secs INT 10 valid=1..
    ?

kafka.metrics.reporters LIST ""
    ?

leader.imbalance.check.interval.seconds LONG 300 valid=1..
    ?

listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT dynamic=broker
    ?

listeners LIST PLAINTEXT://:9092 dynamic=broker
    ?

max.connection.creation.rate INT 2147483647 valid=0.. dynamic=cluster
    ?

max.connections INT 2147483647 valid=0.. dynamic=cluster
    ?

max.connections.per.ip INT 2147483647 valid=0.. dynamic=cluster
    ?

max.connections.per.ip.overrides STRING "" dynamic=cluster
    ?

max.incremental.fetch.session.cache.slots INT 1000 valid=0..
    ?

max.request.partition.size.limit INT 2000 valid=1..
    ?

metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter dynamic=cluster
    ?

metrics.num.samples INT 2 valid=1..
    ?

metrics.recording.level STRING INFO
    ?

metrics.sample.window.ms LONG 30000 valid=1..
    ?

node.id INT required valid=0..
    ?

num.io.threads INT 8 valid=1.. dynamic=cluster
    ?

num.network.threads INT 3 valid=1.. dynamic=cluster
    ?

num.partitions INT 1 valid=1..
    ?

num.replica.alter.log.dirs.threads INT null
    ?

num.replica.fetchers INT 1 valid=1.. dynamic=cluster
    ?

producer.purgatory.purge.interval.requests INT 1000
    ?

queued.max.request.bytes LONG -1
    ?

queued.max.requests INT 500 valid=1..
    ?

quota.window.num INT 11 valid=1..
    ?

quota.window.size.seconds INT 1 valid=1..
    ?

replica.fetch.backoff.ms INT 1000 valid=0..
    ?

replica.fetch.max.bytes INT 1048576 valid=0..
    ?

replica.fetch.min.bytes INT 1
    ?

replica.fetch.response.max.bytes INT 10485760 valid=0..
    ?

replica.fetch.wait.max.ms INT 500
    ?

replica.high.watermark.checkpoint.interval.ms LONG 5000
    ?

replica.lag.time.max.ms LONG 30000
    ?

replica.selector.class STRING null
    ?

replica.socket.receive.buffer.bytes INT 65536
    ?

replica.socket.timeout.ms INT 30000
    ?

replication.quota.window.num INT 11 valid=1..
    ?

replication.quota.window.size.seconds INT 1 valid=1..
    ?

request.timeout.ms INT 30000
    ?

socket.connection.setup.timeout.max.ms LONG 30000
    ?

socket.connection.setup.timeout.ms LONG 10000
    ?

socket.listen.backlog.size INT 50 valid=1..
    ?

socket.receive.buffer.bytes INT 102400
    ?

socket.request.max.bytes INT 104857600 valid=1..
    ?

socket.send.buffer.bytes INT 102400
    ?

telemetry.max.bytes INT 1048576 valid=1..
    ?
"""


OWN: Final = """
pk.connection.max.parked INT 100 valid=1..
    ?

pk.loop.slice.us INT 1000 valid=1..
    ?

pk.memory.bytes.max LONG 1073741824 valid=1..
    ?

pk.metadata.log.bytes.between.snapshots LONG 20971520 valid=1..
    ?

pk.metadata.store STRING embedded valid=embedded
    ?

pk.request.bytes.max LONG 268435456 valid=1..
    ?
"""
"""Keys of ours: what Kafka has no word for."""

DYNAMIC_ONLY: Final = """
follower.replication.throttled.rate LONG 9223372036854775807 valid=0.. dynamic=cluster
    ?

leader.replication.throttled.rate LONG 9223372036854775807 valid=0.. dynamic=cluster
    ?

replica.alter.log.dirs.io.max.bytes.per.second LONG 9223372036854775807 valid=0.. dynamic=cluster
    ?
"""
"""Keys that only the cluster sets, never a file."""
