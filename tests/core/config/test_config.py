"""Keys, their types and bounds, the views made of them, and refused values."""

import re
from functools import cache
from pathlib import Path

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.core.auth.sasl_config import SERVICE_NAME, SHORT_NAMES
from pk.core.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    GROUP_SYNONYMS,
    TOPIC_KEYS,
    TOPIC_KEYS_NOT_ENFORCED,
    TOPIC_SYNONYMS,
    BrokerConfig,
    ConfigError,
    Key,
    Listener,
    Scope,
    TopicConfig,
    Type,
    parse_properties,
    unsupported_keys,
    value_text,
    without_secrets,
)
from pk.net.oauth.keys import CLIENT_TOKEN_KEYS
from pk.net.tls.settings import KEYS as TLS_KEYS

ROOT = Path(__file__).resolve().parents[3]


@cache
def words() -> frozenset[str]:
    """Every word of the code that may honour a key."""
    return frozenset(
        word
        for folder in (
            *("core/api", "core/broker", "core/group", "core/log", "core/meta", "core/record"),
            *("net", "cli"),
        )
        for path in (ROOT / folder).rglob("*.py")
        # The client and its command line have keys of their own.
        if path.parent.name != "client" and path.name not in ("client_config.py", "configs.py")
        for word in re.findall(r"\w+", path.read_text())
    )


TABLES = [BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS, DYNAMIC_ONLY_KEYS]
ALL = [pytest.param(key, id=key.name) for table in TABLES for key in table.values()]


def test_the_tables_have_as_many_keys_as_kafka_describes() -> None:
    own = [name for name in BROKER_KEYS if name.startswith(("pk.", "unclean.recovery."))]
    assert len(BROKER_KEYS) - len(own) == 340
    assert (len(TOPIC_KEYS), len(GROUP_KEYS), len(CLIENT_METRICS_KEYS)) == (33, 17, 3)


@for_each("key", ALL)
def test_a_default_is_valid_and_prints_as_it_was_written(key: Key) -> None:
    if key.default is not None:
        value = key.default_value()
        assert value_text(value) == key.default
        if key.default:
            assert key.parse(key.default) == value
    assert key.doc.endswith(".") and len(key.doc) > 15


def test_what_the_other_tables_refer_to_is_there() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        assert name in TOPIC_KEYS
        for synonym in synonyms:
            assert synonym in BROKER_KEYS
    assert set(TOPIC_KEYS_NOT_ENFORCED) <= set(TOPIC_KEYS)
    assert set(GROUP_SYNONYMS) <= set(GROUP_KEYS)
    # Topics run with their broker's default, so both tables must say the same one.
    for name in TOPIC_KEYS:
        assert TopicConfig({}, BrokerConfig({}))[name] == TOPIC_KEYS[name].default_value(), name


@for_each(
    "name, text, value",
    [
        ("auto.create.topics.enable", " TRUE ", True),
        ("auto.create.topics.enable", "False", False),
        ("num.partitions", "+7", 7),
        ("log.retention.ms", "-1", -1),
        ("log.retention.ms", "9223372036854775807", 2**63 - 1),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("log.cleaner.min.cleanable.ratio", "1e-1", 0.1),
        ("log.dirs", " /a , /b ", ("/a", "/b")),
        ("log.cleanup.policy", "", ()),
        ("log.cleanup.policy", "compact,delete", ("compact", "delete")),
        ("broker.rack", " r1 ", "r1"),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "9", 9),
        ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
        ("ssl.key.password", "hush", "hush"),
    ],
)
def test_text_becomes_a_value(name: str, text: str, value: object) -> None:
    parsed = BROKER_KEYS[name].parse(text)
    assert parsed == value and type(parsed) is type(value)


@for_each(
    "name, text, says",
    [
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("num.partitions", "1.0", "Not a number of type INT"),
        ("num.partitions", "", "Not a number of type INT"),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("num.partitions", "٣", "Not a number of type INT"),
        ("num.partitions", "9" * 1_000_000, "Not a number of type INT"),
        ("num.partitions", "0", "at least 1"),
        ("offsets.topic.replication.factor", "32768", "Not a number of type SHORT"),
        ("log.retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "x", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "0_1", "Not a number of type DOUBLE"),
        ("log.cleaner.io.buffer.load.factor", "inf", "must be no more than 1"),
        ("log.cleaner.io.max.bytes.per.second", "0", "at least 1"),
        ("log.retention.hours", "0", "must not be 0"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("compression.type", "bzip2", "one of: uncompressed, zstd, lz4"),
        ("log.cleanup.policy", "compact,shred", "one of: compact, delete"),
        ("group.consumer.migration.policy", "sideways", r"one of \(case insensitive\): disabled"),
    ],
)
def test_text_that_is_no_value_is_refused_by_name(name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        BROKER_KEYS[name].parse(text)
    assert name in str(caught.value) and len(str(caught.value)) < 300


NUMBERS = {
    Type.SHORT: st.integers(-(2**15), 2**15 - 1),
    Type.INT: st.integers(-(2**31), 2**31 - 1),
    Type.LONG: st.integers(-(2**63), 2**63 - 1),
    Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Type.BOOLEAN: st.booleans(),
    Type.LIST: st.lists(st.text("ab.-", min_size=1), max_size=4).map(tuple),
    Type.STRING: st.text("ab.-", min_size=1),
}


@given(st.data())
def test_what_is_printed_is_parsed_again(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(NUMBERS)))
    value = data.draw(NUMBERS[kind])
    assert Key("k", kind, None, "").parse(value_text(value)) == value


@pytest.mark.parametrize(
    "value, text",
    [
        (1e7, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0001, "1.0E-4"),
        (-12345678.5, "-1.23456785E7"),
        (0.5, "0.5"),
        (True, "true"),
        (("a", "b"), "a,b"),
        (None, ""),
    ],
)
def test_values_print_as_java_prints_them(value: object, text: str) -> None:
    assert value_text(value) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name, nearest",
    [("log.retention.mss", "log.retention.ms"), ("num.partition", "num.partitions")],
)
def test_an_unknown_key_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"Unknown config name: {name}; did you mean {nearest}"):
        BrokerConfig.parse({name: "1"})


