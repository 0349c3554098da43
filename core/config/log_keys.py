"""Broker keys of logs: their location, rolling, flushing, retention and compaction (format:
keys.py)."""

from typing import Final

LOG: Final = """
compression.gzip.level INT -1 valid=-1|1..9 dynamic=cluster
    The gzip level at which the broker compresses, -1 for the library's own.

compression.lz4.level INT 9 valid=1..17 dynamic=cluster
    The lz4 level at which the broker compresses.

compression.type STRING producer valid=uncompressed,zstd,lz4,snappy,gzip,producer dynamic=cluster
    The default compression of topics; producer keeps what was sent.

compression.zstd.level INT 3 valid=-131072..22 dynamic=cluster
    The zstd level at which the broker compresses.

cordoned.log.dirs LIST "" dynamic=broker
    Log directories that get no new partitions.

log.cleaner.backoff.ms LONG 15000 valid=0.. dynamic=cluster
    How long the cleaner sleeps when there is nothing to compact, in ms.

log.cleaner.dedupe.buffer.size LONG 134217728 valid=1048577.. dynamic=cluster
    The memory for the key maps of all cleaners, in bytes.

log.cleaner.delete.retention.ms LONG 86400000 valid=0.. dynamic=cluster
    How long a compacted topic keeps a deleted key's tombstone, in ms.

log.cleaner.enable BOOLEAN true
    Whether logs are compacted at all.

log.cleaner.io.buffer.load.factor DOUBLE 0.9 valid=0..1 dynamic=cluster
    How full a cleaner's key map may become before it starts to compact.

log.cleaner.io.buffer.size INT 524288 valid=0.. dynamic=cluster
    The memory of all cleaners' read and write buffers, in bytes.

log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 valid=1.. dynamic=cluster
    How much all cleaners read and write together, in bytes a second.

log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 valid=1.. dynamic=cluster
    How long a record of a compacted topic may stay without being compacted, in ms.

log.cleaner.min.cleanable.ratio DOUBLE 0.5 valid=0..1 dynamic=cluster
    The share of a log that must be dirty before it is compacted.

log.cleaner.min.compaction.lag.ms LONG 0 valid=0.. dynamic=cluster
    How long a record of a compacted topic is safe from compaction, in ms.

log.cleaner.threads INT 1 valid=0.. dynamic=cluster
    How many cleaners compact at once.

log.cleanup.policy LIST delete valid=*compact,delete dynamic=cluster
    What happens to old records: delete drops them, compact keeps the last of each key.

log.dir LIST /tmp/kafka-logs
    The log directory, if log.dirs is not set.

log.dir.failure.timeout.ms LONG 30000 valid=1..
    How long the broker tries to report a failed directory of leaders before it stops, in ms.

log.dirs LIST null
    The directories that hold partitions, separated by commas.

log.flush.interval.messages LONG 9223372036854775807 valid=1.. dynamic=cluster
    The number of records after which a log is synced to its disk.

log.flush.interval.ms LONG null dynamic=cluster
    How long a record may wait to be synced to its disk, in ms.

log.flush.offset.checkpoint.interval.ms INT 60000 valid=0..
    How often recovery points are saved, in ms.

log.flush.scheduler.interval.ms LONG 9223372036854775807
    How often the broker looks for logs to sync, in ms.

log.flush.start.offset.checkpoint.interval.ms INT 60000 valid=0..
    How often the start offsets of logs are saved, in ms.

log.index.interval.bytes INT 4096 valid=0.. dynamic=cluster
    How many bytes of a log pass between two index entries.

log.index.size.max.bytes INT 10485760 valid=4.. dynamic=cluster
    How large an index may become before its segment ends, in bytes.

log.message.timestamp.after.max.ms LONG 3600000 valid=0.. dynamic=cluster
    How far a record's timestamp may be ahead of the broker's clock, in ms.

log.message.timestamp.before.max.ms LONG 9223372036854775807 valid=0.. dynamic=cluster
    How far a record's timestamp may be behind the broker's clock, in ms.

log.message.timestamp.type STRING CreateTime valid=CreateTime,LogAppendTime dynamic=cluster
    Whether records carry the time when they were created or appended.

log.preallocate BOOLEAN false dynamic=cluster
    Whether a segment's file gets its full size when it is created.

log.retention.bytes LONG -1 dynamic=cluster
    How large a partition may grow before old segments are deleted, in bytes; -1 has no limit.

log.retention.check.interval.ms LONG 300000 valid=1..
    How often the broker looks for segments to delete, in ms.

log.retention.hours INT 168 valid=nonzero
    How long records are kept, in hours, if neither minutes nor ms is set.

log.retention.minutes INT null valid=nonzero
    How long records are kept, in minutes, if ms is not set.

log.retention.ms LONG null valid=nonzero dynamic=cluster
    How long records are kept, in ms; -1 keeps them forever.

log.roll.hours INT 168 valid=1..
    The age at which a segment ends, in hours, if ms is not set.

log.roll.jitter.hours INT 0 valid=0..
    The maximum random time by which a segment ends earlier, in hours.

log.roll.jitter.ms LONG null valid=0.. dynamic=cluster
    The maximum random time by which a segment ends earlier, in ms.

log.roll.ms LONG null valid=1.. dynamic=cluster
    The age at which a segment ends, in ms.

log.segment.bytes INT 1073741824 valid=1048576.. dynamic=cluster
    How large a segment grows before the next begins, in bytes.

log.segment.delete.delay.ms LONG 60000 valid=0.. dynamic=cluster
    How long a deleted file stays on the disk under another name, in ms.

message.max.bytes INT 1048588 valid=0.. dynamic=cluster
    The largest record batch that a topic accepts, as it is sent, in bytes.

min.insync.replicas INT 1 valid=1.. dynamic=cluster
    How many replicas must be in sync for a produce with acks=all.

num.recovery.threads.per.data.dir INT 2 valid=1.. dynamic=cluster
    Threads per log directory that recover logs at the start.

unclean.leader.election.enable BOOLEAN false dynamic=cluster
    Whether a replica that is not in sync may become leader, which loses records.
"""
