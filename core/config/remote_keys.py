"""Broker keys of KRaft quorums and of remote storage (format: keys.py)."""

from typing import Final

QUORUM_AND_REMOTE: Final = """
controller.listener.names LIST required
    The listeners by which controllers are reached.

controller.quorum.append.linger.ms INT 25 valid=0..
    How long the quorum's leader gathers records before it writes them, in ms.

controller.quorum.auto.join.enable BOOLEAN false
    Whether a controller joins the quorum by itself.

controller.quorum.bootstrap.servers LIST "" valid=nonempty
    Addresses where brokers look for the quorum.

controller.quorum.election.backoff.max.ms INT 1000 valid=0..
    The longest wait before a new election of the quorum, in ms.

controller.quorum.election.timeout.ms INT 1000 valid=0..
    How long a candidate waits for votes, in ms.

controller.quorum.fetch.max.bytes INT 1048576 valid=1..
    How many bytes a member of the quorum fetches at once.

controller.quorum.fetch.snapshot.max.bytes INT 1048576 valid=1..
    How many bytes of a snapshot a member of the quorum fetches at once.

controller.quorum.fetch.timeout.ms INT 2000 valid=0..
    How long a member of the quorum waits for a silent leader, in ms.

controller.quorum.request.timeout.ms INT 2000 valid=0..
    How long a request within the quorum waits for its answer, in ms.

controller.quorum.retry.backoff.ms INT 20 valid=0..
    How long to wait before a request within the quorum is sent again, in ms.

controller.quorum.voters LIST "" valid=nonempty
    The voters of the quorum, as ID@HOST:PORT.

follower.fetch.last.tiered.offset.enable BOOLEAN false dynamic=cluster
    Whether a new follower begins after the last offset in remote storage.

log.local.retention.bytes LONG -2 valid=-2.. dynamic=cluster
    How much of a tiered partition stays on the broker, in bytes; -2 means log.retention.bytes.

log.local.retention.ms LONG -2 valid=-2.. dynamic=cluster
    How long records of a tiered partition stay on the broker, in ms; -2 means log.retention.ms.

metadata.log.dir STRING null
    The directory of Kafka's own metadata log.

metadata.log.max.record.bytes.between.snapshots LONG 20971520 valid=1..
    How much is appended to Kafka's metadata log before a snapshot is made, in bytes.

metadata.log.max.snapshot.interval.ms LONG 3600000 valid=0..
    How long Kafka's metadata log goes without a snapshot, in ms.

metadata.log.segment.bytes INT 1073741824 valid=8388608..
    The segment size of Kafka's metadata log, in bytes.

metadata.log.segment.ms LONG 604800000
    The age at which a segment of Kafka's metadata log ends, in ms.

metadata.max.idle.interval.ms INT 500 valid=0..
    How often an idle KRaft controller appends an empty record, in ms.

metadata.max.retention.bytes LONG 104857600
    How much of Kafka's metadata log is kept, in bytes.

metadata.max.retention.ms LONG 604800000
    How long Kafka's metadata log is kept, in ms.

process.roles LIST required valid=*broker,controller
    What this process is: a broker, a controller, or both.

remote.fetch.max.wait.ms INT 500 valid=1.. dynamic=cluster
    How long a fetch waits for remote storage, in ms.

remote.list.offsets.request.timeout.ms LONG 30000 valid=1.. dynamic=cluster
    How long a search by time waits for remote storage, in ms.

remote.log.index.file.cache.total.size.bytes LONG 1073741824 valid=1.. dynamic=cluster
    The disk space for indexes fetched from remote storage, in bytes.

remote.log.manager.copier.thread.pool.size INT 10 valid=1.. dynamic=cluster
    Threads that copy segments to remote storage.

remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 valid=1.. dynamic=cluster
    How fast segments are copied to remote storage, in bytes a second.

remote.log.manager.copy.quota.window.num INT 11 valid=1..
    How many samples that quota remembers.

remote.log.manager.copy.quota.window.size.seconds INT 1 valid=1..
    How long each sample of that quota is, in seconds.

remote.log.manager.expiration.thread.pool.size INT 10 valid=1.. dynamic=cluster
    Threads that delete old segments from remote storage.

remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 valid=1.. dynamic=cluster
    How fast remote storage is read, in bytes a second.

remote.log.manager.fetch.quota.window.num INT 11 valid=1..
    How many samples the quota of remote reads remembers.

remote.log.manager.fetch.quota.window.size.seconds INT 1 valid=1..
    How long each sample of the quota of remote reads is, in seconds.

remote.log.manager.follower.thread.pool.size INT 2 valid=1.. dynamic=cluster
    Threads for the remote tasks of followers.

remote.log.manager.task.interval.ms LONG 30000 valid=1..
    How often the tasks of remote storage run, in ms.

remote.log.manager.thread.pool.size INT 2 valid=1..
    Threads for the tasks of remote storage.

remote.log.metadata.custom.metadata.max.bytes INT 128 valid=0..
    The most that a remote storage plug-in may store about a segment, in bytes.

remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager valid=nonempty
    The class that keeps the metadata of remote segments.

remote.log.metadata.manager.class.path STRING null
    Where that class is loaded from.

remote.log.metadata.manager.impl.prefix STRING rlmm.config. valid=nonempty
    The prefix of the keys that are passed on to that class.

remote.log.metadata.manager.listener.name STRING null valid=nonempty
    The listener by which that class reaches brokers.

remote.log.reader.max.pending.tasks INT 100 valid=1..
    How many remote reads may wait.

remote.log.reader.threads INT 10 valid=1.. dynamic=cluster
    Threads that read from remote storage.

remote.log.storage.manager.class.name STRING null valid=nonempty
    The class that stores remote segments.

remote.log.storage.manager.class.path STRING null
    Where the class that stores remote segments is loaded from.

remote.log.storage.manager.impl.prefix STRING rsm.config. valid=nonempty
    The prefix of the keys that are passed on to the class that stores remote segments.

remote.log.storage.system.enable BOOLEAN false
    Whether tiered storage is on.
"""
