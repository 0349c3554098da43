"""Keys that pk does not know: kept and named in one warning, unless they are slips or promise
security."""

import pytest
from each import for_each

from pk.core.config import BrokerConfig, ConfigError

ONE = {"node.id": "1", "listeners": "CLIENTS://:9092,PLAINTEXT://:9093"} | {
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,PLAINTEXT:PLAINTEXT"
}
PLUGINS = {
    "confluent.metrics.reporter.bootstrap.servers": "a:9092",
    "cruise.control.metrics.topic": "x",
    "ranger.plugin.kafka.ssl.keystore.location": "/x",
    "zookeeper.connect": "a:2181",
    "log.message.format.version": "3.0",
    "inter.broker.protocol.version": "3.0",
    "foo.bar": "hush",
    "retention.ms": "5",
    "x": "y",
    "listener.name.clients.foo": "1",
    "listener.name.clients.num.partitions": "9",
    "listener.name.elsewhere.ssl.client.auth": "required",
}


def test_keys_of_plug_ins_are_kept() -> None:
    config = BrokerConfig.parse(ONE | PLUGINS)
    assert config.keys_without_reader == sorted(PLUGINS)
    assert config["foo.bar"] == "hush" and config["num.partitions"] == 1
    known = {"listener.name.clients.scram-sha-256.sasl.jaas.config": "x", "super.users": "User:a"}
    assert BrokerConfig.parse(ONE | known).keys_without_reader == []


@for_each(
    ("slip", "meant"),
    [
        ("log.retension.ms", "log.retention.ms"),
        ("num.partition", "num.partitions"),
        ("lsiteners", "listeners"),
        ("log_dirs", "log.dirs"),
        ("Log.Dirs", "log.dirs"),
        ("super.user", "super.users"),
        ("metadata.store", "pk.metadata.store"),
        ("pk.metadata.stroe", "pk.metadata.store"),
        ("ssl.client.auht", "ssl.client.auth"),
        ("listener.name.clients.ssl.client.auht", "listener.name.clients.ssl.client.auth"),
        ("listener.name.client.ssl.client.auth", "listener.name.clients.ssl.client.auth"),
        ("listener.name.CLIENTS.ssl.client.auth", "listener.name.clients.ssl.client.auth"),
        (
            "listener.name.clients.scram-sha256.sasl.jaas.config",
            "listener.name.clients.scram-sha-256.sasl.jaas.config",
        ),
        (
            "listener.name.clients.plain.sasl.jaas.configs",
            "listener.name.clients.plain.sasl.jaas.config",
        ),
    ],
)
def test_a_slip_is_refused(slip: str, meant: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.parse(ONE | {slip: "none"})
    assert str(refused.value) == f"Unknown config name: {slip}; did you mean {meant}?"


@pytest.mark.parametrize(
    "name",
    [
        "ssl.client.certificates",
        "sasl.mechanisms",
        "security.protocol",
        "authorizer.users",
        "listener.name.clients.ssl.mode",
        "listener.name.clients.sasl.mechanism.inter.broker.protocol",
        "listener.name.clients.plain.sasl.server.max.receive.size",
        "listener.name.clients.aws_msk_iam.sasl.jaas.config",
    ],
)
def test_what_promises_security_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="it would protect nothing"):
        BrokerConfig.parse(ONE | {name: "1"})
    known = BrokerConfig.parse(ONE | {name: "1", "pk.security.ignore": "true"})
    assert known.keys_without_reader == [name]


def test_all_that_is_refused_is_named_at_once() -> None:
    names = {"log.retension.ms": "1", "foo.bar": "1", "pk.nothing": "1", "ssl.mine": "1"}
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.parse(ONE | names)
    assert str(refused.value) == (
        "Unknown config names: log.retension.ms (did you mean log.retention.ms?), "
        "pk.nothing (pk has no such key), "
        "ssl.mine (pk does not read it, so it would protect nothing)"
    )
