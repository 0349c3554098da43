"""Keys that are accepted, stored and described, but have no effect, because pk does not have their
features (yet).

Remove keys from here when their feature is implemented; a test compares these lists with the keys
that the code reads.
"""

from collections.abc import Mapping
from typing import Final

PLUGIN_KEYS: Final = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Keys that Kafka's own authorizer reads, although none of Kafka's tables lists them."""

UNSUPPORTED: Final[Mapping[str, tuple[str, ...]]] = {
    "two-phase commit": ("transaction.two.phase.commit.",),
    "Java plug-ins of remote storage": (
        "remote.log.manager.follower.",
        "remote.log.manager.thread.",
        "remote.log.metadata.",
        "remote.log.reader.max.",
        "remote.log.storage.manager.",
    ),
    "followers that start from remote storage": ("follower.fetch.last.tiered.",),
    "KRaft quorums": (
        "controller.quorum.append.",
        "controller.quorum.auto.",
        "controller.quorum.election.",
        "controller.quorum.fetch.timeout.",
        "metadata.",
    ),
    "replication": (
        "controller.socket.",
        "replica.socket.receive.",
        "socket.connection.setup.",
    ),
    "metrics": ("metrics.",),
    "socket buffers": ("socket.receive.buffer.", "socket.send.buffer."),
    "Java's classes for TLS": (
        "security.providers",
        "ssl.allow.",
        "ssl.engine.",
        "ssl.keymanager.",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.",
        "ssl.trustmanager.",
    ),
    "Kerberos and SASL's Java classes": (
        "sasl.client.callback.",
        "sasl.kerberos.kinit.",
        "sasl.kerberos.min.",
        "sasl.kerberos.ticket.",
        "sasl.login.callback.",
        "sasl.login.class",
        "sasl.oauthbearer.assertion.",
        "sasl.oauthbearer.jwt.",
        "sasl.server.callback.",
    ),
    "principals": ("principal.builder.",),
    "classes for quotas": ("client.quota.",),
    "Java plug-ins": (
        "alter.config.policy.",
        "config.providers",
        "create.topic.policy.",
        "kafka.metrics.",
        "metric.reporters",
    ),
    "Java's threads and queues": (
        "background.threads",
        "delete.records.purgatory.",
        "early.start.listeners",
        "fetch.purgatory.",
        "group.coordinator.append.",
        "group.coordinator.background.threads",
        "group.coordinator.cached.",
        "group.coordinator.threads",
        "num.io.threads",
        "num.network.threads",
        "num.replica.alter.log.dirs.threads",
        "producer.purgatory.",
        "queued.max.",
        "share.coordinator.append.",
        "share.coordinator.cached.",
        "share.coordinator.threads",
        "share.fetch.purgatory.",
    ),
}
"""The prefixes of the broker keys for each unsupported feature."""

TOPIC_KEYS_NOT_ENFORCED: Final[tuple[str, ...]] = ()
"""Topic keys that are validated, stored and described, but have no effect."""
