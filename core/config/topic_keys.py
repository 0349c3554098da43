"""The keys of topics, of groups and of client metrics subscriptions (format: keys.py)."""

from typing import Final

TOPIC: Final = """
cleanup.policy LIST delete valid=*compact,delete
    What happens to old records: delete drops them, compact keeps the last of each key.

compression.gzip.level INT -1 valid=-1|1..9
    The gzip level, if the broker compresses the topic; -1 for the library's own.

compression.lz4.level INT 9 valid=1..17
    The lz4 level, if the broker compresses the topic.

compression.type STRING producer valid=uncompressed,zstd,lz4,snappy,gzip,producer
    How records are stored: as the producer sent them, or recompressed by the broker.

compression.zstd.level INT 3 valid=-131072..22
    The zstd level, if the broker compresses the topic.

delete.retention.ms LONG 86400000 valid=0..
    How long compaction keeps a deleted key's tombstone, in ms.

file.delete.delay.ms LONG 60000 valid=0..
    How long a deleted file stays on the disk under another name, in ms.

flush.messages LONG 9223372036854775807 valid=1..
    The number of records after which the log is synced to its disk; produces are acknowledged after
    the sync.

flush.ms LONG 9223372036854775807 valid=0..
    How long a record may wait to be synced to its disk, in ms.

follower.replication.throttled.replicas LIST ""
    The replicas whose copying is throttled on the follower: PARTITION:BROKER,… or * for all.

index.interval.bytes INT 4096 valid=0..
    How many bytes of the log pass between two index entries.

leader.replication.throttled.replicas LIST ""
    The replicas whose copying is throttled on the leader: PARTITION:BROKER,… or * for all.

local.retention.bytes LONG -2 valid=-2..
    How much of a tiered partition stays on the broker, in bytes; -2 means retention.bytes.

local.retention.ms LONG -2 valid=-2..
    How long records of a tiered partition stay on the broker, in ms; -2 means retention.ms.

max.compaction.lag.ms LONG 9223372036854775807 valid=1..
    How long a record may stay without being compacted, in ms.

max.message.bytes INT 1048588 valid=0..
    The largest record batch that the topic accepts, as it is sent, in bytes.

message.timestamp.after.max.ms LONG 3600000 valid=0..
    How far a record's timestamp may be ahead of the broker's clock, in ms.

message.timestamp.before.max.ms LONG 9223372036854775807 valid=0..
    How far a record's timestamp may be behind the broker's clock, in ms.

message.timestamp.type STRING CreateTime valid=CreateTime,LogAppendTime
    Whether records carry the time when they were created or appended.

min.cleanable.dirty.ratio DOUBLE 0.5 valid=0..1
    The share of the log that must be dirty before it is compacted.

min.compaction.lag.ms LONG 0 valid=0..
    How long a record is safe from compaction, in ms.

min.insync.replicas INT 1 valid=1..
    How many replicas must be in sync for a produce with acks=all.

preallocate BOOLEAN false
    Whether a segment's file gets its full size when it is created.

remote.log.copy.disable BOOLEAN false
    Whether copying to remote storage is off; data that was copied stays readable.

remote.log.delete.on.disable BOOLEAN false
    Whether the remote data is deleted when remote storage is turned off for the topic.

remote.storage.enable BOOLEAN false
    Whether the topic's old segments go to remote storage.

retention.bytes LONG -1
    How large a partition may grow before old segments are deleted, in bytes; -1 has no limit.

retention.ms LONG 604800000 valid=-1..
    How long records are kept, in ms; -1 keeps them forever.

segment.bytes INT 1073741824 valid=1048576..
    How large a segment grows before the next begins, in bytes.

segment.index.bytes INT 10485760 valid=4..
    How large an index may become before its segment ends, in bytes.

segment.jitter.ms LONG 0 valid=0..
    The maximum random time by which a segment ends earlier, in ms.

segment.ms LONG 604800000 valid=1..
    The age at which a segment ends, in ms.

unclean.leader.election.enable BOOLEAN false
    Whether a replica that is not in sync may become leader, which loses records.
"""

GROUP: Final = """
consumer.assignment.interval.ms INT 1000 valid=0..
    How long the group's new assignment waits for more changes to join it, in ms.

consumer.heartbeat.interval.ms INT 5000 valid=1..
    How often members of the group must send heartbeats, in ms.

consumer.session.timeout.ms INT 45000 valid=1..
    How long a member may be silent before it leaves the group, in ms.

share.assignment.interval.ms INT 1000 valid=0..
    How long the share group's new assignment waits for more changes to join it, in ms.

share.auto.offset.reset STRING latest
    Where a new share group begins: earliest, latest, or by_duration:P… before now.

share.delivery.count.limit INT 5 valid=2..10
    How many times a record may be delivered to the share group before it is archived.

share.heartbeat.interval.ms INT 5000 valid=1..
    How often members of the share group must send heartbeats, in ms.

share.isolation.level STRING read_uncommitted valid=read_committed,read_uncommitted
    Whether the share group sees records of transactions that are not committed.

share.partition.max.record.locks INT 2000 valid=100..10000
    How many records of a partition the share group may hold at once.

share.record.lock.duration.ms INT 30000 valid=1000..3600000
    How long a member of the share group may hold a record, in ms.

share.renew.acknowledge.enable BOOLEAN true
    Whether a member may extend its lock on a record.

share.session.timeout.ms INT 45000 valid=1..
    How long a member may be silent before it leaves the share group, in ms.

streams.assignment.interval.ms INT 1000 valid=0..
    How long the streams group's new assignment waits for more changes to join it, in ms.

streams.heartbeat.interval.ms INT 5000 valid=1..
    How often members of the streams group must send heartbeats, in ms.

streams.initial.rebalance.delay.ms INT 3000 valid=0..
    How long the streams group waits for more members before its first assignment, in ms.

streams.num.standby.replicas INT 0 valid=0..
    How many standby replicas each task of the streams group gets.

streams.session.timeout.ms INT 45000 valid=1..
    How long a member may be silent before it leaves the streams group, in ms.
"""

CLIENT_METRICS: Final = """
interval.ms INT 300000 valid=100..3600000
    How often clients push their metrics, in ms.

match LIST ""
    Which clients are asked, as CLIENT_FIELD=REGULAR_EXPRESSION pairs that must all match; empty
    selects all.

metrics LIST ""
    Prefixes of the names of the metrics to push; empty selects none, * all of them.
"""
