"""What client tests do beside the client under test, through librdkafka: topics, groups, offsets."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from clients.fixtures import Kafka

TIMEOUT_S = 30.0
T = TypeVar("T")


@functools.cache  # a client that nothing holds is destroyed with its requests in flight
def admin(kafka: Kafka) -> AdminClient:
    """An admin client of librdkafka."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})


def create_topic(
    kafka: Kafka, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Creates a topic of one replica and returns its name."""
    topic: Any = NewTopic(name, partitions, 1, config=dict(config or {}))
    admin(kafka).create_topics([topic])[name].result(TIMEOUT_S)
    return name


def wait_until(what: str, ask: Callable[[], T | None], timeout: float = TIMEOUT_S) -> T:
    """Asks again and again until the answer is neither None nor False, and returns it."""
    deadline = time.monotonic() + timeout
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {timeout:.0f} s"
        time.sleep(0.05)
