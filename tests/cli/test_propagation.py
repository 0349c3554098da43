"""After a change, a command waits until the brokers report it, but only for a limited time."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from trio.testing import MockClock

from pk.cli.cluster import propagation
from pk.cli.cluster.propagation import until_configs, until_topics
from pk.core.values import ZERO_UUID
from pk.net.client.answers import Answers
from pk.net.client.errors import ConnectFailed
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)

if TYPE_CHECKING:
    from pk.net.client.admin import Admin

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
KEY = "retention.ms"


class LateBrokers:
    """An administrator of a cluster whose brokers report a change only at the n-th request."""

    def __init__(self, before: Any, after: Any, late: int) -> None:
        self._before = before
        self._after = after
        self._late = late
        self.asked = 0

    def _answer(self) -> Any:
        self.asked += 1
        answer = self._before if self.asked < self._late else self._after
        if isinstance(answer, ConnectFailed):
            raise answer
        return answer

    async def describe_topics(self, names: Iterable[str]) -> Answers[str, Any]:
        answer = self._answer()
        return Answers(dict.fromkeys(names, answer).items())

    async def describe_configs(self, resources: Iterable[ConfigResource]) -> Answers[Any, Any]:
        answer = self._answer()
        return Answers(dict.fromkeys(resources, answer).items())


def seconds(wait: Callable[[], Awaitable[None]]) -> float:
    """The seconds that it took, on a clock that jumps."""

    async def run() -> float:
        began = trio.current_time()
        await wait()
        return trio.current_time() - began

    return trio.run(run, clock=MockClock(autojump_threshold=0))


def described(partitions: int) -> TopicDescription:
    parts = tuple(PartitionDescription(n, 1, 0, (1,), (1,)) for n in range(partitions))
    return TopicDescription("t", ZERO_UUID, False, parts)


def grown(late: int) -> tuple[LateBrokers, float]:
    brokers = LateBrokers(described(1), described(2), late)

    def reported(known: Answers[str, TopicDescription], name: str) -> bool:
        return name in known.ok and len(known.ok[name].partitions) == 2

    return brokers, seconds(lambda: until_topics(cast("Admin", brokers), ["t"], reported))


def test_topics_are_asked_about_until_brokers_know_them() -> None:
    brokers, took_s = grown(late=3)
    assert brokers.asked == 3 and 0 < took_s < 1
    brokers, took_s = grown(late=1)
    assert (brokers.asked, took_s) == (1, 0)


def test_brokers_that_never_hear_of_it_are_not_waited_for_for_ever() -> None:
    brokers, took_s = grown(late=10**6)
    assert brokers.asked > 5 and took_s == pytest.approx(propagation.PROPAGATION_S)


def entry(value: str | None, source: ConfigSource = ConfigSource.TOPIC, **more: Any) -> ConfigEntry:
    return ConfigEntry(KEY, value, source, False, more.get("sensitive", False))


DEFAULT = entry("7", ConfigSource.DEFAULT)


def altered(
    before: ConfigEntry | None, after: ConfigEntry | None, change: ConfigChange, *failed: Any
) -> LateBrokers:
    """Brokers that report a change at the third request."""
    rows = [[e for e in (found,) if e is not None] for found in (before, after)]
    brokers = LateBrokers(*rows, late=3)
    changes = {TOPIC: [change]}
    seconds(lambda: until_configs(cast("Admin", brokers), {TOPIC: rows[0]}, changes, failed))
    return brokers


SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT


@pytest.mark.parametrize(
    ("before", "after", "value", "operation"),
    [
        (DEFAULT, entry("5"), "5", SET),
        (entry("5"), entry("6"), "6", SET),
        (None, entry("5"), "5", SET),
        (entry("5"), DEFAULT, None, DELETE),
        (entry("7"), DEFAULT, None, DELETE),
        (entry("5"), None, None, DELETE),
        (entry("a"), entry("a,b"), "b", APPEND),
        (entry("a,b"), entry("a"), "b", SUBTRACT),
    ],
)
def test_a_config_is_asked_for_until_it_is_another(
    before: ConfigEntry | None, after: ConfigEntry | None, value: str | None, operation: Any
) -> None:
    assert altered(before, after, ConfigChange(KEY, value, operation)).asked == 3


@pytest.mark.parametrize(
    ("before", "value", "operation"),
    [
        (entry("5"), "5", SET),
        (DEFAULT, None, DELETE),
        (None, None, DELETE),
        (entry("a,b"), "b", APPEND),
        (entry("a"), "b", SUBTRACT),
        (entry(None, sensitive=True), "secret", SET),
    ],
)
def test_what_shows_no_difference_is_not_asked_for(
    before: ConfigEntry | None, value: str | None, operation: Any
) -> None:
    assert altered(before, before, ConfigChange(KEY, value, operation)).asked == 0


def test_what_failed_is_not_waited_for() -> None:
    assert altered(DEFAULT, entry("5"), ConfigChange(KEY, "5"), TOPIC).asked == 0


def test_brokers_that_are_gone_meanwhile_do_not_make_a_change_a_failure() -> None:
    gone = LateBrokers(ConnectFailed("h:1", "connection refused"), None, 10)
    changes = {TOPIC: [ConfigChange(KEY, "5")]}
    took_s = seconds(lambda: until_configs(cast("Admin", gone), {TOPIC: [DEFAULT]}, changes, ()))
    assert (gone.asked, took_s) == (1, 0)
    took_s = seconds(lambda: until_topics(cast("Admin", gone), ["t"], lambda _, __: False))
    assert (gone.asked, took_s) == (2, 0)
