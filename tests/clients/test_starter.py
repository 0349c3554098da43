"""The starters themselves: a broker answers where the fixture says, and lists itself alone."""

from clients.apache_kafka import brokers_alive
from clients.fixtures import Kafka


def test_broker_answers_at_its_address(kafka: Kafka) -> None:
    assert brokers_alive(kafka.host, kafka.port) == 1
