"""The pytest plugin: fixtures `kafka`, `kafka_url`, `kafka_topic` and `kafka_cluster`.

pytest imports this file in every run where pk is installed; the broker is imported by the first
test that uses a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pk.testing.broker_thread import Broker
    from pk.testing.cluster_processes import Cluster


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kafka_config(**keys): broker config of this test's `kafka`; a dot is two underscores",
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of this test's own, in a thread, with its log in memory."""
    from pk.testing import Broker  # not from its module: see pk.testing.__getattr__

    keys: dict[str, str] = {}
    for marker in reversed(list(request.node.iter_markers("kafka_config"))):
        keys |= {name.replace("__", "."): str(value) for name, value in marker.kwargs.items()}
    with Broker(keys) as broker:
        yield broker


@pytest.fixture
def kafka_url(kafka: Broker) -> str:
    """host:port of `kafka`, for `bootstrap.servers`."""
    return kafka.url


@pytest.fixture
def kafka_topic(kafka: Broker, request: pytest.FixtureRequest) -> str:
    """A topic with one partition, named after the test."""
    return kafka.create_topic(re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:200])


@pytest.fixture
def kafka_cluster() -> Iterator[Callable[..., Cluster]]:
    """`kafka_cluster(3)` starts a cluster of three processes, which ends with the test."""
    from pk.testing import Cluster

    with ExitStack() as stack:

        def start(brokers: int = 3, config: dict[str, str] | None = None) -> Cluster:
            return stack.enter_context(Cluster(brokers, config))

        yield start
