"""Broker keys of the server itself: identity, listeners, limits, replication, metrics (format:
keys.py)."""

from typing import Final

BROKER: Final = """
add.partitions.to.txn.retry.backoff.max.ms INT 100 valid=0..
    The longest wait before a partition is offered to a transaction again, in ms.

add.partitions.to.txn.retry.backoff.ms INT 20 valid=1..
    The first wait before a partition is offered to a transaction again, in ms.

advertised.listeners LIST null
    The addresses that clients get, if they differ from listeners.

alter.config.policy.class.name CLASS null
    The class that may refuse changes of configs.

alter.log.dirs.replication.quota.window.num INT 11 valid=1..
    How many samples the quota of moves between directories remembers.

alter.log.dirs.replication.quota.window.size.seconds INT 1 valid=1..
    How long each sample of that quota is, in seconds.

auto.create.topics.enable BOOLEAN true
    Whether an unknown topic is created when a client asks for it.

auto.leader.rebalance.enable BOOLEAN true
    Whether leadership returns to preferred replicas automatically.

background.threads INT 10 valid=1.. dynamic=cluster
    Threads for background work.

broker.heartbeat.interval.ms INT 2000
    How often a broker sends the controller a heartbeat, in ms.

broker.id INT -1
    The node's id under its older name.

broker.rack STRING null
    The broker's rack or zone, over which replicas are spread.

broker.session.timeout.ms INT 9000
    How long a broker may be silent before the controller fences it, in ms.

client.quota.callback.class CLASS null
    The class that decides about client quotas.

config.providers LIST "" dynamic=cluster
    Classes that fetch secrets for this file from elsewhere.

connections.max.idle.ms LONG 600000
    How long a connection may be idle before it is closed, in ms; -1 never closes it.

controlled.shutdown.enable BOOLEAN true
    Whether a broker hands over its leadership before it stops.

controller.quota.window.num INT 11 valid=1..
    How many samples the quota of topic changes remembers.

controller.quota.window.size.seconds INT 1 valid=1..
    How long each sample of that quota is, in seconds.

controller.socket.timeout.ms INT 30000
    How long to wait for the controller's answer, in ms.

create.topic.policy.class.name CLASS null
    The class that may refuse new topics.

default.replication.factor INT 1
    The default number of replicas of a new topic.

delete.records.purgatory.purge.interval.requests INT 1
    The number of waiting DeleteRecords requests at which completed ones are removed.

delete.topic.enable BOOLEAN true
    Whether topics can be deleted.

early.start.listeners LIST null
    Listeners that open before the broker is ready to serve.

fetch.max.bytes INT 57671680 valid=1024..
    The most that one fetch returns, in bytes.

fetch.purgatory.purge.interval.requests INT 1000
    The number of waiting fetches at which completed ones are removed.

initial.broker.registration.timeout.ms INT 60000
    How long a starting broker tries to register before it gives up, in ms.

inter.broker.listener.name STRING null
    The listener by which brokers reach each other.

kafka.metrics.polling.interval.secs INT 10 valid=1..
    How often Kafka's own metrics reporters are polled, in seconds.

kafka.metrics.reporters LIST ""
    Classes that report Kafka's own metrics.

leader.imbalance.check.interval.seconds LONG 300 valid=1..
    How often the controller looks for leaders that are not preferred, in seconds.

listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT dynamic=broker
    The security protocol of each listener, as pairs of NAME:PROTOCOL.

listeners LIST PLAINTEXT://:9092 dynamic=broker
    The addresses the broker listens on, as NAME://HOST:PORT; an empty host is all of them.

max.connection.creation.rate INT 2147483647 valid=0.. dynamic=cluster
    How many new connections the broker accepts per second.

max.connections INT 2147483647 valid=0.. dynamic=cluster
    How many connections the broker keeps at once.

max.connections.per.ip INT 2147483647 valid=0.. dynamic=cluster
    How many connections one address may have.

max.connections.per.ip.overrides STRING "" dynamic=cluster
    Other limits for some addresses, as pairs of HOST:COUNT.

max.incremental.fetch.session.cache.slots INT 1000 valid=0..
    How many fetch sessions the broker remembers.

max.request.partition.size.limit INT 2000 valid=1..
    How many partitions one page of a topic description holds.

metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter dynamic=cluster
    Classes that report metrics.

metrics.num.samples INT 2 valid=1..
    How many samples a metric is computed from.

metrics.recording.level STRING INFO
    Which metrics are recorded: INFO, DEBUG or TRACE.

metrics.sample.window.ms LONG 30000 valid=1..
    How long each sample of a metric is, in ms.

node.id INT required valid=0..
    The node's id, unique in the cluster.

num.io.threads INT 8 valid=1.. dynamic=cluster
    Threads that handle requests.

num.network.threads INT 3 valid=1.. dynamic=cluster
    Network threads per listener.

num.partitions INT 1 valid=1..
    The default number of partitions of a new topic.

num.replica.alter.log.dirs.threads INT null
    Threads that move replicas between directories.

num.replica.fetchers INT 1 valid=1.. dynamic=cluster
    How many connections fetch from each leader.

producer.purgatory.purge.interval.requests INT 1000
    The number of waiting produces at which completed ones are removed.

queued.max.request.bytes LONG -1
    How many bytes of requests may wait; -1 has no limit.

queued.max.requests INT 500 valid=1..
    How many requests may wait before the broker stops reading from the network.

quota.window.num INT 11 valid=1..
    How many samples a client quota remembers.

quota.window.size.seconds INT 1 valid=1..
    How long each sample of a client quota is, in seconds.

replica.fetch.backoff.ms INT 1000 valid=0..
    How long a follower waits after a failed fetch, in ms.

replica.fetch.max.bytes INT 1048576 valid=0..
    How many bytes of one partition a follower asks for.

replica.fetch.min.bytes INT 1
    How many bytes must be available before a follower's fetch is answered.

replica.fetch.response.max.bytes INT 10485760 valid=0..
    How many bytes a follower asks for in one fetch.

replica.fetch.wait.max.ms INT 500
    How long a follower's fetch may wait for bytes, in ms.

replica.high.watermark.checkpoint.interval.ms LONG 5000
    How often high watermarks are saved, in ms.

replica.lag.time.max.ms LONG 30000
    How long a follower may lag behind before it leaves the in-sync replicas, in ms.

replica.selector.class STRING null
    The class that chooses the replica for a consumer to fetch from; null chooses the leader.

replica.socket.receive.buffer.bytes INT 65536
    The receive buffer of a follower's connection, in bytes; -1 leaves it to the system.

replica.socket.timeout.ms INT 30000
    How long a follower waits for an answer, in ms.

replication.quota.window.num INT 11 valid=1..
    How many samples the quota of replication remembers.

replication.quota.window.size.seconds INT 1 valid=1..
    How long each sample of that quota is, in seconds.

request.timeout.ms INT 30000
    How long this broker's own requests wait for an answer, in ms.

socket.connection.setup.timeout.max.ms LONG 30000
    The longest time that a connection attempt may take, in ms.

socket.connection.setup.timeout.ms LONG 10000
    The time limit of the first connection attempt, in ms.

socket.listen.backlog.size INT 50 valid=1..
    How many connections may wait to be accepted.

socket.receive.buffer.bytes INT 102400
    The receive buffer of a client's connection, in bytes; -1 leaves it to the system.

socket.request.max.bytes INT 104857600 valid=1..
    The largest request that is read, in bytes.

socket.send.buffer.bytes INT 102400
    The send buffer of a client's connection, in bytes; -1 leaves it to the system.

telemetry.max.bytes INT 1048576 valid=1..
    The largest batch of metrics that a client may push, in bytes.
"""


