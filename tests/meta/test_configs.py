"""Changing keys of topics, brokers, groups and subscriptions; describing the sources of their
values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from each import for_each
from meta.world import APPEND, DELETE, SET, SUBTRACT, alter, cluster, create, topic

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.meta import configs, describe
from pk.core.meta.describe import Source, Synonym
from pk.core.meta.events import BROKER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages import alter_configs as legacy
from pk.core.wire.messages import incremental_alter_configs as incremental

IMAGE, _ = create(cluster(None), topic("t", own={"retention.ms": "9"}))
KEPT = {"retention.ms": "9"}
DURATION = "by_duration:P1DT2H"


@for_each(
    "kind, name, change, own",
    [
        (TOPIC, "t", ("flush.ms", SET, "5"), KEPT | {"flush.ms": "5"}),
        (TOPIC, "t", ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        (TOPIC, "t", ("retention.ms", DELETE, None), {}),
        (TOPIC, "t", ("retention.ms", DELETE, "x"), {}),
        (TOPIC, "t", ("never.heard.of", DELETE, None), KEPT),
        (
            TOPIC,
            "t",
            ("cleanup.policy", APPEND, "compact"),
            KEPT | {"cleanup.policy": "delete,compact"},
        ),
        (TOPIC, "t", ("cleanup.policy", APPEND, "delete"), KEPT | {"cleanup.policy": "delete"}),
        (TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"), KEPT | {"cleanup.policy": ""}),
        (TOPIC, "t", ("cleanup.policy", SUBTRACT, "shred"), KEPT | {"cleanup.policy": "delete"}),
        (BROKER, "1", ("log.retention.ms", SET, "5"), {"log.retention.ms": "5"}),
        (BROKER, "", ("log.retention.ms", SET, "5"), {"log.retention.ms": "5"}),
        (
            BROKER,
            "1",
            ("log.cleanup.policy", APPEND, "compact"),
            {"log.cleanup.policy": "delete,compact"},
        ),
        (BROKER, "1", ("sasl.enabled.mechanisms", SET, "GSSAPI"), None),
        (BROKER, "1", ("leader.replication.throttled.rate", SET, "5"), None),
        (BROKER, "1", ("listener.name.x.ssl.keystore.type", SET, "JKS"), None),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "46000"), None),
        (GROUP, "g", ("share.auto.offset.reset", SET, DURATION), None),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "100"), None),
        (CLIENT_METRICS, "m", ("match", SET, "client_id=a.*,client_source_port=90.."), None),
    ],
)
def test_a_key_is_changed(kind: int, name: str, change: Any, own: dict[str, str] | None) -> None:
    after, answer = alter(IMAGE, kind, name, change)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    key, _, value = change
    assert after.config(kind, name) == (own if own is not None else {key: value})
    same, answer = alter(IMAGE, kind, name, change, validate_only=True)
    assert answer.error_code == 0 and same.offset == IMAGE.offset


INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST


REFUSED: list[Any] = [
    (TOPIC, "t", [("nope", SET, "5")], INVALID_CONFIG),
    (TOPIC, "t", [("retention.ms", SET, "abc")], INVALID_CONFIG),
    (TOPIC, "t", [("retention.ms", SET, None)], INVALID_REQUEST),
    (TOPIC, "t", [("cleanup.policy", APPEND, None)], INVALID_REQUEST),
    (TOPIC, "t", [("cleanup.policy", APPEND, " , ")], INVALID_CONFIG),
    (TOPIC, "t", [("cleanup.policy", APPEND, "shred")], INVALID_CONFIG),
    (TOPIC, "t", [("retention.ms", APPEND, "5")], INVALID_CONFIG),
    (TOPIC, "t", [("retention.ms", SUBTRACT, "5")], INVALID_CONFIG),
    (TOPIC, "t", [("nope", APPEND, "5")], INVALID_CONFIG),
    (TOPIC, "t", [("retention.ms", 7, "5")], INVALID_REQUEST),
    (TOPIC, "t", [("flush.ms", SET, "1"), ("flush.ms", SET, "2")], INVALID_REQUEST),
    (
        TOPIC,
        "t",
        [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "3")],
        INVALID_CONFIG,
    ),
    (TOPIC, "no", [("flush.ms", SET, "5")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "", [("flush.ms", SET, "5")], INVALID_REQUEST),
    (TOPIC, "a b", [("flush.ms", SET, "5")], ErrorCode.INVALID_TOPIC_EXCEPTION),
    (TOPIC, "..", [("flush.ms", SET, "5")], ErrorCode.INVALID_TOPIC_EXCEPTION),
    (TOPIC, "t" * 250, [("flush.ms", SET, "5")], ErrorCode.INVALID_TOPIC_EXCEPTION),
    (BROKER, "x", [("log.retention.ms", SET, "5")], INVALID_REQUEST),
    (BROKER, "1", [("log.retention.ms", SET, "abc")], INVALID_REQUEST),
    (BROKER, "", [("log.retention.ms", SET, "0")], INVALID_REQUEST),
    (BROKER, "", [("log.roll.ms", SET, "0")], INVALID_REQUEST),
    (BROKER, "", [("log.roll.jitter.ms", SET, "-1")], INVALID_REQUEST),
    (BROKER, "", [("log.cleaner.dedupe.buffer.size", SET, "1048576")], INVALID_REQUEST),
    (BROKER, "1", [("max.connections.per.ip.overrides", SET, "h")], INVALID_REQUEST),
    (BROKER, "", [("max.connections.per.ip.overrides", SET, "h:x")], INVALID_REQUEST),
    (BROKER, "1", [("node.id", SET, "5")], INVALID_REQUEST),
    (BROKER, "", [("sasl.enabled.mechanisms", SET, "PLAIN")], INVALID_REQUEST),
    (BROKER, "1", [("listeners", SET, "PLAINTEXT://:1")], INVALID_REQUEST),
    (BROKER, "1", [("made.up", APPEND, "5")], INVALID_CONFIG),
    (BROKER, "1", [("made.up", SET, "5"), ("node.id", SET, "5")], INVALID_REQUEST),
    (BROKER, "", [("listener.name.x.made.up", SET, "5")], INVALID_REQUEST),
    (BROKER, "", [("listener.name.x.num.partitions", SET, "5")], INVALID_REQUEST),
    (BROKER, "1", [("listener.name.x.num.io.threads", SET, "x")], INVALID_REQUEST),
    (BROKER, "1", [("ssl.principal.mapping.rules", SET, "DEFAULT")], INVALID_REQUEST),
    (GROUP, "", [("consumer.session.timeout.ms", SET, "46000")], INVALID_REQUEST),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], INVALID_CONFIG),
    (GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "50000")], INVALID_CONFIG),
    (GROUP, "g", [("nope", SET, "1")], INVALID_CONFIG),
    (GROUP, "g", [("share.auto.offset.reset", SET, "foo")], INVALID_CONFIG),
    (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:P")], INVALID_CONFIG),
    (GROUP, "g", [("share.isolation.level", SET, "foo")], INVALID_CONFIG),
    (GROUP, "g", [("streams.num.standby.replicas", SET, "3")], INVALID_CONFIG),
    (CLIENT_METRICS, "", [("metrics", SET, "a")], INVALID_REQUEST),
    (CLIENT_METRICS, "m", [("nope", SET, "a")], INVALID_REQUEST),
    (CLIENT_METRICS, "m", [("interval.ms", SET, "1")], INVALID_REQUEST),
    (CLIENT_METRICS, "m", [("match", SET, "x")], INVALID_CONFIG),
    (CLIENT_METRICS, "m", [("match", SET, "foo=bar")], INVALID_CONFIG),
    (CLIENT_METRICS, "m", [("match", SET, "client_id=[")], INVALID_CONFIG),
    (0, "x", [("a", SET, "b")], INVALID_REQUEST),
    (99, "x", [("a", SET, "b")], INVALID_REQUEST),
]


TAKEN: list[Any] = [
    (BROKER, "1", ("made.up", "5")),
    (BROKER, "1", ("retention.ms", "not a number")),
    (BROKER, "", ("made.up", "5")),
    (BROKER, "1", ("num.io.thread", "5")),
    (BROKER, "1", ("made.up", "")),
    (BROKER, "1", ("listener.name.x.made.up", "5")),
    (BROKER, "1", ("listener.name.x.num.partitions", "5")),
    (BROKER, "1", ("listener.name.x.ssl.principal.mapping.rules", "DEFAULT")),
    (BROKER, "1", ("listener.name.x.connections.max.reauth.ms", "5")),
    (BROKER, "", ("listener.name.x.max.connections", "5")),
    (BROKER, "1", ("sasl.kerberos.min.time.before.relogin", "5")),
]
"""Changes of brokers that Kafka stores, though it knows nothing of the key, or does nothing with
it: a plug-in may read it."""


@for_each(("kind", "name", "change"), TAKEN)
def test_a_key_that_nothing_reads_is_stored(kind: int, name: str, change: tuple[str, str]) -> None:
    key, value = change
    after, answer = alter(IMAGE, kind, name, (key, SET, value))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert after.config(kind, name) == {key: value}
    config = BrokerConfig({}).with_dynamic({}, {key: value})
    assert config.explicit(key) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.x.ssl.principal.mapping.rules", "RULE:(/$1/"),
        ("sasl.kerberos.principal.to.local.rules", "DEFAULT,RULE:[1:$1](*)"),
        ("listener.name.x.sasl.kerberos.principal.to.local.rules", "RULE:[1:$2]"),
        ("super.users", "User:a"),
        ("pk.nothing", "1"),
    ],
)
def test_a_broken_rule_and_a_key_of_the_file_are_refused(name: str, value: str) -> None:
    after, answer = alter(IMAGE, BROKER, "1", (name, SET, value))
    assert answer.error_code and name in answer.error_message and after.offset == IMAGE.offset


PROMISES_SECURITY: list[Any] = [
    (BROKER, "1", [("sasl.enabled.mechanisms", SET, "PLAIN,MINE")], INVALID_REQUEST),
    (BROKER, "1", [("sasl.enabled.mechanisms", APPEND, "MINE")], INVALID_REQUEST),
    (BROKER, "1", [("sasl.jaas.config", SET, "hush")], INVALID_REQUEST),
    (BROKER, "1", [("ssl.protocol", SET, "TLSv1.1")], INVALID_REQUEST),
    (BROKER, "", [("principal.builder.class", SET, "org.example.Mine")], INVALID_REQUEST),
    (BROKER, "1", [("listener.name.x.ssl.provider", SET, "Mine")], INVALID_REQUEST),
    (BROKER, "1", [("listener.security.protocol.map", SET, "X:SSL")], INVALID_REQUEST),
]
"""Security features of Kafka that pk does not have yet."""


@for_each("kind, name, changes, code", [*REFUSED, *PROMISES_SECURITY])
def test_a_change_is_refused(kind: int, name: str, changes: Any, code: ErrorCode) -> None:
    after, answer = alter(IMAGE, kind, name, *changes)
    assert answer.error_code == code and answer.error_message
    assert after.configs == IMAGE.configs and after.offset == IMAGE.offset


PROMISE = "ssl.engine.factory.class"


def test_a_key_that_promises_security_is_refused_by_both_requests() -> None:
    """A broker that stored it would continue without TLS, although its operator expects TLS."""
    name = f"listener.name.a.{PROMISE}"
    _, answer = alter(IMAGE, BROKER, "1", (name, SET, "hush"))
    refused = [answer]
    whole = legacy.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[legacy.AlterableConfig(name=name, value="hush")],
    )
    decision = configs.alter(
        IMAGE,
        legacy.AlterConfigsRequest(resources=[whole], validate_only=False),
        BrokerConfig({}),
    )
    assert isinstance(decision.reply, legacy.AlterConfigsResponse)
    assert not decision.records
    refused += decision.reply.responses
    for one in refused:
        assert one.error_code == INVALID_REQUEST
        assert f"{name} is not supported: it requires that" in one.error_message
        assert "hush" not in one.error_message


def test_a_promise_of_security_is_stored_where_its_lack_is_known() -> None:
    known = BrokerConfig.parse({"pk.security.ignore": "true"})
    after, answer = alter(IMAGE, BROKER, "1", (PROMISE, SET, "/k.p12"), config=known)
    assert answer.error_code == 0 and after.config(BROKER, "1") == {PROMISE: "/k.p12"}


def test_a_promise_that_is_stored_already_can_be_removed_and_hinders_nothing() -> None:
    known = BrokerConfig.parse({"pk.security.ignore": "true"})
    stored, _ = alter(IMAGE, BROKER, "1", (PROMISE, SET, "/k.p12"), config=known)
    after, answer = alter(stored, BROKER, "1", ("log.retention.ms", SET, "5"))
    assert answer.error_code == 0
    after, answer = alter(after, BROKER, "1", (PROMISE, DELETE, None))
    assert answer.error_code == 0 and after.config(BROKER, "1") == {"log.retention.ms": "5"}


def test_a_heartbeat_stays_below_its_session() -> None:
    config = BrokerConfig.parse({"group.consumer.max.heartbeat.interval.ms": "90000"})
    change = ("consumer.heartbeat.interval.ms", SET, "45000")
    _, answer = alter(IMAGE, GROUP, "g", change, config=config)
    assert answer.error_code == INVALID_CONFIG
    assert "consumer.session.timeout.ms must be above" in answer.error_message


def test_setting_what_is_set_writes_nothing() -> None:
    after, answer = alter(IMAGE, TOPIC, "t", ("retention.ms", SET, "9"))
    assert answer.error_code == 0 and after.offset == IMAGE.offset


def test_a_resource_named_twice_is_refused_twice() -> None:
    one = incremental.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[incremental.AlterableConfig(name="flush.ms", config_operation=0, value="1")],
    )
    other = incremental.AlterConfigsResource(resource_type=GROUP, resource_name="g")
    request = incremental.IncrementalAlterConfigsRequest(resources=[one, other, one])
    decision = configs.incremental_alter(IMAGE, request, BrokerConfig({}))
    codes = [r.error_code for r in decision.reply.responses]
    assert codes == [INVALID_REQUEST, 0, INVALID_REQUEST] and decision.records == []


def replace(image: MetadataImage, name: str, own: Mapping[str, str | None]) -> Any:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[legacy.AlterableConfig(name=k, value=v) for k, v in own.items()],
            )
        ]
    )
    decision = configs.alter(image, request, BrokerConfig({}))
    return image.apply(decision.records), decision.reply.responses[0]


def test_the_legacy_request_replaces_all_keys() -> None:
    after, answer = replace(IMAGE, "t", {"flush.ms": "1"})
    assert answer.error_code == 0 and after.topic_configs("t") == {"flush.ms": "1"}
    after, answer = replace(IMAGE, "t", {})
    assert answer.error_code == 0 and after.configs == {}
    for own, code in (
        ({"flush.ms": None}, INVALID_REQUEST),
        ({"nope": "1"}, INVALID_CONFIG),
    ):
        after, answer = replace(IMAGE, "t", own)
        assert answer.error_code == code and after.offset == IMAGE.offset


# --- describing ---


def test_a_topics_key_names_all_that_it_hides() -> None:
    config = BrokerConfig.parse({"log.retention.ms": "1"}).with_dynamic(
        {"log.retention.ms": "2"}, {"log.retention.ms": "3"}
    )
    described = describe.describe_topic({"retention.ms": "4"}, config)["retention.ms"]
    assert (described.value, described.source) == ("4", Source.TOPIC)
    assert described.synonyms == [
        Synonym("retention.ms", "4", Source.TOPIC),
        Synonym("log.retention.ms", "3", Source.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "2", Source.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.ms", "1", Source.STATIC_BROKER),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    ]
    # The cluster's keys decide, though the topic has none of its own.
    described = describe.describe_topic({}, config)["retention.ms"]
    assert (described.value, described.source) == ("3", Source.DYNAMIC_BROKER)


@pytest.mark.parametrize(
    "key, value, synonyms",
    [
        ("segment.ms", "604800000", []),
        ("retention.ms", "604800000", []),
        ("flush.ms", "9223372036854775807", []),
        ("remote.storage.enable", "false", []),
        ("max.message.bytes", "1048588", [("message.max.bytes", "1048588", Source.DEFAULT)]),
        ("compression.type", "producer", [("compression.type", "producer", Source.DEFAULT)]),
    ],
)
def test_a_default_is_described_as_kafka_does(key: str, value: str, synonyms: list[Any]) -> None:
    described = describe.describe_topic({}, BrokerConfig({}))[key]
    assert (described.value, described.source) == (value, Source.DEFAULT)
    assert [tuple(s) for s in described.synonyms] == synonyms


def test_a_brokers_keys_are_described_with_those_of_its_listeners() -> None:
    config = BrokerConfig.parse(
        {
            "node.id": "1",
            "ssl.key.password": "hush",
            "listener.name.x.ssl.keystore.type": "PKCS12",
            "log.retention.minutes": "5",
        }
    )
    described = describe.describe_broker(config)
    assert len(described) == len(describe.BROKER_KEYS) + 1
    secret = described["ssl.key.password"]
    assert secret.value is None and secret.key.sensitive
    assert secret.synonyms == [Synonym("ssl.key.password", None, Source.STATIC_BROKER)]
    assert described["node.id"].read_only and not described["log.retention.ms"].read_only
    assert described["node.id"].value == "1" and described["node.id"].source == Source.STATIC_BROKER
    of_listener = described["listener.name.x.ssl.keystore.type"]
    assert of_listener.key.name == "listener.name.x.ssl.keystore.type"  # as brokers answer
    assert [tuple(s) for s in of_listener.synonyms] == [
        ("listener.name.x.ssl.keystore.type", "PKCS12", Source.STATIC_BROKER),
        ("ssl.keystore.type", "JKS", Source.DEFAULT),
    ]
    # Kafka describes a key by the synonyms from its own name on.
    assert described["log.retention.ms"].synonyms == []
    assert [s.name for s in described["log.retention.minutes"].synonyms] == [
        "log.retention.minutes",
        "log.retention.hours",
    ]
    assert described["log.retention.hours"].source == Source.DEFAULT


def test_the_clusters_default_is_described_where_it_is_set() -> None:
    own = {"min.insync.replicas": "1", "ssl.key.password": "hush", "from.the.future": "1"}
    described = describe.describe_broker_default(own)
    unknown = described.pop("from.the.future")
    assert (unknown.value, unknown.key.sensitive, unknown.read_only) == (None, True, True)
    assert set(described) == {"min.insync.replicas", "ssl.key.password"}
    assert described["min.insync.replicas"].synonyms == [
        Synonym("min.insync.replicas", "1", Source.DYNAMIC_DEFAULT_BROKER)
    ]
    assert described["ssl.key.password"].value is None
    assert described["ssl.key.password"].synonyms[0].value is None


def test_groups_and_subscriptions_are_described() -> None:
    config = BrokerConfig.parse({"group.consumer.session.timeout.ms": "50000"})
    described = describe.describe_group({"consumer.heartbeat.interval.ms": "6000"}, config)
    session = described["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", Source.STATIC_BROKER)
    beat = described["consumer.heartbeat.interval.ms"]
    assert [tuple(s) for s in beat.synonyms] == [
        ("consumer.heartbeat.interval.ms", "6000", Source.GROUP),
        ("group.consumer.heartbeat.interval.ms", "5000", Source.DEFAULT),
    ]
    assert described["share.auto.offset.reset"].synonyms == [
        Synonym("share.auto.offset.reset", "latest", Source.DEFAULT)
    ]
    described = describe.describe_client_metrics({"interval.ms": "100"})
    assert (described["interval.ms"].value, described["interval.ms"].source) == (
        "100",
        Source.CLIENT_METRICS,
    )
    assert described["match"] == describe.Described(
        describe.CLIENT_METRICS_KEYS["match"], "", Source.DEFAULT, []
    )


def test_keys_are_chosen_by_name() -> None:
    described = describe.describe_topic({}, BrokerConfig({}))
    assert [d.key.name for d in describe.chosen(described, ["retention.ms", "no", "flush.ms"])] == [
        "flush.ms",
        "retention.ms",
    ]
    assert [d.key.name for d in describe.chosen(described, None)] == sorted(described)
