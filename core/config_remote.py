"""Broker keys of KRaft quorums and of remote storage (format: config_keys.py)."""

from typing import Final

QUORUM_AND_REMOTE: Final = """
controller.listener.names LIST required
    ?

controller.quorum.append.linger.ms INT 25 valid=0..
    ?

controller.quorum.auto.join.enable BOOLEAN false
    ?

controller.quorum.bootstrap.servers LIST "" valid=nonempty
    ?

controller.quorum.election.backoff.max.ms INT 1000 valid=0..
    ?

controller.quorum.election.timeout.ms INT 1000 valid=0..
    ?

controller.quorum.fetch.max.bytes INT 1048576 valid=1..
    ?

controller.quorum.fetch.snapshot.max.bytes INT 1048576 valid=1..
    ?

controller.quorum.fetch.timeout.ms INT 2000 valid=0..
    ?

controller.quorum.request.timeout.ms INT 2000 valid=0..
    ?

controller.quorum.retry.backoff.ms INT 20 valid=0..
    ?

controller.quorum.voters LIST "" valid=nonempty
    ?

follower.fetch.last.tiered.offset.enable BOOLEAN false dynamic=cluster
    ?

log.local.retention.bytes LONG -2 valid=-2.. dynamic=cluster
    ?

log.local.retention.ms LONG -2 valid=-2.. dynamic=cluster
    ?

metadata.log.dir STRING null
    ?

metadata.log.max.record.bytes.between.snapshots LONG 20971520 valid=1..
    ?

metadata.log.max.snapshot.interval.ms LONG 3600000 valid=0..
    ?

metadata.log.segment.bytes INT 1073741824 valid=8388608..
    ?

metadata.log.segment.ms LONG 604800000
    ?

metadata.max.idle.interval.ms INT 500 valid=0..
    ?

metadata.max.retention.bytes LONG 104857600
    ?

metadata.max.retention.ms LONG 604800000
    ?

process.roles LIST required valid=*broker,controller
    ?

remote.fetch.max.wait.ms INT 500 valid=1.. dynamic=cluster
    ?

remote.list.offsets.request.timeout.ms LONG 30000 valid=1.. dynamic=cluster
    ?

remote.log.index.file.cache.total.size.bytes LONG 1073741824 valid=1.. dynamic=cluster
    ?

remote.log.manager.copier.thread.pool.size INT 10 valid=1.. dynamic=cluster
    ?

remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 valid=1.. dynamic=cluster
    ?

remote.log.manager.copy.quota.window.num INT 11 valid=1..
    ?

remote.log.manager.copy.quota.window.size.seconds INT 1 valid=1..
    ?

remote.log.manager.expiration.thread.pool.size INT 10 valid=1.. dynamic=cluster
    ?

remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 valid=1.. dynamic=cluster
    ?

remote.log.manager.fetch.quota.window.num INT 11 valid=1..
    ?

remote.log.manager.fetch.quota.window.size.seconds INT 1 valid=1..
    ?

remote.log.manager.follower.thread.pool.size INT 2 valid=1.. dynamic=cluster
    ?

remote.log.manager.task.interval.ms LONG 30000 valid=1..
    ?

remote.log.manager.thread.pool.size INT 2 valid=1..
    ?

remote.log.metadata.custom.metadata.max.bytes INT 128 valid=0..
    ?

remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager valid=nonempty
    ?

remote.log.metadata.manager.class.path STRING null
    ?

remote.log.metadata.manager.impl.prefix STRING rlmm.config. valid=nonempty
    ?

remote.log.metadata.manager.listener.name STRING null valid=nonempty
    ?

remote.log.reader.max.pending.tasks INT 100 valid=1..
    ?

remote.log.reader.threads INT 10 valid=1.. dynamic=cluster
    ?

remote.log.storage.manager.class.name STRING null valid=nonempty
    ?

remote.log.storage.manager.class.path STRING null
    ?

remote.log.storage.manager.impl.prefix STRING rsm.config. valid=nonempty
    ?

remote.log.storage.system.enable BOOLEAN false
    ?
"""
