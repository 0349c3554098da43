"""The meaning of each of Kafka's errors, and a remedy: `pk help errors`.

A line is `NAME | meaning | remedy`; the commands in a remedy are pk's.
"""

from typing import NamedTuple

from pk.core.errors import RETRIABLE, ErrorCode

_TABLE = """
UNKNOWN_SERVER_ERROR | The broker failed unexpectedly. | The broker's log has the traceback; `--trace` shows which request it was.
NONE | No error. | Nothing.
OFFSET_OUT_OF_RANGE | The offset is before the first record or beyond the last: retention or a trim deleted the record. | `pk topics offsets TOPIC` shows the valid range; `pk groups reset-offsets GROUP` moves a group; auto.offset.reset decides for consumers.
CORRUPT_MESSAGE | A batch's checksum or size is wrong, in transit or on disk. | Try again; if it repeats, run `pk log verify DIR` on the broker.
UNKNOWN_TOPIC_OR_PARTITION | The topic or partition does not exist, or the broker's metadata is not up to date yet. | `pk topics list`; just after a creation, `pk wait topic TOPIC`.
INVALID_FETCH_SIZE | The fetch has an invalid size. | Check fetch.max.bytes and max.partition.fetch.bytes of the consumer.
LEADER_NOT_AVAILABLE | The partition has no leader yet, or an election is in progress. | Clients try again; `pk isr TOPIC` shows whether it lasts.
NOT_LEADER_OR_FOLLOWER | The leader has changed; the client's metadata is old. | Clients refresh their metadata and try again; if it lasts, `pk isr TOPIC` and `pk cluster health`.
REQUEST_TIMED_OUT | The broker did not finish in the request's time, such as waiting for replicas. | `pk isr --under-replicated`; request.timeout.ms gives more time.
BROKER_NOT_AVAILABLE | The requested broker is not up. | `pk brokers list`.
REPLICA_NOT_AVAILABLE | The replica is missing or not ready. | Clients try again; `pk isr TOPIC`.
MESSAGE_TOO_LARGE | The batch is larger than max.message.bytes of the topic. | `pk configs describe topic TOPIC -c max.message.bytes`; make batches smaller, compress, or raise it.
STALE_CONTROLLER_EPOCH | A request came from a controller that has been replaced. | Between brokers only; resolves itself.
OFFSET_METADATA_TOO_LARGE | The metadata of a committed offset is longer than offset.metadata.max.bytes. | Commit less metadata, or raise it.
NETWORK_EXCEPTION | The connection was lost before the answer. | Clients try again; `--trace` shows where.
COORDINATOR_LOAD_IN_PROGRESS | The group's or transaction's coordinator has just moved and is loading its state. | Clients try again; this takes seconds, with large __consumer_offsets a minute.
COORDINATOR_NOT_AVAILABLE | No broker coordinates this group or transaction now. | `pk isr -i __consumer_offsets`; is there a broker for each of its replicas?
NOT_COORDINATOR | The coordinator has moved to another broker. | Clients find it and try again.
INVALID_TOPIC_EXCEPTION | The topic name is invalid, or clients may not write to the topic. | Names are letters, digits, `.`, `_` and `-`, at most 249; internal topics do not accept records.
RECORD_LIST_TOO_LARGE | The batch is larger than a segment (segment.bytes). | Make batches smaller, or raise segment.bytes.
NOT_ENOUGH_REPLICAS | Fewer replicas are in sync than min.insync.replicas: nothing was written. | `pk isr --under-min-isr`; `pk why partition TOPIC/N`.
NOT_ENOUGH_REPLICAS_AFTER_APPEND | The leader wrote it, but then fewer replicas were in sync than min.insync.replicas. | The record may have been stored: an idempotent producer can retry safely; `pk isr --under-min-isr`.
INVALID_REQUIRED_ACKS | acks is not -1 (all), 0 or 1. | Set acks to all, 1 or 0.
ILLEGAL_GENERATION | The member's generation of the group is over: it was too slow for a rebalance. | Raise max.poll.interval.ms or do less work per poll; `pk groups describe GROUP -m`.
INCONSISTENT_GROUP_PROTOCOL | The member shares no assignor or protocol type with the others of its group. | Give all members a common partition.assignment.strategy; another kind of program may use the group id.
INVALID_GROUP_ID | The group id is empty or invalid. | Set group.id.
UNKNOWN_MEMBER_ID | The group knows no such member: it left, was removed, or the group was deleted. | The client joins again; if it repeats, check session.timeout.ms and max.poll.interval.ms.
INVALID_SESSION_TIMEOUT | session.timeout.ms is outside what the broker allows. | Set it between group.min.session.timeout.ms and group.max.session.timeout.ms of the broker.
REBALANCE_IN_PROGRESS | The group is reassigning its partitions. | The client joins again; `pk groups describe GROUP -s` shows whether it ends.
INVALID_COMMIT_OFFSET_SIZE | The offset commit is too large. | Commit fewer partitions at once, with less metadata.
TOPIC_AUTHORIZATION_FAILED | The user may not do this to the topic. | Ask for the operation on the topic (Read, Write, Describe, Create, Alter, Delete).
GROUP_AUTHORIZATION_FAILED | The user may not do this to the group. | Ask for Read (or Describe, Delete) on the group.
CLUSTER_AUTHORIZATION_FAILED | The user may not do this to the cluster. | Ask for the operation on the cluster (Alter, AlterConfigs, ClusterAction, Create, Describe, IdempotentWrite).
INVALID_TIMESTAMP | The record's time is too far from the broker's clock. | Check the clocks, and the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms.
UNSUPPORTED_SASL_MECHANISM | The broker does not know the client's SASL mechanism. | Compare sasl.mechanism with the broker's sasl.enabled.mechanisms.
ILLEGAL_SASL_STATE | The request is not valid at this point of authentication. | Does the listener use SASL? Check security.protocol on both sides.
UNSUPPORTED_VERSION | The broker and the client have no common version of this request. | The broker is too old or too new; `pk cluster features` and `pk brokers list -f wide` show its version.
TOPIC_ALREADY_EXISTS | A topic with that name exists, or one that differs only in `.` and `_`. | `pk topics describe TOPIC`; --if-not-exists ignores this.
INVALID_PARTITIONS | The number of partitions is invalid, or not larger than the current one. | Partitions can only be added; `pk topics describe TOPIC` shows their number.
INVALID_REPLICATION_FACTOR | The number of replicas is invalid, or larger than the number of live brokers. | `pk brokers list`; fewer replicas with -r.
INVALID_REPLICA_ASSIGNMENT | The brokers for the partitions are invalid: unknown, repeated, or a different number per partition. | `pk brokers list`; check --replica-assignment or the plan.
INVALID_CONFIG | A config's value is invalid. | The message names it; `pk help configs KEY` shows valid values.
NOT_CONTROLLER | The broker is not the controller. | Clients ask the controller; `pk cluster quorum`.
INVALID_REQUEST | The request contradicts itself or the protocol. | The message says why: the client has a bug, or the broker is older; `--trace` shows the request's version.
UNSUPPORTED_FOR_MESSAGE_FORMAT | The topic's old message format cannot do this. | Records written by clients older than 0.11 have no headers and no transactions.
POLICY_VIOLATION | A policy of the cluster refuses it. | The message says which; create.topic.policy.class.name and alter.config.policy.class.name set the policies.
OUT_OF_ORDER_SEQUENCE_NUMBER | The idempotent producer's sequence has a gap: earlier records were lost. | The producer cannot continue; look for its earlier errors, and for lost data on the broker.
DUPLICATE_SEQUENCE_NUMBER | The broker has these records already. | Producers treat this as success.
INVALID_PRODUCER_EPOCH | Another producer with the same transactional.id took over, or the broker aborted the transaction. | Use one producer per transactional.id; raise transaction.timeout.ms if it timed out.
INVALID_TXN_STATE | The transaction is in a state that does not allow this. | The client must call in order: begin, send, commit or abort.
INVALID_PRODUCER_ID_MAPPING | The producer's id and its transactional.id do not belong together. | The id expired (transactional.id.expiration.ms); restart the producer.
INVALID_TRANSACTION_TIMEOUT | transaction.timeout.ms is longer than the broker allows. | Lower it, or raise transaction.max.timeout.ms of the broker.
CONCURRENT_TRANSACTIONS | The previous transaction is still ending. | Clients try again; if it lasts, `pk transactions producers TOPIC` shows the producer.
TRANSACTION_COORDINATOR_FENCED | A transaction marker came from a coordinator that was replaced. | Between brokers only; resolves itself.
TRANSACTIONAL_ID_AUTHORIZATION_FAILED | The user may not use this transactional.id. | Ask for Write (and Describe) on the transactional id.
SECURITY_DISABLED | The cluster has no authorizer, so there are no ACLs. | Set authorizer.class.name on the brokers.
OPERATION_NOT_ATTEMPTED | It was not tried, because another part of the same request failed. | Fix the part that failed.
KAFKA_STORAGE_ERROR | The disk or directory under the partition failed. | `pk brokers logdirs`; the broker's log says what failed.
LOG_DIR_NOT_FOUND | The broker has no such log directory. | `pk brokers logdirs ID` lists them.
SASL_AUTHENTICATION_FAILED | The user or the password is wrong, or the token is invalid. | Check the client's sasl.* keys; `pk profile show` shows what a profile sends.
UNKNOWN_PRODUCER_ID | The broker has forgotten the producer: its records are gone from the partition. | Check producer.id.expiration.ms and the topic's retention; newer producers recover by themselves.
REASSIGNMENT_IN_PROGRESS | The partition is being moved. | `pk reassign status`; `pk wait reassign`.
DELEGATION_TOKEN_AUTH_DISABLED | The brokers have no delegation.token.secret.key. | Set it on every broker.
DELEGATION_TOKEN_NOT_FOUND | The token does not exist. | It may have expired; create a new one.
DELEGATION_TOKEN_OWNER_MISMATCH | The token belongs to somebody else. | Ask its owner or a renewer.
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED | Tokens are not issued over this connection. | Connect with SASL or TLS client certificates, not with a token.
DELEGATION_TOKEN_AUTHORIZATION_FAILED | The user may not see or change this token. | Ask for Describe on the token.
DELEGATION_TOKEN_EXPIRED | The token has expired. | Create a new one; renew it in time.
INVALID_PRINCIPAL_TYPE | The principal type is not supported. | Use User:NAME.
NON_EMPTY_GROUP | The group has members. | Stop them first; `pk groups describe GROUP -m` lists them; `pk wait group-empty GROUP`.
GROUP_ID_NOT_FOUND | The group does not exist. | `pk groups list`.
FETCH_SESSION_ID_NOT_FOUND | The broker has dropped the fetch session. | The client starts a new one; raise max.incremental.fetch.session.cache.slots if it happens often.
INVALID_FETCH_SESSION_EPOCH | The fetch session is out of step. | The client starts a new one.
LISTENER_NOT_FOUND | A broker has no listener with the name of the listener that the client used. | Give every broker the same listener names in advertised.listeners.
TOPIC_DELETION_DISABLED | The brokers do not delete topics. | Set delete.topic.enable=true on the brokers.
FENCED_LEADER_EPOCH | The client knows an older leader than the broker. | Clients refresh their metadata and try again.
UNKNOWN_LEADER_EPOCH | The client knows a newer leader than the broker: the broker's metadata is behind. | Clients try again; `pk cluster quorum` shows how far behind it is.
UNSUPPORTED_COMPRESSION_TYPE | The client or the topic cannot take this compression. | zstd needs Kafka 2.1 or newer on both sides.
STALE_BROKER_EPOCH | The broker has restarted since; the request is from before. | Between brokers only; resolves itself.
OFFSET_NOT_AVAILABLE | The new leader does not know yet how far its followers are. | Clients try again.
MEMBER_ID_REQUIRED | The member must join again with the id it was just given. | Clients do that by themselves.
PREFERRED_LEADER_NOT_AVAILABLE | The preferred replica is down or not in sync, so it cannot lead. | `pk isr TOPIC`; `pk partitions list --not-preferred`.
GROUP_MAX_SIZE_REACHED | The group has the maximum number of members. | Raise group.max.size of the broker; members without partitions are idle anyway.
FENCED_INSTANCE_ID | Another member with the same group.instance.id took over. | Give each member its own group.instance.id.
ELIGIBLE_LEADERS_NOT_AVAILABLE | No replica that may lead is alive. | Start a broker (`pk brokers list`); or, losing records, `pk partitions elect-leaders --unclean`.
ELECTION_NOT_NEEDED | The requested leader leads already. | Nothing.
NO_REASSIGNMENT_IN_PROGRESS | The partition is not being moved. | `pk reassign status` shows moves in progress.
GROUP_SUBSCRIBED_TO_TOPIC | The group still reads that topic. | Stop its members, or let them subscribe to something else.
INVALID_RECORD | A record breaks a rule: no key in a compacted topic, or its lengths and counts are wrong. | `pk configs describe topic TOPIC -c cleanup.policy`; compacted topics need keys.
UNSTABLE_OFFSET_COMMIT | A transaction's commit of these offsets is not decided yet. | Clients try again; a transaction that hangs: `pk doctor --check hanging-transactions`.
THROTTLING_QUOTA_EXCEEDED | More creations and deletions than the quota allows. | Clients wait and try again; controller_mutation_rate is the quota.
PRODUCER_FENCED | Another producer with the same transactional.id took over. | Use one producer for each transactional.id.
RESOURCE_NOT_FOUND | The user, quota or resource does not exist. | Check its name and type.
DUPLICATE_RESOURCE | The request names the same resource twice. | Name it once.
UNACCEPTABLE_CREDENTIAL | The credential is invalid: empty, or with too few or too many iterations. | SCRAM needs 4,096 to 16,384 iterations and a name that is not empty.
INCONSISTENT_VOTER_SET | Controllers disagree on who votes. | Compare controller.quorum.voters of all.
INVALID_UPDATE_VERSION | The new version is not one after the old, or not supported. | `pk cluster features`.
FEATURE_UPDATE_FAILED | The feature cannot go to that level. | The message says why; `pk cluster features` shows what each broker supports.
PRINCIPAL_DESERIALIZATION_FAILURE | A forwarded request's principal cannot be read. | Give all brokers the same principal.builder.class.
SNAPSHOT_NOT_FOUND | The controller has no such snapshot of the metadata. | Between nodes only; resolves itself.
POSITION_OUT_OF_RANGE | A request for a snapshot began beyond its end. | Between nodes only; resolves itself.
UNKNOWN_TOPIC_ID | The broker knows no topic with this id: deleted, or created again under the same name. | Clients refresh their metadata; `pk topics describe TOPIC` shows the id it has now.
DUPLICATE_BROKER_REGISTRATION | Another broker with this id is up. | Give each broker its own node.id; or wait until the old one's session is over.
BROKER_ID_NOT_REGISTERED | The cluster knows no broker with this id. | `pk brokers list`.
INCONSISTENT_TOPIC_ID | The topic's id differs from the one on disk. | Clients refresh their metadata; on a broker, the data directory may belong to another cluster.
INCONSISTENT_CLUSTER_ID | The node belongs to another cluster. | Compare cluster.id in meta.properties; two clusters may share an address.
TRANSACTIONAL_ID_NOT_FOUND | The transactional.id does not exist. | It may have expired; check its spelling.
FETCH_SESSION_TOPIC_ID_ERROR | The fetch session mixes topic ids and names. | The client starts a new one.
INELIGIBLE_REPLICA | The replica may not join the in-sync replicas: its broker is fenced or shutting down. | Between brokers only; `pk brokers list`.
NEW_LEADER_ELECTED | The change to the in-sync replicas led to another leader. | Between brokers only; resolves itself.
OFFSET_MOVED_TO_TIERED_STORAGE | The records are in remote storage now. | Between brokers only; consumers read them all the same.
FENCED_MEMBER_EPOCH | The member's epoch is over: the coordinator has removed it. | The client joins again; check its max.poll.interval.ms.
UNRELEASED_INSTANCE_ID | Another member has this group.instance.id. | Wait for it to end, or give each member its own.
UNSUPPORTED_ASSIGNOR | The coordinator does not know the assignor, or the members share none. | Compare group.remote.assignor of the client with group.consumer.assignors of the broker.
STALE_MEMBER_EPOCH | The member's epoch is behind; it commits for partitions it may have lost. | The client catches up with its next heartbeat.
MISMATCHED_ENDPOINT_TYPE | A request for controllers was sent to a broker, or the other way round. | Use the address of the right listener.
UNSUPPORTED_ENDPOINT_TYPE | The node does not answer for that kind of endpoint. | Ask a broker.
UNKNOWN_CONTROLLER_ID | The cluster knows no controller with this id. | `pk cluster quorum`.
UNKNOWN_SUBSCRIPTION_ID | The client pushes metrics for a subscription that has changed. | The client asks for the new one.
TELEMETRY_TOO_LARGE | The client pushed more metrics than telemetry.max.bytes. | Subscribe to fewer metrics, or raise it.
INVALID_REGISTRATION | The broker's registration is invalid: wrong listeners, features or directories. | Its log names what is wrong.
TRANSACTION_ABORTABLE | The transaction must be aborted; the producer can continue with the next. | Call abortTransaction, and retry.
INVALID_RECORD_STATE | The record of a share group was acknowledged already, or its time ran out. | Acknowledge within group.share.record.lock.duration.ms.
SHARE_SESSION_NOT_FOUND | The broker has dropped the share session. | The client starts a new one.
INVALID_SHARE_SESSION_EPOCH | The share session is out of step. | The client starts a new one.
FENCED_STATE_EPOCH | A share group's state was written by a newer coordinator. | Between brokers only; resolves itself.
INVALID_VOTER_KEY | The voter's directory is not the one that the quorum knows. | `pk cluster quorum -f wide` shows the directory ids.
DUPLICATE_VOTER | The node is a voter already. | `pk cluster quorum`.
VOTER_NOT_FOUND | The node is not a voter. | `pk cluster quorum`.
INVALID_REGULAR_EXPRESSION | The subscription's pattern is not a regular expression (RE2 syntax). | Check its brackets; RE2 has no look-around.
REBOOTSTRAP_REQUIRED | The client's metadata is too old to continue. | Clients start again from bootstrap.servers.
STREAMS_INVALID_TOPOLOGY | The streams application's topology is invalid: topics are missing or contradict each other. | The message names them.
STREAMS_INVALID_TOPOLOGY_EPOCH | The topology's epoch is invalid. | All instances of the application need the same version.
STREAMS_TOPOLOGY_FENCED | The instance runs an older topology than its group. | Update it to the version of the others.
SHARE_SESSION_LIMIT_REACHED | The broker has the maximum number of share sessions. | Clients try again; raise group.share.max.share.sessions of the broker if it lasts.
"""


class ErrorHelp(NamedTuple):
    """An error, its meaning, and a remedy."""

    code: int
    name: str
    retriable: bool
    meaning: str
    step: str


def error_help() -> list[ErrorHelp]:
    """Every error, in the order of the codes."""
    found: list[ErrorHelp] = []
    for line in _TABLE.strip().splitlines():
        name, meaning, step = (part.strip() for part in line.split(" | "))
        code = ErrorCode[name]
        found.append(ErrorHelp(int(code), name, code in RETRIABLE, meaning, step))
    return sorted(found)
