"""Typed views of the configuration of a broker and of a topic.

`BrokerConfig` is the configuration of one broker: its static keys (a file, options), overridden by
the cluster's keys for all brokers, and those by its keys for this broker. `TopicConfig` is the
configuration of one topic's logs: its own keys override its broker's (`retention.ms` overrides
`log.retention.ms`, `.minutes`, `.hours`). Attributes are parsed on first use and are plain
attributes afterwards; both views are immutable, so a change creates a new one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar, cast, overload

from pk.core.config import roles
from pk.core.config.keys import ConfigError, Value
from pk.core.config.listeners import (
    Listener,
    advertised_listeners,
    check_listeners,
    controller_login,
    inter_broker_listener_name,
    inter_broker_login,
    listeners_of,
)
from pk.core.config.log_limits import EVERY_DIRECTORY, check_cleaners, check_cordoned
from pk.core.config.tables import (
    TOPIC_KEYS,
    TOPIC_SYNONYMS,
    any_broker_key,
    broker_key,
)
from pk.core.config.unknown_keys import (
    ListenerNames,
    check_unknown_keys,
    keys_without_reader,
)

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTORS: Final = (RACK_AWARE_SELECTOR, "org.apache.kafka.common.replica.LeaderSelector")
"""The values of `replica.selector.class` (KIP-392): Kafka's own two classes."""

CONSUMER_ASSIGNORS: Final = ("uniform", "range")
"""The values of `group.consumer.assignors`: Kafka's own two classes."""

SHARE_ASSIGNORS: Final = ("simple",)
"""The values of `group.share.assignors`."""

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The value of `authorizer.class.name`: Kafka's own class."""

_UNIT_MS: Final = {"minutes": 60_000, "hours": 3_600_000}


T = TypeVar("T")


class Setting(Generic[T]):
    """An attribute with a key's value, parsed at the first access and then kept in the instance."""

    def __init__(self, compute: "str | Callable[[Any], T]") -> None:
        self._compute = compute
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "Setting[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        compute = self._compute
        value = instance[compute] if isinstance(compute, str) else compute(instance)
        # From now on, the instance's own dictionary is checked first, without the descriptor or
        # parsing.
        instance.__dict__[self._name] = value
        return value


