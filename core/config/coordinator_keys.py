"""Broker keys of groups, offsets, transactions and share groups (format: keys.py)."""

from typing import Final

COORDINATORS: Final = """
group.consumer.assignment.interval.ms INT 1000 valid=0.. dynamic=cluster
    How long a consumer group's new assignment waits for more changes to join it, in ms.

group.consumer.assignors LIST uniform,range
    The assignors that the coordinator offers consumer groups; the first is the default.

group.consumer.heartbeat.interval.ms INT 5000 valid=1..
    How often members of consumer groups must send heartbeats, in ms.

group.consumer.max.assignment.interval.ms INT 15000 valid=0..
    The maximum assignment interval that a group may set, in ms.

group.consumer.max.heartbeat.interval.ms INT 15000 valid=1..
    The maximum heartbeat interval that a group may set, in ms.

group.consumer.max.session.timeout.ms INT 60000 valid=1..
    The maximum session timeout that a group may set, in ms.

group.consumer.max.size INT 2147483647 valid=1..
    How many members a consumer group can have.

group.consumer.migration.policy STRING bidirectional valid=~DISABLED,DOWNGRADE,UPGRADE,BIDIRECTIONAL
    In which direction groups may move between the classic and the consumer protocol while they have
    members.

group.consumer.min.assignment.interval.ms INT 0 valid=0..
    The minimum assignment interval that a group may set, in ms.

group.consumer.min.heartbeat.interval.ms INT 5000 valid=1..
    The minimum heartbeat interval that a group may set, in ms.

group.consumer.min.session.timeout.ms INT 45000 valid=1..
    The minimum session timeout that a group may set, in ms.

group.consumer.session.timeout.ms INT 45000 valid=1..
    How long a member may be silent before it leaves its consumer group, in ms.

group.coordinator.append.linger.ms INT -1 valid=-1..
    How long the coordinator gathers records before it appends them, in ms; -1 adapts to the
    load.

group.coordinator.background.threads INT 2 valid=1..
    Threads for the coordinator's background work.

group.coordinator.cached.buffer.max.bytes INT 1048588 valid=524288.. dynamic=cluster
    The largest buffer that a coordinator keeps between two appends, in bytes.

group.coordinator.rebalance.protocols LIST classic,consumer,streams valid=*consumer,classic,share,streams
    The group protocols that this broker offers.

group.coordinator.threads INT 4 valid=1..
    Threads that run group coordinators.

group.initial.rebalance.delay.ms INT 3000
    How long a new group waits for more members before its first rebalance, in ms.

group.max.session.timeout.ms INT 1800000
    The longest session timeout a member of a classic group may ask for, in ms.

group.max.size INT 2147483647 valid=1..
    How many members a classic group can have.

group.min.session.timeout.ms INT 6000
    The shortest session timeout a member of a classic group may ask for, in ms.

group.share.assignment.interval.ms INT 1000 valid=0.. dynamic=cluster
    How long a share group's new assignment waits for more changes to join it, in ms.

group.share.assignors LIST simple
    The assignors that the coordinator offers share groups.

group.share.delivery.count.limit INT 5 valid=2..10
    How many times a record may be delivered to a share group before it is archived.

group.share.heartbeat.interval.ms INT 5000 valid=1..
    How often members of share groups must send heartbeats, in ms.

group.share.max.assignment.interval.ms INT 15000 valid=0..
    The maximum assignment interval that a share group may set, in ms.

group.share.max.delivery.count.limit INT 10 valid=5..25
    The maximum delivery limit that a share group may set.

group.share.max.heartbeat.interval.ms INT 15000 valid=1..
    The maximum heartbeat interval that a share group may set, in ms.

group.share.max.partition.max.record.locks INT 4000 valid=2000..10000
    The maximum number of record locks per partition that a share group may set.

group.share.max.record.lock.duration.ms INT 60000 valid=30000..3600000
    The maximum lock duration that a share group may set, in ms.

group.share.max.session.timeout.ms INT 60000 valid=1..
    The maximum session timeout that a share group may set, in ms.

group.share.max.share.sessions INT 2000 valid=1..
    How many share sessions a broker keeps.

group.share.max.size INT 200 valid=1..1000
    How many members a share group can have.

group.share.min.assignment.interval.ms INT 0 valid=0..
    The minimum assignment interval that a share group may set, in ms.

group.share.min.delivery.count.limit INT 2 valid=2..5
    The minimum delivery limit that a share group may set.

group.share.min.heartbeat.interval.ms INT 5000 valid=1..
    The minimum heartbeat interval that a share group may set, in ms.

group.share.min.partition.max.record.locks INT 100 valid=100..2000
    The minimum number of record locks per partition that a share group may set.

group.share.min.record.lock.duration.ms INT 15000 valid=1000..30000
    The minimum lock duration that a share group may set, in ms.

group.share.min.session.timeout.ms INT 45000 valid=1..
    The minimum session timeout that a share group may set, in ms.

group.share.partition.max.record.locks INT 2000 valid=100..10000
    How many records of a partition a share group may hold at once.

group.share.record.lock.duration.ms INT 30000 valid=1000..3600000
    How long a member of a share group may hold a record, in ms.

group.share.session.timeout.ms INT 45000 valid=1..
    How long a member may be silent before it leaves its share group, in ms.

group.streams.assignment.interval.ms INT 1000 valid=0.. dynamic=cluster
    How long a streams group's new assignment waits for more changes to join it, in ms.

group.streams.heartbeat.interval.ms INT 5000 valid=1..
    How often members of streams groups must send heartbeats, in ms.

group.streams.initial.rebalance.delay.ms INT 3000 valid=0..
    How long a new streams group waits for more members, in ms.

group.streams.max.assignment.interval.ms INT 15000 valid=0..
    The maximum assignment interval that a streams group may set, in ms.

group.streams.max.heartbeat.interval.ms INT 15000 valid=1..
    The maximum heartbeat interval that a streams group may set, in ms.

group.streams.max.session.timeout.ms INT 60000 valid=1..
    The maximum session timeout that a streams group may set, in ms.

group.streams.max.size INT 2147483647 valid=1..
    How many members a streams group can have.

group.streams.max.standby.replicas INT 2 valid=0..
    The most standby replicas that a streams group may ask for.

group.streams.min.assignment.interval.ms INT 0 valid=0..
    The minimum assignment interval that a streams group may set, in ms.

group.streams.min.heartbeat.interval.ms INT 5000 valid=1..
    The minimum heartbeat interval that a streams group may set, in ms.

group.streams.min.session.timeout.ms INT 45000 valid=1..
    The minimum session timeout that a streams group may set, in ms.

group.streams.num.standby.replicas INT 0 valid=0..
    How many standby replicas each task of a streams group gets.

group.streams.session.timeout.ms INT 45000 valid=1..
    How long a member may be silent before it leaves its streams group, in ms.

offset.metadata.max.bytes INT 4096
    The largest metadata that a client may commit with an offset, in bytes.

offsets.commit.timeout.ms INT 5000 valid=1..
    How long a commit waits for the replicas of its offsets partition, in ms.

offsets.load.buffer.size INT 5242880 valid=1..
    How many bytes are read at once when a coordinator loads a partition of offsets.

offsets.retention.check.interval.ms LONG 600000 valid=1..
    How often expired offsets are removed, in ms.

offsets.retention.minutes INT 10080 valid=1..
    How long the offsets of a group without members are kept, in minutes.

offsets.topic.compression.codec INT 0
    The compression of the offsets topic, by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

offsets.topic.num.partitions INT 50 valid=1..
    How many partitions the offsets topic is created with; it cannot be changed later, since groups
    are spread over them.

offsets.topic.replication.factor SHORT 3 valid=1..
    How many replicas the offsets topic is created with.

offsets.topic.segment.bytes INT 104857600 valid=1..
    The segment size the offsets topic is created with, in bytes.

producer.id.expiration.ms INT 86400000 valid=1.. dynamic=cluster
    How long a partition remembers the sequence numbers of a producer that sends nothing, in ms.

share.coordinator.append.linger.ms INT -1 valid=-1..
    How long the share coordinator gathers records before it appends them, in ms; -1 adapts to
    the load.

share.coordinator.cached.buffer.max.bytes INT 1048588 valid=524288.. dynamic=cluster
    The largest buffer that a share coordinator keeps between two appends, in bytes.

share.coordinator.load.buffer.size INT 5242880 valid=1..
    How many bytes are read at once when a share coordinator loads a partition.

share.coordinator.snapshot.update.records.per.snapshot INT 500 valid=0..500
    How many updates follow a snapshot of a share partition before the next one.

share.coordinator.state.topic.compression.codec INT 0
    The compression of the share state topic, by number.

share.coordinator.state.topic.min.isr SHORT 2 valid=1..
    The min.insync.replicas of the share state topic.

share.coordinator.state.topic.num.partitions INT 50 valid=1..
    How many partitions the share state topic is created with.

share.coordinator.state.topic.replication.factor SHORT 3 valid=1..
    How many replicas the share state topic is created with.

share.coordinator.state.topic.segment.bytes INT 104857600 valid=1..
    The segment size the share state topic is created with, in bytes.

share.coordinator.threads INT 1 valid=1..
    Threads that run share coordinators.

share.coordinator.write.timeout.ms INT 5000 valid=1..
    How long a share coordinator's write waits for its replicas, in ms.

share.fetch.purgatory.purge.interval.requests INT 1000
    The number of waiting share fetches at which completed ones are removed.

transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 valid=1..
    How often transactions that have timed out are aborted, in ms.

transaction.max.timeout.ms INT 900000 valid=1..
    The longest timeout a transaction may ask for, in ms.

transaction.partition.verification.enable BOOLEAN true dynamic=cluster
    Whether a partition asks the coordinator if a transaction is open before it accepts its records.

transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 valid=1..
    How often expired transactional ids are removed, in ms.

transaction.state.log.load.buffer.size INT 5242880 valid=1..
    How many bytes are read at once when a coordinator loads a partition of transactions.

transaction.state.log.min.isr INT 2 valid=1..
    The min.insync.replicas of the transactions topic.

transaction.state.log.num.partitions INT 50 valid=1..
    How many partitions the transactions topic is created with.

transaction.state.log.replication.factor SHORT 3 valid=1..
    How many replicas the transactions topic is created with.

transaction.state.log.segment.bytes INT 104857600 valid=1..
    The segment size the transactions topic is created with, in bytes.

transaction.two.phase.commit.enable BOOLEAN false
    Whether transactions may be prepared first and committed later (two-phase commit).

transactional.id.expiration.ms INT 604800000 valid=1..
    How long an unused transactional id is kept, in ms.
"""
