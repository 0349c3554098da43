"""Broker keys of logs: where they lie, how they roll, are flushed, kept and compacted (format: config_keys.py)."""

from typing import Final

LOG: Final = """
compression.gzip.level INT -1 valid=-1|1..9 dynamic=cluster
    ?

compression.lz4.level INT 9 valid=1..17 dynamic=cluster
    ?

compression.type STRING producer valid=uncompressed,zstd,lz4,snappy,gzip,producer dynamic=cluster
    ?

compression.zstd.level INT 3 valid=-131072..22 dynamic=cluster
    ?

cordoned.log.dirs LIST "" dynamic=broker
    ?

log.cleaner.backoff.ms LONG 15000 valid=0.. dynamic=cluster
    ?

log.cleaner.dedupe.buffer.size LONG 134217728 dynamic=cluster
    ?

log.cleaner.delete.retention.ms LONG 86400000 valid=0.. dynamic=cluster
    ?

log.cleaner.enable BOOLEAN true
    ?

log.cleaner.io.buffer.load.factor DOUBLE 0.9 dynamic=cluster
    ?

log.cleaner.io.buffer.size INT 524288 valid=0.. dynamic=cluster
    ?

log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 dynamic=cluster
    ?

log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 valid=1.. dynamic=cluster
    ?

log.cleaner.min.cleanable.ratio DOUBLE 0.5 valid=0..1 dynamic=cluster
    ?

log.cleaner.min.compaction.lag.ms LONG 0 valid=0.. dynamic=cluster
    ?

log.cleaner.threads INT 1 valid=0.. dynamic=cluster
    ?

log.cleanup.policy LIST delete valid=*compact,delete dynamic=cluster
    ?

log.dir LIST /tmp/kafka-logs
    ?

log.dir.failure.timeout.ms LONG 30000 valid=1..
    ?

log.dirs LIST null
    ?

log.flush.interval.messages LONG 9223372036854775807 valid=1.. dynamic=cluster
    ?

log.flush.interval.ms LONG null dynamic=cluster
    ?

log.flush.offset.checkpoint.interval.ms INT 60000 valid=0..
    ?

log.flush.scheduler.interval.ms LONG 9223372036854775807
    ?

log.flush.start.offset.checkpoint.interval.ms INT 60000 valid=0..
    ?

log.index.interval.bytes INT 4096 valid=0.. dynamic=cluster
    ?

log.index.size.max.bytes INT 10485760 valid=4.. dynamic=cluster
    ?

log.message.timestamp.after.max.ms LONG 3600000 valid=0.. dynamic=cluster
    ?

log.message.timestamp.before.max.ms LONG 9223372036854775807 valid=0.. dynamic=cluster
    ?

log.message.timestamp.type STRING CreateTime valid=CreateTime,LogAppendTime dynamic=cluster
    ?

log.preallocate BOOLEAN false dynamic=cluster
    ?

log.retention.bytes LONG -1 dynamic=cluster
    ?

log.retention.check.interval.ms LONG 300000 valid=1..
    ?

log.retention.hours INT 168
    ?

log.retention.minutes INT null
    ?

log.retention.ms LONG null dynamic=cluster
    ?

log.roll.hours INT 168 valid=1..
    ?

log.roll.jitter.hours INT 0 valid=0..
    ?

log.roll.jitter.ms LONG null dynamic=cluster
    ?

log.roll.ms LONG null dynamic=cluster
    ?

log.segment.bytes INT 1073741824 valid=1048576.. dynamic=cluster
    ?

log.segment.delete.delay.ms LONG 60000 valid=0.. dynamic=cluster
    ?

message.max.bytes INT 1048588 valid=0.. dynamic=cluster
    ?

min.insync.replicas INT 1 valid=1.. dynamic=cluster
    ?

num.recovery.threads.per.data.dir INT 2 valid=1.. dynamic=cluster
    ?

unclean.leader.election.enable BOOLEAN false dynamic=cluster
    ?
"""
