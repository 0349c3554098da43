"""Roles, listeners of controllers, and how nodes find one another: Kafka's rules, and ours for the
metadata store."""

import pytest
from each import for_each

from pk.core.config import BrokerConfig, ConfigError, Listener, parse_properties
from pk.core.config.roles import Voter

CONTROLLER = {"controller.listener.names": "CONTROLLER"}
BOTH = {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", **CONTROLLER}
ALONE = {"process.roles": "controller", "listeners": "CONTROLLER://:9093", **CONTROLLER}
ONLY_BROKER = {
    "process.roles": "broker",
    "controller.quorum.bootstrap.servers": "c:9093",
    **CONTROLLER,
}


def parse(given: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.parse({"node.id": "1", **given})


def test_who_says_nothing_is_both_and_needs_no_other_node() -> None:
    config = parse({})
    assert config.process_roles == ("broker", "controller")
    assert (config.is_broker, config.is_controller) == (True, True)
    assert config.controller_listeners == ()
    assert [listener.name for listener in config.broker_listeners] == ["PLAINTEXT"]


def test_apaches_own_server_properties() -> None:
    """config/server.properties of Apache Kafka 4.3.1, as far as it is about roles."""
    given = parse_properties(
        """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
        """
    )
    config = BrokerConfig.parse(given)
    assert config.broker_listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert config.controller_listeners == (Listener("CONTROLLER", "", 9093, "PLAINTEXT"),)
    assert config.controller_quorum_bootstrap_servers == (("localhost", 9093),)
    assert config.inter_broker_listener_name == "PLAINTEXT"


def test_each_role_alone() -> None:
    broker, controller = parse(ONLY_BROKER), parse(ALONE)
    assert (broker.is_broker, broker.is_controller) == (True, False)
    assert (controller.is_broker, controller.is_controller) == (False, True)
    assert controller.broker_listeners == ()
    assert [listener.port for listener in controller.controller_listeners] == [9093]


def test_voters_are_ids_and_addresses() -> None:
    config = parse({**BOTH, "controller.quorum.voters": "1@[::1]:9093"})
    assert config.controller_quorum_voters == (Voter(1, "::1", 9093),)


def test_a_controllers_listener_needs_an_entry_in_the_map_where_tls_is_spoken_of() -> None:
    plain = parse(BOTH)
    assert plain.controller_listeners[0].security_protocol == "PLAINTEXT"
    with pytest.raises(ConfigError, match="CONTROLLER"):
        parse({**BOTH, "listeners": "SSL://:9092,CONTROLLER://:9093"})
    given = {**BOTH, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        parse(given)


def test_clients_and_brokers_do_not_come_by_a_controllers_listener() -> None:
    config = parse({**BOTH, "listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"})
    assert config.inter_broker_listener_name == "PLAINTEXT"


@pytest.mark.parametrize("kind", ["etcd", "zookeeper"])
def test_several_controllers_by_a_store_that_votes(kind: str) -> None:
    config = parse(
        {
            **BOTH,
            "pk.metadata.store": f"{kind}://a:2181,b:2181/pk",
            "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093",
        }
    )
    assert len(config.controller_quorum_voters) == 3
    assert parse(
        {"process.roles": "broker", "pk.metadata.store": f"{kind}://a:2181", **CONTROLLER}
    ).is_broker


@for_each(
    ("given", "said"),
    [
        ({"process.roles": "broker"}, "controller.listener.names"),
        ({"process.roles": "broker", **CONTROLLER}, "controller.quorum.bootstrap.servers"),
        ({"process.roles": "boss"}, "process.roles"),
        ({**ONLY_BROKER, **BOTH}, "process.roles=broker"),
        ({**ONLY_BROKER, "controller.quorum.voters": "1@c:9093"}, "names node 1"),
        ({"process.roles": "controller", "listeners": "CONTROLLER://:1"}, "CONTROLLER"),
        ({**ALONE, "listeners": "PLAINTEXT://:9092"}, "has CONTROLLER, which listeners lacks"),
        ({**ALONE, **BOTH, "process.roles": "controller"}, "only a controller"),
        ({**BOTH, "listeners": "CONTROLLER://:9093"}, "none for brokers"),
        ({**BOTH, "inter.broker.listener.name": "CONTROLLER"}, "must not be a controller"),
        ({**BOTH, "inter.broker.listener.name": "OTHER"}, "OTHER"),
        ({**BOTH, "controller.quorum.voters": "2@b:9093"}, "not this controller, node 1"),
        ({**BOTH, "controller.quorum.voters": "1@b:9093,1@c:9093"}, "twice"),
        ({**BOTH, "controller.quorum.voters": "1@b:9093,2@c:9093"}, "etcd"),
        ({**BOTH, "controller.quorum.voters": "b:9093"}, "ID@HOST:PORT"),
        ({**BOTH, "controller.quorum.voters": "1@b"}, "HOST:PORT"),
        ({**ONLY_BROKER, "controller.quorum.bootstrap.servers": "a:1,b:1"}, "etcd"),
        ({**ONLY_BROKER, "controller.quorum.bootstrap.servers": "a:99999"}, "HOST:PORT"),
        ({"pk.metadata.store": "consul://a"}, "pk.metadata.store must be embedded"),
        ({"pk.metadata.store": "zookeeper://a:2181"}, "controller.listener.names"),
        ({"pk.metadata.store": "etcd://a:2379"}, "controller.listener.names"),
        ({"metadata.store": "embedded"}, "pk.metadata.store"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(given)
    assert said in str(refused.value)