def test_keys_of_a_listener_are_those_it_overrides() -> None:
    config = BrokerConfig.parse(
        {
            "listener.name.internal.ssl.keystore.type": "PKCS12",
            "listener.name.internal.scram-sha-256.sasl.jaas.config": "x",
        }
    )
    assert config["listener.name.internal.ssl.keystore.type"] == "PKCS12"


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = r"""
# a comment
  ! another

a=1
b : 2
c 3
d=one, \
   e=long \
    value
f=tab\there\u0041
g\=h=i
a=last wins
empty=
alone
"""
    assert parse_properties(text) == {
        "a": "last wins",
        "b": "2",
        "c": "3",
        "d": "one, e=long value",
        "f": "tab\thereA",
        "g=h": "i",
        "empty": "",
        "alone": "",
    }
    # The other characters that Python takes for line ends.
    odd = "a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b"
    assert parse_properties(f"a={odd}\rb=1\r\nc=2\nd") == {"a": odd, "b": "1", "c": "2", "d": ""}
    with pytest.raises(ConfigError, match="broken escape"):
        parse_properties(r"a=\u12")


@given(st.text())
def test_any_text_is_a_properties_file_or_refused(text: str) -> None:
    try:
        parsed = parse_properties(text)
    except ConfigError:
        return
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in parsed.items())


def test_a_broker_is_configured_by_a_file() -> None:
    given = parse_properties(
        "node.id=4\nlog.dirs=/a,/b\nlisteners=PLAINTEXT://127.0.0.1:0,IN://[::1]:9093\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:SSL\nauto.create.topics.enable=false"
    )
    config = BrokerConfig.parse(given)
    assert (config.node_id, config.log_dirs) == (4, ("/a", "/b"))
    assert config.listeners == (
        Listener("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT"),
        Listener("IN", "::1", 9093, "SSL"),
    )
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.auto_create_topics_enable is False
    assert config.num_partitions == 1


