"""Broker keys of groups, offsets, transactions and share groups (format: config_keys.py)."""

from typing import Final

COORDINATORS: Final = """
group.consumer.assignment.interval.ms INT 1000 valid=0.. dynamic=cluster
    ?

group.consumer.assignors LIST uniform,range
    ?

group.consumer.heartbeat.interval.ms INT 5000 valid=1..
    ?

group.consumer.max.assignment.interval.ms INT 15000 valid=0..
    ?

group.consumer.max.heartbeat.interval.ms INT 15000 valid=1..
    ?

group.consumer.max.session.timeout.ms INT 60000 valid=1..
    ?

group.consumer.max.size INT 2147483647 valid=1..
    ?

group.consumer.migration.policy STRING bidirectional valid=~DISABLED,DOWNGRADE,UPGRADE,BIDIRECTIONAL
    ?

group.consumer.min.assignment.interval.ms INT 0 valid=0..
    ?

group.consumer.min.heartbeat.interval.ms INT 5000 valid=1..
    ?

group.consumer.min.session.timeout.ms INT 45000 valid=1..
    ?

group.consumer.session.timeout.ms INT 45000 valid=1..
    ?

group.coordinator.append.linger.ms INT -1 valid=-1..
    ?

group.coordinator.background.threads INT 2 valid=1..
    ?

group.coordinator.cached.buffer.max.bytes INT 1048588 valid=524288.. dynamic=cluster
    ?

group.coordinator.rebalance.protocols LIST classic,consumer,streams valid=*consumer,classic,share,streams
    ?

group.coordinator.threads INT 4 valid=1..
    ?

group.initial.rebalance.delay.ms INT 3000
    ?

group.max.session.timeout.ms INT 1800000
    ?

group.max.size INT 2147483647 valid=1..
    ?

group.min.session.timeout.ms INT 6000
    ?

group.share.assignment.interval.ms INT 1000 valid=0.. dynamic=cluster
    ?

group.share.assignors LIST simple
    ?

group.share.delivery.count.limit INT 5 valid=2..10
    ?

group.share.heartbeat.interval.ms INT 5000 valid=1..
    ?

group.share.max.assignment.interval.ms INT 15000 valid=0..
    ?

group.share.max.delivery.count.limit INT 10 valid=5..25
    ?

group.share.max.heartbeat.interval.ms INT 15000 valid=1..
    ?

group.share.max.partition.max.record.locks INT 4000 valid=2000..10000
    ?

group.share.max.record.lock.duration.ms INT 60000 valid=30000..3600000
    ?

group.share.max.session.timeout.ms INT 60000 valid=1..
    ?

group.share.max.share.sessions INT 2000 valid=1..
    ?

group.share.max.size INT 200 valid=1..1000
    ?

group.share.min.assignment.interval.ms INT 0 valid=0..
    ?

group.share.min.delivery.count.limit INT 2 valid=2..5
    ?

group.share.min.heartbeat.interval.ms INT 5000 valid=1..
    ?

group.share.min.partition.max.record.locks INT 100 valid=100..2000
    ?

group.share.min.record.lock.duration.ms INT 15000 valid=1000..30000
    ?

group.share.min.session.timeout.ms INT 45000 valid=1..
    ?

group.share.partition.max.record.locks INT 2000 valid=100..10000
    ?

group.share.record.lock.duration.ms INT 30000 valid=1000..3600000
    ?

group.share.session.timeout.ms INT 45000 valid=1..
    ?

group.streams.assignment.interval.ms INT 1000 valid=0.. dynamic=cluster
    ?

group.streams.heartbeat.interval.ms INT 5000 valid=1..
    ?

group.streams.initial.rebalance.delay.ms INT 3000 valid=0..
    ?

group.streams.max.assignment.interval.ms INT 15000 valid=0..
    ?

group.streams.max.heartbeat.interval.ms INT 15000 valid=1..
    ?

group.streams.max.session.timeout.ms INT 60000 valid=1..
    ?

group.streams.max.size INT 2147483647 valid=1..
    ?

group.streams.max.standby.replicas INT 2 valid=0..
    ?

group.streams.min.assignment.interval.ms INT 0 valid=0..
    ?

group.streams.min.heartbeat.interval.ms INT 5000 valid=1..
    ?

group.streams.min.session.timeout.ms INT 45000 valid=1..
    ?

group.streams.num.standby.replicas INT 0 valid=0..
    ?

group.streams.session.timeout.ms INT 45000 valid=1..
    ?

offset.metadata.max.bytes INT 4096
    ?

offsets.commit.timeout.ms INT 5000 valid=1..
    ?

offsets.load.buffer.size INT 5242880 valid=1..
    ?

offsets.retention.check.interval.ms LONG 600000 valid=1..
    ?

offsets.retention.minutes INT 10080 valid=1..
    ?

offsets.topic.compression.codec INT 0
    ?

offsets.topic.num.partitions INT 50 valid=1..
    ?

offsets.topic.replication.factor SHORT 3 valid=1..
    ?

offsets.topic.segment.bytes INT 104857600 valid=1..
    ?

producer.id.expiration.ms INT 86400000 valid=1.. dynamic=cluster
    ?

share.coordinator.append.linger.ms INT -1 valid=-1..
    ?

share.coordinator.cached.buffer.max.bytes INT 1048588 valid=524288.. dynamic=cluster
    ?

share.coordinator.load.buffer.size INT 5242880 valid=1..
    ?

share.coordinator.snapshot.update.records.per.snapshot INT 500 valid=0..500
    ?

share.coordinator.state.topic.compression.codec INT 0
    ?

share.coordinator.state.topic.min.isr SHORT 2 valid=1..
    ?

share.coordinator.state.topic.num.partitions INT 50 valid=1..
    ?

share.coordinator.state.topic.replication.factor SHORT 3 valid=1..
    ?

share.coordinator.state.topic.segment.bytes INT 104857600 valid=1..
    ?

share.coordinator.threads INT 1 valid=1..
    ?

share.coordinator.write.timeout.ms INT 5000 valid=1..
    ?

share.fetch.purgatory.purge.interval.requests INT 1000
    ?

transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 valid=1..
    ?

transaction.max.timeout.ms INT 900000 valid=1..
    ?

transaction.partition.verification.enable BOOLEAN true dynamic=cluster
    ?

transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 valid=1..
    ?

transaction.state.log.load.buffer.size INT 5242880 valid=1..
    ?

transaction.state.log.min.isr INT 2 valid=1..
    ?

transaction.state.log.num.partitions INT 50 valid=1..
    ?

transaction.state.log.replication.factor SHORT 3 valid=1..
    ?

transaction.state.log.segment.bytes INT 104857600 valid=1..
    ?

transaction.two.phase.commit.enable BOOLEAN false
    ?

transactional.id.expiration.ms INT 604800000 valid=1..
    ?
"""
