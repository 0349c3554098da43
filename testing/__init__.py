"""A real Kafka for test suites, in a thread of the test's process: `pip install
'pk-broker[testing]'`.

    with pk.testing.broker() as kafka:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.url})

pytest gets the fixtures `kafka`, `kafka_url`, `kafka_topic` and `kafka_cluster`
(testing/plugin.py). `preload` imports the broker. The plugin calls it if a test needs the broker.
Otherwise the first use of a name of this package imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pk.testing.imports import collections_off, preload

if TYPE_CHECKING:
    from pk.core.errors import ErrorCode, KafkaError
    from pk.testing.broker_thread import Broker, Request, broker
    from pk.testing.cluster_processes import Cluster, cluster
    from pk.testing.unittest_case import KafkaTestCase

__all__ = [
    "Broker",
    "Cluster",
    "ErrorCode",
    "KafkaError",
    "KafkaTestCase",
    "Request",
    "broker",
    "cluster",
    "preload",
]

_HOMES = {
    "Broker": "pk.testing.broker_thread",
    "Cluster": "pk.testing.cluster_processes",
    "ErrorCode": "pk.core.errors",
    "KafkaError": "pk.core.errors",
    "KafkaTestCase": "pk.testing.unittest_case",
    "Request": "pk.testing.broker_thread",
    "broker": "pk.testing.broker_thread",
    "cluster": "pk.testing.cluster_processes",
}


def __getattr__(name: str) -> Any:
    """Import a name on its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    with collections_off():
        return getattr(import_module(_HOMES[name]), name)
