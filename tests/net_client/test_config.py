"""Client config: parsed, bounded, and nothing accepted that would be ignored."""

import pytest
from each import for_each

from pk.net.client.config import (
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    duration_ms,
    idempotence,
    parse,
)
from pk.net.client.errors import ConfigError


def test_defaults_are_those_of_kafkas_clients() -> None:
    producer = parse(ProducerConfig, {})
    assert producer.required_acks == -1
    assert producer.batch_size == 16_384
    assert producer.linger_ms == 5
    assert idempotence(producer, {})
    consumer = parse(ConsumerConfig, None)
    assert consumer.assignors == ("range", "cooperative-sticky")
    assert consumer.max_poll_records == 500


def test_values_may_be_text_or_typed() -> None:
    config = parse(
        ConsumerConfig,
        {
            "max.poll.records": "7",
            "enable.auto.commit": "FALSE",
            "check.crcs": False,
            "group.id": "g",
            "isolation.level": "READ_COMMITTED",
            "partition.assignment.strategy": (
                "org.apache.kafka.clients.consumer.RoundRobinAssignor, sticky"
            ),
        },
    )
    assert config.max_poll_records == 7
    assert config.enable_auto_commit is False
    assert config.check_crcs is False
    assert config.isolation_level == "read_committed"
    assert config.assignors == ("roundrobin", "sticky")


@for_each(
    ("cls", "name", "value", "says"),
    [
        (ConsumerConfig, "max.pol.records", 5, "did you mean max.poll.records"),
        (ConsumerConfig, "linger.ms", 5, "a key of a producer, not of a consumer"),
        (AdminConfig, "group.id", "g", "a consumer and of a share consumer, not of an admin"),
        (
            ShareConsumerConfig,
            "auto.offset.reset",
            "earliest",
            "a key of a consumer, not of a share",
        ),
        (ShareConsumerConfig, "share.acquire.mode", "some", "one of batch_optimized, record_limit"),
        (ShareConsumerConfig, "fetch.max.wait.ms", 30_000, "less than request.timeout.ms"),
        (ConsumerConfig, "max.poll.records", 0, "from 1 to"),
        (ConsumerConfig, "max.poll.records", "many", "whole number"),
        (ConsumerConfig, "max.poll.records", True, "whole number"),
        (ConsumerConfig, "enable.auto.commit", "yes", "true or false"),
        (ConsumerConfig, "auto.offset.reset", "sooner", "latest, earliest, none"),
        (ConsumerConfig, "auto.offset.reset", "by_duration:tomorrow", "not a duration"),
        (ConsumerConfig, "partition.assignment.strategy", "mine", "not one of"),
        (ConsumerConfig, "group.protocol", "share", "must be classic or consumer"),
        (ConsumerConfig, "group.remote.assignor", "range", "when group.protocol=classic"),
        (ConsumerConfig, "group.id", "", "must not be empty"),
        (ConsumerConfig, "heartbeat.interval.ms", 45_000, "less than session.timeout.ms"),
        (ConsumerConfig, "security.protocol", "SASL", "one of PLAINTEXT, SSL"),
        (ConsumerConfig, "security.protocol", "SASL_PLAINTEXT", "No serviceName defined"),
        (ConsumerConfig, "security.protocol", "SASL_SSL", "No serviceName defined"),
        (ConsumerConfig, "ssl.engine.factory.class", "x.Y", "without Java classes"),
        (
            ConsumerConfig,
            "sasl.kerberos.kinit.cmd",
            "kinit",
            "only the SASL mechanisms PLAIN, SCRAM",
        ),
        (ConsumerConfig, "key.deserializer", "x.Y", "keys and values are bytes"),
        (ProducerConfig, "transactional.id", "", "must not be empty"),
        (ProducerConfig, "transaction.two.phase.commit.enable", True, "not stable"),
        (ProducerConfig, "compression.type", "zip", "one of none, gzip"),
        (ProducerConfig, "compression.gzip.level", 0, "from 1 to 9"),
        (ProducerConfig, "delivery.timeout.ms", 100, "at least linger.ms"),
        (ProducerConfig, "enable.metrics.push", True, "does not push"),
        (ProducerConfig, "bootstrap.servers", "h:1", "first argument"),
    ],
)
def test_refused_with_the_reason(
    cls: type[AdminConfig], name: str, value: object, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(cls, {name: value})


def test_a_refused_key_may_have_its_neutral_value() -> None:
    parse(ProducerConfig, {"enable.metrics.push": "false", "security.protocol": "plaintext"})


def test_what_conflicts_with_idempotence_turns_it_off_unless_it_was_asked_for() -> None:
    given = {"acks": "1"}
    assert not idempotence(parse(ProducerConfig, given), given)
    given = {"acks": "1", "enable.idempotence": "true"}
    with pytest.raises(ConfigError, match="acks must be all"):
        idempotence(parse(ProducerConfig, given), given)
    given = {"max.in.flight.requests.per.connection": 6}
    with pytest.raises(ConfigError, match="at most 5"):
        idempotence(parse(ProducerConfig, given), given)
    given = {"max.in.flight.requests.per.connection": 6, "enable.idempotence": "false"}
    assert not idempotence(parse(ProducerConfig, given), given)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT1S", 1_000), ("P1D", 86_400_000), ("P1DT2H3M4.5S", 93_784_500), ("PT0.001S", 1)],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "P1H", "PT-1S", "P1M"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    "key", ["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"]
)
def test_the_broker_says_it_with_the_consumer_protocol(key: str) -> None:
    values = {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 100}
    given = {"group.protocol": "consumer", key: values.get(key, "range")}
    with pytest.raises(ConfigError, match=f"{key} cannot be set when group.protocol=consumer"):
        parse(ConsumerConfig, given)
    assert parse(ConsumerConfig, {"group.protocol": "CONSUMER"}).joins_by_consumer_protocol