class BrokerConfig:
    """The configuration of one broker. `config["any.key"]` is the parsed value of any key;
    attributes are the keys that pk uses.

    A key that is not set has its default. All given values were parsed on creation.
    """

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] | None = None,
        dynamic: Mapping[str, str] | None = None,
    ) -> None:
        """Create a configuration. Raises ConfigError for a refused value. Keys that pk does not
        read are kept (`unknown_keys.py`)."""
        self.static = dict(static)
        """The values given at startup; DescribeConfigs reports their source as
        STATIC_BROKER_CONFIG."""
        self.dynamic_default = dict(dynamic_default or {})
        """The values that the cluster stores for all brokers."""
        self.dynamic = dict(dynamic or {})
        """The values that the cluster stores for this broker."""
        self._explicit = {**self.static, **self.dynamic_default, **self.dynamic}
        self._values: dict[str, Value] = {}
        for name, text in self._explicit.items():
            self._values[name] = any_broker_key(name).parse(text)
        self.max_connections_per_ip_overrides = _per_ip(self)
        """The maximum number of connections of each address, if it differs from
        `max.connections.per.ip`."""
        self._topics = TopicConfig({}, self)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "BrokerConfig":
        """Parse a mapping of keys to text, and check it as a whole (see `check`)."""
        config = cls(given)
        config.check()
        return config

    def with_dynamic(
        self, dynamic_default: Mapping[str, str], dynamic: Mapping[str, str]
    ) -> "BrokerConfig":
        """Return the configuration of the same broker after the cluster's keys changed.

        Unlike a start, this never fails: a value that this program cannot parse (because a newer
        controller wrote it) is left out, because the contents of the metadata log must not crash a
        broker.
        """
        return BrokerConfig(self.static, _parsable(dynamic_default), _parsable(dynamic))

    def __getitem__(self, name: str) -> Value:
        if name in self._values:
            return self._values[name]
        value = self._values[name] = broker_key(name).default_value()
        return value

    def explicit(self, name: str) -> str | None:
        """Return the text of the value for `name`, or None if it is the default."""
        return self._explicit.get(name)

    def topic(self, overrides: Mapping[str, str]) -> "TopicConfig":
        """Return the configuration of a topic with its own keys on this broker."""
        return TopicConfig(overrides, self) if overrides else self._topics

    @property
    def keys_without_reader(self) -> list[str]:
        """Return the keys in the broker's file that pk does not read."""
        return keys_without_reader(cast(ListenerNames, self))

    def check(self) -> None:
        """Raise ConfigError if keys contradict each other, or are typos of known keys."""
        check_unknown_keys(cast(ListenerNames, self))
        if self.node_id >= 0 and self["broker.id"] not in (-1, self.node_id):
            raise ConfigError("node.id and broker.id are both given and differ")
        check_listeners(self.listeners, self.advertised_listeners)
        roles.check(cast(roles.RoleKeys, self))
        if self.replica_selector_class not in (None, "", *REPLICA_SELECTORS):
            raise ConfigError(
                f"replica.selector.class must be one of {', '.join(REPLICA_SELECTORS)}"
            )
        if stray := set(self.group_consumer_assignors) - set(CONSUMER_ASSIGNORS):
            raise ConfigError(
                f"group.consumer.assignors has {min(stray)}, which is not one of "
                f"{', '.join(CONSUMER_ASSIGNORS)}"
            )
        if not self.group_consumer_assignors:
            raise ConfigError("group.consumer.assignors must name at least one")
        if self.group_share_assignors != SHARE_ASSIGNORS:
            raise ConfigError(
                "group.share.assignors must be simple: share groups have no other assignor"
            )
        if self.offsets_topic_compression_codec not in range(5):
            raise ConfigError("offsets.topic.compression.codec must be between 0 and 4")
        check_cordoned(cast(tuple[str, ...], self["cordoned.log.dirs"]), self.log_dirs)
        check_cleaners(self.log_cleaner_threads, self.log_cleaner_dedupe_buffer_size)
        if self.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
            raise ConfigError(
                f"authorizer.class.name must be {STANDARD_AUTHORIZER}: pk has no other authorizer"
            )
        if self.authorizer_class_name:
            _ = self.super_users
        _ = self.pk_metrics_listener
        if self.remote_log_storage_system_enable and not self.pk_remote_url:
            raise ConfigError(
                "remote.log.storage.system.enable needs pk.remote.url, such as s3://bucket/prefix"
            )
        self._topics.check()

    # Identity and location
    node_id = Setting[int](lambda c: c["node.id"] if c["node.id"] is not None else c["broker.id"])
    broker_rack = Setting["str | None"]("broker.rack")
    log_dirs = Setting[tuple[str, ...]](lambda c: c["log.dirs"] or c["log.dir"])
    listeners = Setting[tuple[Listener, ...]](lambda c: listeners_of(c, "listeners"))
    advertised_listeners = Setting[tuple[Listener, ...]](advertised_listeners)
    inter_broker_listener_name = Setting[str](inter_broker_listener_name)
    inter_broker_login = Setting[tuple[str, str, str]](inter_broker_login)
    """How brokers connect to each other: listener, security protocol, SASL mechanism."""
    controller_login = Setting[tuple[str, str, str]](controller_login)
    """How brokers connect to controllers."""

    # Roles: broker, controller or both, and how nodes find each other (`roles.py`)
    process_roles = Setting[tuple[str, ...]](roles.roles)
    is_broker = Setting[bool](lambda c: roles.BROKER in c.process_roles)
    is_controller = Setting[bool](lambda c: roles.CONTROLLER in c.process_roles)
    broker_listeners = Setting[tuple[Listener, ...]](
        lambda c: tuple(li for li in c.listeners if li.name not in c.controller_listener_names)
    )
    controller_listener_names = Setting[tuple[str, ...]](roles.listener_names)
    controller_listeners = Setting[tuple[Listener, ...]](
        lambda c: roles.controllers_of(c.listeners, c.controller_listener_names)
    )
    controller_quorum_bootstrap_servers = Setting[tuple[tuple[str, int], ...]](
        roles.bootstrap_servers
    )
    controller_quorum_fetch_max_bytes = Setting[int]("controller.quorum.fetch.max.bytes")
    controller_quorum_fetch_snapshot_max_bytes = Setting[int](
        "controller.quorum.fetch.snapshot.max.bytes"
    )
    controller_quorum_request_timeout_ms = Setting[int]("controller.quorum.request.timeout.ms")
    controller_quorum_retry_backoff_ms = Setting[int]("controller.quorum.retry.backoff.ms")
    controller_quorum_voters = Setting[tuple[roles.Voter, ...]](roles.voters)
    initial_broker_registration_timeout_ms = Setting[int]("initial.broker.registration.timeout.ms")

    # The server
    connections_max_idle_ms = Setting[int]("connections.max.idle.ms")
    max_connection_creation_rate = Setting[int]("max.connection.creation.rate")
    max_connections = Setting[int]("max.connections")
    max_connections_per_ip = Setting[int]("max.connections.per.ip")
    socket_listen_backlog_size = Setting[int]("socket.listen.backlog.size")
    socket_request_max_bytes = Setting[int]("socket.request.max.bytes")
    request_timeout_ms = Setting[int]("request.timeout.ms")
    pk_authentication_timeout_ms = Setting[int]("pk.authentication.timeout.ms")
    connection_failed_authentication_delay_ms = Setting[int](
        "connection.failed.authentication.delay.ms"
    )
    delegation_token_secret_key = Setting[str | None]("delegation.token.secret.key")
    delegation_token_expiry_time_ms = Setting[int]("delegation.token.expiry.time.ms")
    delegation_token_expiry_check_interval_ms = Setting[int](
        "delegation.token.expiry.check.interval.ms"
    )
    delegation_token_max_lifetime_ms = Setting[int]("delegation.token.max.lifetime.ms")
    pk_connection_max_parked = Setting[int]("pk.connection.max.parked")
    pk_decompressed_bytes_max = Setting[int]("pk.decompressed.bytes.max")
    pk_etcd_password = Setting[str | None]("pk.etcd.password")
    pk_etcd_session_timeout_ms = Setting[int]("pk.etcd.session.timeout.ms")
    pk_etcd_ssl_key_password = Setting[str | None]("pk.etcd.ssl.key.password")
    pk_etcd_ssl_keystore_location = Setting[str | None]("pk.etcd.ssl.keystore.location")
    pk_etcd_ssl_truststore_location = Setting[str | None]("pk.etcd.ssl.truststore.location")
    pk_etcd_user = Setting[str | None]("pk.etcd.user")
    pk_faults_enable = Setting[bool]("pk.faults.enable")
    telemetry_max_bytes = Setting[int]("telemetry.max.bytes")
    pk_log_format = Setting[str]("pk.log.format")
    pk_log_scrub_bytes_per_second = Setting[int]("pk.log.scrub.bytes.per.second")
    pk_log_scrub_interval_ms = Setting[int]("pk.log.scrub.interval.ms")
    pk_loop_slice_us = Setting[int]("pk.loop.slice.us")
    pk_memory_bytes_max = Setting[int]("pk.memory.bytes.max")
    pk_metadata_log_bytes_between_snapshots = Setting[int](
        "pk.metadata.log.bytes.between.snapshots"
    )
    pk_metadata_store = Setting[str]("pk.metadata.store")
    pk_metrics_listener = Setting["tuple[str, int] | None"](lambda c: _metrics_listener(c))
    """The host and the port."""
    pk_produce_fast_path_enable = Setting[bool]("pk.produce.fast.path.enable")
    pk_request_bytes_max = Setting[int]("pk.request.bytes.max")
    pk_request_elements_max = Setting[int]("pk.request.elements.max")
    pk_sasl_oauthbearer_unsecured = Setting[bool]("pk.sasl.oauthbearer.unsecured")
    pk_security_ignore = Setting[bool]("pk.security.ignore")
    pk_zookeeper_session_timeout_ms = Setting[int]("pk.zookeeper.session.timeout.ms")

    # Authorization
    authorizer_class_name = Setting[str](lambda c: c["authorizer.class.name"].strip())
    super_users = Setting[frozenset[str]](lambda c: _super_users(c))
    allow_everyone_if_no_acl_found = Setting[bool](
        lambda c: (c["allow.everyone.if.no.acl.found"] or "").strip().lower() == "true"
    )

    # Topics
    auto_create_topics_enable = Setting[bool]("auto.create.topics.enable")
    default_replication_factor = Setting[int]("default.replication.factor")
    delete_topic_enable = Setting[bool]("delete.topic.enable")
    max_request_partition_size_limit = Setting[int]("max.request.partition.size.limit")
    message_max_bytes = Setting[int]("message.max.bytes")
    num_partitions = Setting[int]("num.partitions")
    num_recovery_threads_per_data_dir = Setting[int]("num.recovery.threads.per.data.dir")

    # Fetch and replication
    unclean_recovery_strategy = Setting[str]("unclean.recovery.strategy")
    unclean_recovery_timeout_ms = Setting[int]("unclean.recovery.timeout.ms")
    auto_leader_rebalance_enable = Setting[bool]("auto.leader.rebalance.enable")
    broker_heartbeat_interval_ms = Setting[int]("broker.heartbeat.interval.ms")
    alter_log_dirs_replication_quota_window_num = Setting[int](
        "alter.log.dirs.replication.quota.window.num"
    )
    alter_log_dirs_replication_quota_window_size_seconds = Setting[int](
        "alter.log.dirs.replication.quota.window.size.seconds"
    )
    broker_session_timeout_ms = Setting[int]("broker.session.timeout.ms")
    controlled_shutdown_enable = Setting[bool]("controlled.shutdown.enable")
    fetch_max_bytes = Setting[int]("fetch.max.bytes")
    follower_replication_throttled_rate = Setting[int]("follower.replication.throttled.rate")
    leader_replication_throttled_rate = Setting[int]("leader.replication.throttled.rate")
    leader_imbalance_check_interval_seconds = Setting[int](
        "leader.imbalance.check.interval.seconds"
    )
    max_incremental_fetch_session_cache_slots = Setting[int](
        "max.incremental.fetch.session.cache.slots"
    )
    num_replica_fetchers = Setting[int]("num.replica.fetchers")
    replica_fetch_backoff_ms = Setting[int]("replica.fetch.backoff.ms")
    replica_fetch_max_bytes = Setting[int]("replica.fetch.max.bytes")
    replica_fetch_min_bytes = Setting[int]("replica.fetch.min.bytes")
    replica_fetch_response_max_bytes = Setting[int]("replica.fetch.response.max.bytes")
    replica_fetch_wait_max_ms = Setting[int]("replica.fetch.wait.max.ms")
    replica_high_watermark_checkpoint_interval_ms = Setting[int](
        "replica.high.watermark.checkpoint.interval.ms"
    )
    replica_lag_time_max_ms = Setting[int]("replica.lag.time.max.ms")
    replica_alter_log_dirs_io_max_bytes_per_second = Setting[int](
        "replica.alter.log.dirs.io.max.bytes.per.second"
    )
    replica_selector_class = Setting["str | None"]("replica.selector.class")
    replica_socket_timeout_ms = Setting[int]("replica.socket.timeout.ms")
    controller_quota_window_num = Setting[int]("controller.quota.window.num")
    controller_quota_window_size_seconds = Setting[int]("controller.quota.window.size.seconds")
    quota_window_num = Setting[int]("quota.window.num")
    quota_window_size_seconds = Setting[int]("quota.window.size.seconds")
    replication_quota_window_num = Setting[int]("replication.quota.window.num")
    replication_quota_window_size_seconds = Setting[int]("replication.quota.window.size.seconds")

    # Logs
    log_cleaner_backoff_ms = Setting[int]("log.cleaner.backoff.ms")
    log_cleaner_dedupe_buffer_size = Setting[int]("log.cleaner.dedupe.buffer.size")
    log_cleaner_enable = Setting[bool]("log.cleaner.enable")
    log_cleaner_io_buffer_load_factor = Setting[float]("log.cleaner.io.buffer.load.factor")
    log_cleaner_io_buffer_size = Setting[int]("log.cleaner.io.buffer.size")
    log_cleaner_io_max_bytes_per_second = Setting[float]("log.cleaner.io.max.bytes.per.second")
    log_cleaner_threads = Setting[int]("log.cleaner.threads")
    cordoned_log_dirs = Setting[tuple[str, ...]](
        lambda c: (
            c.log_dirs if EVERY_DIRECTORY in c["cordoned.log.dirs"] else c["cordoned.log.dirs"]
        )
    )
    log_dir_failure_timeout_ms = Setting[int]("log.dir.failure.timeout.ms")
    log_flush_offset_checkpoint_interval_ms = Setting[int](
        "log.flush.offset.checkpoint.interval.ms"
    )
    log_flush_start_offset_checkpoint_interval_ms = Setting[int](
        "log.flush.start.offset.checkpoint.interval.ms"
    )
    log_retention_check_interval_ms = Setting[int]("log.retention.check.interval.ms")
    producer_id_expiration_ms = Setting[int]("producer.id.expiration.ms")

    # Remote storage
    pk_remote_access_key = Setting[str | None]("pk.remote.access.key")
    pk_remote_endpoint = Setting[str | None]("pk.remote.endpoint")
    pk_remote_metadata_partitions = Setting[int]("pk.remote.metadata.partitions")
    pk_remote_metadata_replication_factor = Setting[int]("pk.remote.metadata.replication.factor")
    pk_remote_region = Setting[str | None]("pk.remote.region")
    pk_remote_secret_key = Setting[str | None]("pk.remote.secret.key")
    pk_remote_session_token = Setting[str | None]("pk.remote.session.token")
    pk_remote_url = Setting[str | None]("pk.remote.url")
    remote_fetch_max_wait_ms = Setting[int]("remote.fetch.max.wait.ms")
    remote_list_offsets_request_timeout_ms = Setting[int]("remote.list.offsets.request.timeout.ms")
    remote_log_index_file_cache_total_size_bytes = Setting[int](
        "remote.log.index.file.cache.total.size.bytes"
    )
    remote_log_manager_copier_thread_pool_size = Setting[int](
        "remote.log.manager.copier.thread.pool.size"
    )
    remote_log_manager_copy_max_bytes_per_second = Setting[int](
        "remote.log.manager.copy.max.bytes.per.second"
    )
    remote_log_manager_copy_quota_window_num = Setting[int](
        "remote.log.manager.copy.quota.window.num"
    )
    remote_log_manager_copy_quota_window_size_seconds = Setting[int](
        "remote.log.manager.copy.quota.window.size.seconds"
    )
    remote_log_manager_expiration_thread_pool_size = Setting[int](
        "remote.log.manager.expiration.thread.pool.size"
    )
    remote_log_manager_fetch_max_bytes_per_second = Setting[int](
        "remote.log.manager.fetch.max.bytes.per.second"
    )
    remote_log_manager_fetch_quota_window_num = Setting[int](
        "remote.log.manager.fetch.quota.window.num"
    )
    remote_log_manager_fetch_quota_window_size_seconds = Setting[int](
        "remote.log.manager.fetch.quota.window.size.seconds"
    )
    remote_log_manager_task_interval_ms = Setting[int]("remote.log.manager.task.interval.ms")
    remote_log_reader_threads = Setting[int]("remote.log.reader.threads")
    remote_log_storage_system_enable = Setting[bool]("remote.log.storage.system.enable")

    # Groups
    group_consumer_assignment_interval_ms = Setting[int]("group.consumer.assignment.interval.ms")
    group_consumer_assignors = Setting[tuple[str, ...]]("group.consumer.assignors")
    group_consumer_heartbeat_interval_ms = Setting[int]("group.consumer.heartbeat.interval.ms")
    group_consumer_max_assignment_interval_ms = Setting[int](
        "group.consumer.max.assignment.interval.ms"
    )
    group_consumer_max_heartbeat_interval_ms = Setting[int](
        "group.consumer.max.heartbeat.interval.ms"
    )
    group_consumer_max_session_timeout_ms = Setting[int]("group.consumer.max.session.timeout.ms")
    group_consumer_max_size = Setting[int]("group.consumer.max.size")
    group_consumer_migration_policy = Setting[str](
        lambda c: c["group.consumer.migration.policy"].lower()
    )
    group_consumer_min_assignment_interval_ms = Setting[int](
        "group.consumer.min.assignment.interval.ms"
    )
    group_consumer_min_heartbeat_interval_ms = Setting[int](
        "group.consumer.min.heartbeat.interval.ms"
    )
    group_consumer_min_session_timeout_ms = Setting[int]("group.consumer.min.session.timeout.ms")
    group_consumer_session_timeout_ms = Setting[int]("group.consumer.session.timeout.ms")
    group_coordinator_rebalance_protocols = Setting[tuple[str, ...]](
        "group.coordinator.rebalance.protocols"
    )
    group_initial_rebalance_delay_ms = Setting[int]("group.initial.rebalance.delay.ms")
    group_max_session_timeout_ms = Setting[int]("group.max.session.timeout.ms")
    group_max_size = Setting[int]("group.max.size")
    group_min_session_timeout_ms = Setting[int]("group.min.session.timeout.ms")
    offset_metadata_max_bytes = Setting[int]("offset.metadata.max.bytes")
    offsets_commit_timeout_ms = Setting[int]("offsets.commit.timeout.ms")
    offsets_load_buffer_size = Setting[int]("offsets.load.buffer.size")
    offsets_retention_check_interval_ms = Setting[int]("offsets.retention.check.interval.ms")
    offsets_retention_minutes = Setting[int]("offsets.retention.minutes")
    offsets_topic_compression_codec = Setting[int]("offsets.topic.compression.codec")
    offsets_topic_num_partitions = Setting[int]("offsets.topic.num.partitions")
    offsets_topic_replication_factor = Setting[int]("offsets.topic.replication.factor")
    offsets_topic_segment_bytes = Setting[int]("offsets.topic.segment.bytes")

    # Transactions
    add_partitions_to_txn_retry_backoff_max_ms = Setting[int](
        "add.partitions.to.txn.retry.backoff.max.ms"
    )
    add_partitions_to_txn_retry_backoff_ms = Setting[int]("add.partitions.to.txn.retry.backoff.ms")
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting[int](
        "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    )
    transaction_max_timeout_ms = Setting[int]("transaction.max.timeout.ms")
    transaction_partition_verification_enable = Setting[bool](
        "transaction.partition.verification.enable"
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting[int](
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    transaction_state_log_load_buffer_size = Setting[int]("transaction.state.log.load.buffer.size")
    transaction_state_log_min_isr = Setting[int]("transaction.state.log.min.isr")
    transaction_state_log_num_partitions = Setting[int]("transaction.state.log.num.partitions")
    transaction_state_log_replication_factor = Setting[int](
        "transaction.state.log.replication.factor"
    )
    transaction_state_log_segment_bytes = Setting[int]("transaction.state.log.segment.bytes")
    transactional_id_expiration_ms = Setting[int]("transactional.id.expiration.ms")

    # Share groups
    group_share_assignors = Setting[tuple[str, ...]]("group.share.assignors")
    group_share_assignment_interval_ms = Setting[int]("group.share.assignment.interval.ms")
    group_share_delivery_count_limit = Setting[int]("group.share.delivery.count.limit")
    group_share_heartbeat_interval_ms = Setting[int]("group.share.heartbeat.interval.ms")
    group_share_max_assignment_interval_ms = Setting[int]("group.share.max.assignment.interval.ms")
    group_share_max_delivery_count_limit = Setting[int]("group.share.max.delivery.count.limit")
    group_share_max_heartbeat_interval_ms = Setting[int]("group.share.max.heartbeat.interval.ms")
    group_share_max_partition_max_record_locks = Setting[int](
        "group.share.max.partition.max.record.locks"
    )
    group_share_max_record_lock_duration_ms = Setting[int](
        "group.share.max.record.lock.duration.ms"
    )
    group_share_max_session_timeout_ms = Setting[int]("group.share.max.session.timeout.ms")
    group_share_max_share_sessions = Setting[int]("group.share.max.share.sessions")
    group_share_max_size = Setting[int]("group.share.max.size")
    group_share_min_assignment_interval_ms = Setting[int]("group.share.min.assignment.interval.ms")
    group_share_min_delivery_count_limit = Setting[int]("group.share.min.delivery.count.limit")
    group_share_min_heartbeat_interval_ms = Setting[int]("group.share.min.heartbeat.interval.ms")
    group_share_min_partition_max_record_locks = Setting[int](
        "group.share.min.partition.max.record.locks"
    )
    group_share_min_record_lock_duration_ms = Setting[int](
        "group.share.min.record.lock.duration.ms"
    )
    group_share_min_session_timeout_ms = Setting[int]("group.share.min.session.timeout.ms")
    group_share_partition_max_record_locks = Setting[int]("group.share.partition.max.record.locks")
    group_share_record_lock_duration_ms = Setting[int]("group.share.record.lock.duration.ms")
    group_share_session_timeout_ms = Setting[int]("group.share.session.timeout.ms")
    share_coordinator_load_buffer_size = Setting[int]("share.coordinator.load.buffer.size")
    share_coordinator_snapshot_update_records_per_snapshot = Setting[int](
        "share.coordinator.snapshot.update.records.per.snapshot"
    )
    share_coordinator_state_topic_compression_codec = Setting[int](
        "share.coordinator.state.topic.compression.codec"
    )
    share_coordinator_state_topic_min_isr = Setting[int]("share.coordinator.state.topic.min.isr")
    share_coordinator_state_topic_num_partitions = Setting[int](
        "share.coordinator.state.topic.num.partitions"
    )
    share_coordinator_state_topic_replication_factor = Setting[int](
        "share.coordinator.state.topic.replication.factor"
    )
    share_coordinator_state_topic_segment_bytes = Setting[int](
        "share.coordinator.state.topic.segment.bytes"
    )
    share_coordinator_write_timeout_ms = Setting[int]("share.coordinator.write.timeout.ms")

    # Streams groups
    group_streams_assignment_interval_ms = Setting[int]("group.streams.assignment.interval.ms")
    group_streams_heartbeat_interval_ms = Setting[int]("group.streams.heartbeat.interval.ms")
    group_streams_initial_rebalance_delay_ms = Setting[int](
        "group.streams.initial.rebalance.delay.ms"
    )
    group_streams_max_assignment_interval_ms = Setting[int](
        "group.streams.max.assignment.interval.ms"
    )
    group_streams_max_heartbeat_interval_ms = Setting[int](
        "group.streams.max.heartbeat.interval.ms"
    )
    group_streams_max_session_timeout_ms = Setting[int]("group.streams.max.session.timeout.ms")
    group_streams_max_size = Setting[int]("group.streams.max.size")
    group_streams_max_standby_replicas = Setting[int]("group.streams.max.standby.replicas")
    group_streams_min_assignment_interval_ms = Setting[int](
        "group.streams.min.assignment.interval.ms"
    )
    group_streams_min_heartbeat_interval_ms = Setting[int](
        "group.streams.min.heartbeat.interval.ms"
    )
    group_streams_min_session_timeout_ms = Setting[int]("group.streams.min.session.timeout.ms")
    group_streams_num_standby_replicas = Setting[int]("group.streams.num.standby.replicas")
    group_streams_session_timeout_ms = Setting[int]("group.streams.session.timeout.ms")


class TopicConfig:
    """The configuration of one topic's logs: its own keys override its broker's.
    `config["any.key"]` is the value of any topic key."""

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        self.overrides = dict(overrides)
        """The topic's own keys, as text."""
        self._broker = broker

    def __getitem__(self, name: str) -> Value:
        key = TOPIC_KEYS[name]
        text = self.overrides.get(name)
        if text is not None:
            try:
                return key.parse(text)
            except ConfigError:
                # The value was stored under other bounds. The default is better than a partition
                # that cannot load.
                pass
        return self.default(name)

    def default(self, name: str) -> Value:
        """Return the topic's value without its own key `name`."""
        for synonym in TOPIC_SYNONYMS.get(name, ()):
            value = self._broker[synonym]
            if value is None:
                continue
            unit_ms = _UNIT_MS.get(synonym.rpartition(".")[2])
            if unit_ms is None:
                return value
            assert isinstance(value, int)
            # Negative hours and minutes all mean "unlimited", which is -1 for the topic key.
            return value * unit_ms if value >= 0 else -1
        return TOPIC_KEYS[name].default_value()

    def check(self) -> None:
        """Raise ConfigError if keys contradict each other."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                "conflict topic config setting min.compaction.lag.ms "
                f"({self.min_compaction_lag_ms}) > max.compaction.lag.ms "
                f"({self.max_compaction_lag_ms})"
            )

    cleanup_policy = Setting[tuple[str, ...]]("cleanup.policy")
    compact = Setting[bool](lambda c: "compact" in c["cleanup.policy"])
    delete = Setting[bool](lambda c: "delete" in c["cleanup.policy"])
    compression_gzip_level = Setting[int]("compression.gzip.level")
    compression_lz4_level = Setting[int]("compression.lz4.level")
    compression_type = Setting[str]("compression.type")
    compression_zstd_level = Setting[int]("compression.zstd.level")
    delete_retention_ms = Setting[int]("delete.retention.ms")
    file_delete_delay_ms = Setting[int]("file.delete.delay.ms")
    flush_messages = Setting[int]("flush.messages")
    follower_replication_throttled_replicas = Setting[tuple[str, ...]](
        "follower.replication.throttled.replicas"
    )
    flush_ms = Setting[int]("flush.ms")
    index_interval_bytes = Setting[int]("index.interval.bytes")
    leader_replication_throttled_replicas = Setting[tuple[str, ...]](
        "leader.replication.throttled.replicas"
    )
    local_retention_bytes = Setting[int](
        lambda c: (
            c.retention_bytes if c["local.retention.bytes"] == -2 else c["local.retention.bytes"]
        )
    )
    local_retention_ms = Setting[int](
        lambda c: c.retention_ms if c["local.retention.ms"] == -2 else c["local.retention.ms"]
    )
    max_compaction_lag_ms = Setting[int]("max.compaction.lag.ms")
    max_message_bytes = Setting[int]("max.message.bytes")
    message_timestamp_after_max_ms = Setting[int]("message.timestamp.after.max.ms")
    message_timestamp_before_max_ms = Setting[int]("message.timestamp.before.max.ms")
    message_timestamp_type = Setting[str]("message.timestamp.type")
    log_append_time = Setting[bool](lambda c: c["message.timestamp.type"] == "LogAppendTime")
    min_cleanable_dirty_ratio = Setting[float]("min.cleanable.dirty.ratio")
    min_compaction_lag_ms = Setting[int]("min.compaction.lag.ms")
    min_insync_replicas = Setting[int]("min.insync.replicas")
    pk_decompressed_bytes_max = Setting[int](lambda c: c._broker.pk_decompressed_bytes_max)
    preallocate = Setting[bool]("preallocate")
    remote_log_copy_disable = Setting[bool]("remote.log.copy.disable")
    remote_log_delete_on_disable = Setting[bool]("remote.log.delete.on.disable")
    remote_storage_enable = Setting[bool]("remote.storage.enable")
    retention_bytes = Setting[int]("retention.bytes")
    retention_ms = Setting[int]("retention.ms")
    segment_bytes = Setting[int]("segment.bytes")
    segment_index_bytes = Setting[int]("segment.index.bytes")
    segment_jitter_ms = Setting[int]("segment.jitter.ms")
    segment_ms = Setting[int]("segment.ms")
    unclean_leader_election_enable = Setting[bool]("unclean.leader.election.enable")


def _parsable(given: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, text in given.items():
        try:
            BrokerConfig({name: text})
        except ConfigError:
            continue
        kept[name] = text
    return kept


def _per_ip(config: BrokerConfig) -> dict[str, int]:
    limits: dict[str, int] = {}
    for pair in filter(None, cast(str, config["max.connections.per.ip.overrides"]).split(",")):
        host, colon, count = pair.strip().rpartition(":")
        if not colon or not count.isascii() or not count.isdigit() or len(count) > 9:
            raise ConfigError(f"max.connections.per.ip.overrides: {pair!r} is not HOST:COUNT")
        limits[host] = int(count)
    return limits


def _super_users(config: BrokerConfig) -> frozenset[str]:
    """Parse the principals in `super.users`, which semicolons separate, because names may contain
    commas."""
    text = cast(str, config["super.users"] or "")
    found = [part.strip() for part in text.split(";") if part.strip()]
    for principal in found:
        kind, colon, _ = principal.partition(":")
        if not colon or not kind:
            raise ConfigError(f"super.users: {principal!r} has no type: write User:{principal}")
    return frozenset(found)


def _metrics_listener(config: BrokerConfig) -> tuple[str, int] | None:
    """Parse the address in `pk.metrics.listener`. Raises ConfigError."""
    text = cast("str | None", config["pk.metrics.listener"])
    if text is None:
        return None
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise ConfigError(f"pk.metrics.listener must be HOST:PORT, not {text[:80]!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
