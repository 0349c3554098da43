"""The keys of topics, of groups and of client metrics subscriptions (format: config_keys.py)."""

from typing import Final

TOPIC: Final = """
cleanup.policy LIST delete valid=*compact,delete
    ?

compression.gzip.level INT -1 valid=-1|1..9
    ?

compression.lz4.level INT 9 valid=1..17
    ?

compression.type STRING producer valid=uncompressed,zstd,lz4,snappy,gzip,producer
    ?

compression.zstd.level INT 3 valid=-131072..22
    ?

delete.retention.ms LONG 86400000 valid=0..
    ?

file.delete.delay.ms LONG 60000 valid=0..
    ?

flush.messages LONG 9223372036854775807 valid=1..
    ?

flush.ms LONG 9223372036854775807 valid=0..
    ?

follower.replication.throttled.replicas LIST ""
    ?

index.interval.bytes INT 4096 valid=0..
    ?

leader.replication.throttled.replicas LIST ""
    ?

local.retention.bytes LONG -2 valid=-2..
    ?

local.retention.ms LONG -2 valid=-2..
    ?

max.compaction.lag.ms LONG 9223372036854775807 valid=1..
    ?

max.message.bytes INT 1048588 valid=0..
    ?

message.timestamp.after.max.ms LONG 3600000 valid=0..
    ?

message.timestamp.before.max.ms LONG 9223372036854775807 valid=0..
    ?

message.timestamp.type STRING CreateTime valid=CreateTime,LogAppendTime
    ?

min.cleanable.dirty.ratio DOUBLE 0.5 valid=0..1
    ?

min.compaction.lag.ms LONG 0 valid=0..
    ?

min.insync.replicas INT 1 valid=1..
    ?

preallocate BOOLEAN false
    ?

remote.log.copy.disable BOOLEAN false
    ?

remote.log.delete.on.disable BOOLEAN false
    ?

remote.storage.enable BOOLEAN false
    ?

retention.bytes LONG -1
    ?

retention.ms LONG 604800000 valid=-1..
    ?

segment.bytes INT 1073741824 valid=1048576..
    ?

segment.index.bytes INT 10485760 valid=4..
    ?

segment.jitter.ms LONG 0 valid=0..
    ?

segment.ms LONG 604800000 valid=1..
    ?

unclean.leader.election.enable BOOLEAN false
    ?
"""

GROUP: Final = """
consumer.assignment.interval.ms INT 1000 valid=0..
    ?

consumer.heartbeat.interval.ms INT 5000 valid=1..
    ?

consumer.session.timeout.ms INT 45000 valid=1..
    ?

share.assignment.interval.ms INT 1000 valid=0..
    ?

share.auto.offset.reset STRING latest
    ?

share.delivery.count.limit INT 5 valid=2..10
    ?

share.heartbeat.interval.ms INT 5000 valid=1..
    ?

share.isolation.level STRING read_uncommitted valid=read_committed,read_uncommitted
    ?

share.partition.max.record.locks INT 2000 valid=100..10000
    ?

share.record.lock.duration.ms INT 30000 valid=1000..3600000
    ?

share.renew.acknowledge.enable BOOLEAN true
    ?

share.session.timeout.ms INT 45000 valid=1..
    ?

streams.assignment.interval.ms INT 1000 valid=0..
    ?

streams.heartbeat.interval.ms INT 5000 valid=1..
    ?

streams.initial.rebalance.delay.ms INT 3000 valid=0..
    ?

streams.num.standby.replicas INT 0 valid=0..
    ?

streams.session.timeout.ms INT 45000 valid=1..
    ?
"""

CLIENT_METRICS: Final = """
interval.ms INT 300000 valid=100..3600000
    ?

match LIST ""
    ?

metrics LIST ""
    ?
"""
