"""The pytest plugin: fixtures `kafka`, `kafka_url`, `kafka_topic` and `kafka_cluster`.

pytest imports this file in every run if pk is installed. The broker is imported after collection if
a test uses a fixture, so the first such test waits only for the broker's start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import pytest

if TYPE_CHECKING:
    from pk.testing.broker_thread import Broker
    from pk.testing.cluster_processes import Cluster


Scope = Literal["function", "class", "module", "package", "session"]

_SCOPE: Final = "kafka_scope"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting `kafka_scope`."""
    parser.addini(
        _SCOPE, "scope of the fixture `kafka`: function, class, module, session", default="function"
    )


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    """Return the scope of the fixture `kafka` from the project's settings. Raises UsageError."""
    wanted: Any = config.getini(_SCOPE)
    if wanted not in get_args(Scope):
        raise pytest.UsageError(f"{_SCOPE}: not a scope of fixtures: {wanted!r}")
    return wanted


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kafka_config(**keys): broker config of this test's `kafka`; a dot is two underscores",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import the broker if a collected test needs it."""
    if session.config.option.collectonly:
        return
    ours = [item for item in session.items if _uses_our_kafka(item)]
    if session.config.getini(_SCOPE) != "function":
        for item in ours:
            if any(marker.name == "kafka_config" for marker in item.own_markers):
                raise pytest.UsageError(
                    f"{item.nodeid}: kafka_config on a test needs a broker of its own, but"
                    f" {_SCOPE} is {session.config.getini(_SCOPE)}"
                )
    if ours:
        from pk.testing.imports import preload

        preload()


def _uses_our_kafka(item: pytest.Item) -> bool:
    """Return whether a test uses this file's fixture `kafka`, and not one of its own project's.
    pytest has no public way to ask this. If the private one fails, the first test imports the
    broker."""
    found: Any = getattr(item, "_fixtureinfo", None)
    definitions = getattr(found, "name2fixturedefs", {}).get("kafka", ())
    return bool(definitions) and definitions[-1].func.__module__ == __name__


@pytest.fixture(scope=_scope)
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A new broker for this test, in a thread, with its log in memory. With `kafka_scope =
    session`, all tests share one broker."""
    from pk.testing import Broker

    keys: dict[str, str] = {}
    for marker in reversed(list(request.node.iter_markers("kafka_config"))):
        keys |= {name.replace("__", "."): str(value) for name, value in marker.kwargs.items()}
    with Broker(keys) as broker:
        yield broker


@pytest.fixture(scope=_scope)
def kafka_url(kafka: Broker) -> str:
    """host:port of `kafka`, for `bootstrap.servers`."""
    return kafka.url


@pytest.fixture
def kafka_topic(kafka: Broker, request: pytest.FixtureRequest) -> str:
    """A topic with one partition, named after the test. The name gets a number if another test of a
    shared broker has the same name."""
    from pk.testing import ErrorCode, KafkaError

    base = name = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:200]
    number = 1
    while True:
        try:
            return kafka.create_topic(name)
        except KafkaError as e:
            if e.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        number += 1
        name = f"{base}-{number}"


@pytest.fixture
def kafka_cluster() -> Iterator[Callable[..., Cluster]]:
    """A function that starts a cluster: `kafka_cluster(3)` has three processes, which end with the
    test."""
    from pk.testing import Cluster

    with ExitStack() as stack:

        def start(brokers: int = 3, config: dict[str, str] | None = None) -> Cluster:
            return stack.enter_context(Cluster(brokers, config))

        yield start
