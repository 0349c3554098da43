"""A real Kafka for test suites, in a thread of the test's process: `pip install
'pk-broker[testing]'`.

    with pk.testing.broker() as kafka:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.url})

pytest gets the fixtures `kafka`, `kafka_url`, `kafka_topic` and `kafka_cluster`
(testing/plugin.py). The broker is imported by `preload`, which the plugin calls where a test needs
it, or when something of it is asked for.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pk.core.errors import ErrorCode
    from pk.testing.broker_thread import Broker, Request, broker
    from pk.testing.cluster_processes import Cluster, cluster
    from pk.testing.unittest_case import KafkaTestCase

__all__ = [
    "Broker",
    "Cluster",
    "ErrorCode",
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
    "KafkaTestCase": "pk.testing.unittest_case",
    "Request": "pk.testing.broker_thread",
    "broker": "pk.testing.broker_thread",
    "cluster": "pk.testing.cluster_processes",
}


def preload() -> None:
    """Import the broker, and what it otherwise imports when a producer or a group's first member
    asks for it.

    The plugin does it for pytest. Elsewhere the first test that uses a broker waits for it: a
    quarter of a second, in which clients may give up and wait before they ask again.
    """
    with _collections_off():
        from pk.core.api.late import import_apis
        from pk.testing import broker_thread

        import_apis(broker_thread.FIRST_APIS)


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    with _collections_off():
        return getattr(import_module(_HOMES[name]), name)


@contextmanager
def _collections_off() -> Generator[None]:
    """What an import makes stays: collections would look through all of it several times, which
    takes a tenth of the import's time."""
    import gc

    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
