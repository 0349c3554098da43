"""The starters themselves: a broker answers at the fixture's address, and lists only itself."""

from clients.apache_kafka import brokers_alive
from clients.fixtures import Kafka


def test_broker_answers_at_its_address(kafka: Kafka) -> None:
    assert brokers_alive(kafka.host, kafka.port) == 1