OWN: Final = """
pk.authentication.timeout.ms LONG 30000 valid=1..
    How long a connection may take for its TLS handshake and SASL authentication, in ms.

pk.connection.max.parked INT 100 valid=1..
    How many requests of a connection may wait before the broker stops reading from it.

pk.etcd.password PASSWORD null
    The password of pk.etcd.user.

pk.etcd.session.timeout.ms INT 6000 valid=1..
    How long a node may be silent before etcd takes the controller's leadership from it, in ms: a
    lease, in whole seconds.

pk.etcd.ssl.key.password PASSWORD null
    The password of the private key in pk.etcd.ssl.keystore.location.

pk.etcd.ssl.keystore.location STRING null
    A PEM file with the private key and the certificate that this node shows to etcd's servers, if
    they ask for one.

pk.etcd.ssl.truststore.location STRING null
    A PEM file with the certificates that verify etcd's servers. If it is set, connections to etcd
    are encrypted.

pk.etcd.user STRING null
    The user that this node logs in to etcd as, if etcd has users.

pk.faults.enable BOOLEAN false
    Whether tests may inject faults into this broker: failed, delayed and dropped requests, a wrong
    clock (pk test faults, pk.testing). Never set it where data matters.

pk.log.format STRING text valid=text,json
    The format of the log on standard error: lines of text, or one JSON object per event.

pk.decompressed.bytes.max LONG 134217728 valid=1048576..2147483647
    The most bytes that the records of a compressed batch may expand to. A producer's batch that
    expands to more is refused with MESSAGE_TOO_LARGE; the check may need about that much memory.

pk.log.scrub.bytes.per.second LONG 4194304 valid=1.. dynamic=cluster
    How much a broker reads and fetches to find and replace damaged segments, in bytes a second.

pk.log.scrub.interval.ms LONG 604800000 valid=0.. dynamic=cluster
    How often the closed segments of each log are read and their checksums compared, in ms; 0 turns
    it off.

pk.loop.slice.us INT 1000 valid=1..
    How long the broker serves one connection before it turns to the others, in microseconds.

pk.memory.bytes.max LONG 1073741824 valid=1..
    How much a broker that keeps everything in memory may hold before it refuses produce requests,
    in bytes.

pk.metadata.log.bytes.between.snapshots LONG 20971520 valid=1..
    How much is appended to the metadata log before a snapshot is made, in bytes.

pk.metadata.store STRING embedded
    Where the metadata log lives: embedded is a local directory of a single controller;
    etcd://HOST:PORT,HOST:PORT/PATH and zookeeper://HOST:PORT,HOST:PORT/PATH let any of several
    nodes be the controller.

pk.metrics.listener STRING null
    HOST:PORT where the node serves its metrics to Prometheus (/metrics), and its state (/healthz,
    /readyz). Anyone who can reach it can read them: use a loopback or an internal address. Needs
    the extra metrics.

pk.produce.fast.path.enable BOOLEAN true
    Whether usual Produce requests are appended together, without being decoded. Tests turn it off
    to compare: answers and logs are the same without it, only slower.

pk.remote.access.key STRING null
    The identity of this node at the store pk.remote.url: an access key of S3, or an account of
    Azure. Without it, the store's usual environment applies (AWS_ACCESS_KEY_ID,
    GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, the machine's role).

pk.remote.endpoint STRING null
    The address of a store that is not the provider's own, such as http://minio:9000.

pk.remote.metadata.partitions INT 50 valid=1..
    The partitions of __remote_log_metadata, when it is created.

pk.remote.metadata.replication.factor SHORT 3 valid=1..
    The replicas of __remote_log_metadata, when it is created.

pk.remote.region STRING null
    The region of the store at pk.remote.url.

pk.remote.secret.key PASSWORD null
    The secret of pk.remote.access.key; for Google Cloud Storage a service account's key, as JSON.

pk.remote.session.token PASSWORD null
    The session token of a temporary pk.remote.access.key.

pk.remote.url STRING null
    Where closed segments are copied to: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX,
    or file:///PATH. Needs remote.log.storage.system.enable and the extra tiered.

pk.request.bytes.max LONG 268435456 valid=1..
    How many bytes of requests all connections may hold in memory together.

pk.request.elements.max INT 100000 valid=1..
    How many elements all arrays of one request may have together. The connection
    of a client that sends a larger request is closed.

pk.sasl.oauthbearer.unsecured BOOLEAN false
    Whether OAUTHBEARER accepts unsigned tokens, so that a client can claim any name, as Apache
    Kafka does without a provider's keys. For tests and development only.

pk.security.ignore BOOLEAN false
    Whether the broker starts even if its config asks for security that pk does not provide, such as
    a Java authorizer. Everybody can then read and write everything.

pk.zookeeper.session.timeout.ms INT 6000 valid=1..
    How long a node may be silent before ZooKeeper takes the controller's leadership from it, in ms.

unclean.recovery.strategy STRING Balanced valid=Balanced,Aggressive,None dynamic=cluster
    Which replicas a partition waits for if all in-sync replicas came back without a clean shutdown:
    Balanced waits for all of them, Aggressive until unclean.recovery.timeout.ms, None for the last
    leader. Then the replica with the longest log leads.

unclean.recovery.timeout.ms LONG 300000 valid=1.. dynamic=cluster
    How long the strategy Aggressive waits for replicas, in ms.
"""
"""pk's own keys: for features that Kafka does not have, and for those planned in KIP-966."""

DYNAMIC_ONLY: Final = """
follower.replication.throttled.rate LONG 9223372036854775807 valid=0.. dynamic=cluster
    How fast this broker's throttled replicas copy from their leaders, in bytes a second.

leader.replication.throttled.rate LONG 9223372036854775807 valid=0.. dynamic=cluster
    How fast this broker sends to throttled replicas, in bytes a second.

replica.alter.log.dirs.io.max.bytes.per.second LONG 9223372036854775807 valid=0.. dynamic=cluster
    How fast replicas move between this broker's directories, in bytes a second.
"""
"""Keys that are only set in the cluster, never in a file."""