@for_each(
    "given, says",
    [
        ({"node.id": "1", "broker.id": "2"}, "both given"),
        ({"listeners": "PLAINTEXT:9092"}, "is not NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://:70000"}, "is not NAME://HOST:PORT"),
        ({"listeners": "OWN://:1"}, "lacks OWN"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "twice"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "one port"),
        ({"advertised.listeners": "SSL://h:1"}, "which listeners lacks"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "can reach"),
        ({"inter.broker.listener.name": "IN"}, "listeners lacks IN"),
        ({"listener.security.protocol.map": "A"}, "is not NAME:PROTOCOL"),
        ({"offsets.topic.compression.codec": "7"}, "between 0 and 4"),
        ({"max.connections.per.ip.overrides": "h"}, "is not HOST:COUNT"),
        ({"max.connections.per.ip.overrides": "h:9999999999"}, "is not HOST:COUNT"),
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            r"min.compaction.lag.ms \(2\) > max.compaction.lag.ms \(1\)",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig.parse(given)


@pytest.mark.parametrize(
    "broker, own, retention_ms",
    [
        ({}, {}, 7 * 86_400_000),
        ({"log.retention.hours": "2"}, {}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, {}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, {}, 4),
        ({"log.retention.ms": "4"}, {"retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, {}, -1),
    ],
)
def test_a_topic_takes_what_its_broker_says(
    broker: dict[str, str], own: dict[str, str], retention_ms: int
) -> None:
    topic = BrokerConfig.parse(broker).topic(own)
    assert topic.retention_ms == retention_ms
    assert topic.retention_ms == retention_ms, "the second time from the instance"


def test_a_topic_without_keys_of_its_own_costs_nothing() -> None:
    config = BrokerConfig({})
    assert config.topic({}) is config.topic({})
    assert config.topic({"flush.ms": "1"}).flush_ms == 1


def test_what_a_topic_cannot_parse_falls_back_to_the_default() -> None:
    assert BrokerConfig({}).topic({"segment.bytes": "from the future"}).segment_bytes == 1 << 30


def test_dynamic_keys_lie_above_static_ones() -> None:
    static = BrokerConfig.parse({"log.retention.ms": "1", "message.max.bytes": "10"})
    changed = static.with_dynamic({"log.retention.ms": "2"}, {"log.retention.ms": "3"})
    assert changed.topic({}).retention_ms == 3
    assert changed.message_max_bytes == 10
    assert static.topic({}).retention_ms == 1
    assert static.with_dynamic({"log.retention.ms": "2"}, {}).topic({}).retention_ms == 2
    # A value from a newer controller must not stop a running broker.
    odd = static.with_dynamic({"log.retention.ms": "odd", "new.key": "1"}, {})
    assert odd.topic({}).retention_ms == 1
    odd = static.with_dynamic({"max.connections.per.ip.overrides": "h"}, {})
    assert odd.max_connections_per_ip_overrides == {}


@for_each("name", TOPIC_KEYS)
def test_a_topic_key_steers_something_or_is_listed_as_not_enforced(name: str) -> None:
    """docs/limits.md names them: a feature that begins to honour a key takes it out of there."""
    attribute = {"cleanup.policy": "compact"}.get(name, name.replace(".", "_"))
    assert (attribute in words()) != (name in TOPIC_KEYS_NOT_ENFORCED)


ATTRIBUTES = {
    "broker.id": "node_id",
    "listener.security.protocol.map": "listeners",
    "log.dir": "log_dirs",
    "process.roles": "is_broker",
    "sasl.mechanism.controller.protocol": "controller_login",
    "sasl.mechanism.inter.broker.protocol": "inter_broker_login",
    "security.inter.broker.protocol": "listeners",
}
"""Keys that are seen through an attribute of another name."""

READ_FOR_A_LISTENER = {
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.server.max.receive.size",
    "ssl.principal.mapping.rules",
    *CLIENT_TOKEN_KEYS,
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    SERVICE_NAME,
    SHORT_NAMES,
    *TLS_KEYS,
}
"""Read by their own names, since each listener may have its own (core/auth, net/tls)."""

HONOURED_HERE = {"group.share.assignors", "pk.metadata.store", "pk.security.ignore"}
"""Read by the configuration itself: checked, and nothing else is asked of it."""


@for_each("name", BROKER_KEYS)
def test_a_broker_key_steers_something_or_is_warned_of(name: str) -> None:
    enforced = {
        synonym
        for key, synonyms in TOPIC_SYNONYMS.items()
        if key not in TOPIC_KEYS_NOT_ENFORCED
        for synonym in synonyms
    }
    attribute = ATTRIBUTES.get(name, name.replace(".", "_"))
    steers = (
        (attribute in words()) or name in enforced or name in HONOURED_HERE | READ_FOR_A_LISTENER
    )
    warned = bool(unsupported_keys([name]))
    assert steers or warned


def test_every_attribute_has_a_value() -> None:
    config = BrokerConfig.parse({"node.id": "1"})
    for view in (config, config.topic({})):
        names = [
            n for n in dir(type(view)) if not n.startswith("_") and n not in ("parse", "topic")
        ]
        for name in names:
            getattr(view, name)
    assert config.log_retention_check_interval_ms == 300_000
    assert config.pk_request_bytes_max == 256 << 20


def test_keys_of_missing_features_are_named() -> None:
    given = ["ssl.provider", "listener.name.x.ssl.provider", "num.partitions"]
    assert unsupported_keys(
        [*given, "controller.quorum.election.timeout.ms", "pk.loop.slice.us"]
    ) == [
        "controller.quorum.election.timeout.ms",
        "listener.name.x.ssl.provider",
        "ssl.provider",
    ]


def test_secrets_do_not_reach_a_log() -> None:
    given = {"ssl.key.password": "hush", "num.partitions": "1", "made.up": "hush"}
    assert without_secrets(BROKER_KEYS, given) == {
        "ssl.key.password": "[hidden]",
        "num.partitions": "1",
        "made.up": "[hidden]",
    }
    assert BROKER_KEYS["ssl.key.password"].text("hush") is None


def test_scopes_are_kafkas() -> None:
    assert BROKER_KEYS["node.id"].scope is Scope.READ_ONLY
    assert BROKER_KEYS["listeners"].scope is Scope.PER_BROKER
    assert BROKER_KEYS["log.retention.ms"].scope is Scope.CLUSTER_WIDE
    assert (
        sum(key.dynamic for key in BROKER_KEYS.values()) == 99 + 4
    )  # ours: unclean.recovery.*, pk.log.scrub.*


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"log.cleaner.threads": "0"}, "at least 1"),
        ({"log.cleaner.threads": "128"}, "at least 1MB per cleaner thread"),
        ({"cordoned.log.dirs": "/nope"}, "Missing entries : /nope"),
        ({"cordoned.log.dirs": "*,/a"}, "must not contain other values"),
    ],
)
def test_a_broker_does_not_start_where_apache_kafka_does_not(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        BrokerConfig.parse({"node.id": "1", "log.dirs": "/a"} | given)
