"""The shell's cache of its cluster: names for completion, and figures for the toolbar, which are
refreshed in the background.

Completion and toolbar read the cache and never wait. The cache starts with the names on disk, so a
shell knows names before the cluster responds, or even if it never does. If a refresh fails, the old
names stay and the toolbar says so.

Two threads share the cache: the engine's thread refreshes it, and the main thread reads it. Shared
values are replaced, never modified.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import trio

from pk.cli.cluster.completion_names import Seen, fetch, keep, keep_members, set_configs
from pk.cli.cluster.reassignments import running_reassignments
from pk.cli.command_line.completion.candidates import Candidate
from pk.cli.phrases import count
from pk.cli.runtime.name_cache import (
    partitions_meaning,
    recall,
    recall_configs,
    recall_meanings,
    remember_configs,
)
from pk.cli.runtime.session import Session
from pk.cli.runtime.settings import Settings
from pk.core.errors import KafkaError, ProtocolError
from pk.net.client.errors import ClientError
from pk.net.client.results import ConfigResource, ResourceType

REFRESH_S = 10.0
_IDLE_S = 60.0
"""After this long without a key press, the cache is refreshed less often, at this interval."""

_RETRY_S = 1.0
_DEADLINE_S = 30.0
_SHARE = 20
"""A refresh takes at most a twentieth of the processor's time, so the interval grows for a large
cluster."""

_CONFIGS_S = 30.0
_REQUEST_TIMEOUT_MS = "5000"
_MOVING_S = 3.0
_LOST = "not connected, trying again"
_TYPES = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}


def _with_short_timeouts(settings: Settings) -> Settings:
    """The admin client for the same cluster, over connections of the cache's own. It switches
    brokers sooner if one does not answer."""
    return settings._replace(
        properties={"request.timeout.ms": _REQUEST_TIMEOUT_MS, **settings.properties}
    )


class Cache:
    """The names and figures of one cluster. `use` sets `topic` and `group`."""

    def __init__(self, settings: Settings) -> None:
        self.soon: Callable[[Callable[[], None]], None] = lambda function: None
        """Calls a function in the engine's thread, once there is one."""

        self.changed: Callable[[], None] = lambda: None
        """Called in the engine's thread when there is something new to offer."""

        self._wanted: trio.Event | None = None
        self._due = True
        self._tried = 0.0
        self._used = time.monotonic()
        self.switch(settings)

    def switch(self, settings: Settings) -> None:
        """Switch to another cluster. Called in the engine's thread, once that runs."""
        self.settings = settings
        self.topic: str | None = None
        self.group: str | None = None
        self.error: str | None = None
        self.refreshed: float | None = None
        self.controller: int | None = None
        self.brokers: Mapping[int, str] = {}
        self.down: frozenset[int] = frozenset()
        self.under_replicated = self.offline = self.moving = 0
        self._lists: dict[str, list[Candidate]] = {}
        self._configs: dict[tuple[str, str], tuple[float, Mapping[str, str]]] = {}
        self._asked: set[tuple[str, str]] = set()
        bootstrap = settings.bootstrap
        for kind in ("topic", "group", "broker", "feature"):
            self._fill(kind, recall_meanings(bootstrap, kind))
        for topic, configs in recall_configs(bootstrap).items():
            self._configs["topic", topic] = (0.0, configs)
        self.stale()

    def _fill(self, kind: str, names: Mapping[str, str]) -> bool:
        """Store the names of a kind. Returns whether any are new."""
        if self._lists.get(kind) == [*names.items()]:
            return False
        self._lists[kind] = [Candidate(*item) for item in names.items()]
        if kind == "topic":
            self._lists["topic/"] = [Candidate(f"{n}/", meaning) for n, meaning in names.items()]
        return True

    # engine's side

    def stale(self) -> None:
        """Request a refresh soon. Called in the engine's thread."""
        self._due = True
        self._wake()

    def _wake(self) -> None:
        if self._wanted is not None:
            self._wanted.set()

    async def keep_fresh(self, session: Session) -> None:
        """Refresh forever."""
        pause_s = 0.0
        while True:
            self._wanted = trio.Event()
            began = time.monotonic()
            if self._due or began - self._tried >= pause_s:
                self._due, self._tried = False, began
                began_cpu = time.thread_time()
                await self._guarded(self._refresh, session)
                idle = began - self._used > _IDLE_S
                took_s = time.thread_time() - began_cpu
                pause_s = max(_IDLE_S if idle else REFRESH_S, _SHARE * took_s)
                if self.error:
                    pause_s = _RETRY_S
            if self._asked:
                await self._guarded(self._fetch_configs, session)
            with trio.move_on_at(trio.current_time() + self._tried + pause_s - time.monotonic()):
                await self._wanted.wait()

    async def _guarded(
        self, work: Callable[[Session], Awaitable[object]], session: Session
    ) -> None:
        try:
            with trio.fail_after(_DEADLINE_S):
                await work(session)
            self.error = None
        except KafkaError as e:
            self.error = e.name
        except (ClientError, ProtocolError, OSError, trio.TooSlowError):
            self.error = _LOST
        except Exception as e:  # noqa: BLE001 - a refused config, a missing secret: shown in the toolbar
            self.error = str(e).partition("\n")[0][:60] or type(e).__name__

    async def _refresh(self, session: Session) -> None:
        settings = self.settings
        admin = await session.admin(_with_short_timeouts(settings))
        seen = await fetch(admin)
        moving = self.moving
        with trio.move_on_after(_MOVING_S):
            moving = len(await running_reassignments(admin))
        if settings is self.settings:
            self._take(seen, moving)
        keep(settings.bootstrap, seen)
        with trio.move_on_after(_MOVING_S):
            await keep_members(admin, settings.bootstrap, seen)

    def _take(self, seen: Seen, moving: int) -> None:
        every = [p for t in seen.topics.values() for p in t.partitions]
        self.under_replicated = sum(p.under_replicated for p in every)
        self.offline = sum(p.leader_id < 0 for p in every)
        self.moving = moving
        self.down, self.brokers, self.controller = seen.down, seen.brokers, seen.controller
        topics = {n: partitions_meaning(len(t.partitions)) for n, t in seen.topics.items()}
        new = self._fill("topic", topics)
        if seen.groups is not None:
            new |= self._fill("group", seen.groups)
        new |= self._fill("broker", {str(b): a or "down" for b, a in seen.brokers.items()})
        self.refreshed = time.monotonic()
        if new:
            self.changed()

    async def _fetch_configs(self, session: Session) -> None:
        settings, asked = self.settings, sorted(self._asked)
        self._asked.clear()
        admin = await session.admin(_with_short_timeouts(settings))
        resources = [ConfigResource(_TYPES[kind], name) for kind, name in asked]
        found = await set_configs(admin, resources)
        now = time.monotonic()
        for (kind, name), resource in zip(asked, resources, strict=True):
            self._configs[kind, name] = (now, found.get((int(resource.type), name), {}))
        topics = {
            name: c for (kind, name), (_, c) in self._configs.items() if kind == "topic" and c
        }
        remember_configs(settings.bootstrap, topics)
        self.changed()

    # main thread's side

    def touched(self) -> None:
        """Record that a key was pressed: old names should be fetched again."""
        now = time.monotonic()
        if now - self._used > REFRESH_S and now - (self.refreshed or 0) > REFRESH_S:
            self.soon(self.stale)
        self._used = now

    def names(self, kind: str) -> Iterable[Candidate]:
        """Part of `pk.cli.command_line.completion.candidates.Names`."""
        if kind == "bootstrap":
            return [Candidate(a, f"broker {b}") for b, a in self.brokers.items() if a]
        if kind.endswith("-config"):
            return [Candidate(name) for name in recall("", kind)]
        if kind in ("member", "instance"):
            found = recall_meanings(self.settings.bootstrap, kind)
            return [Candidate(*item) for item in found.items()]
        return self._lists.get(kind, ())

    def configs(self, kind: str, name: str) -> Mapping[str, str]:
        """Part of `pk.cli.command_line.completion.candidates.Names`: the cached configs. Requests
        those that are missing or old."""
        if kind not in _TYPES or (kind == "broker" and not name.isdigit()):
            return {}
        at, known = self._configs.get((kind, name), (-_CONFIGS_S, {}))
        if time.monotonic() - at > _CONFIGS_S:
            self._asked.add((kind, name))
            self.soon(self._wake)
        return known

    def current(self, kind: str) -> str | None:
        """Part of `pk.cli.command_line.completion.candidates.Names`."""
        return self.topic if kind == "topic" else self.group if kind == "group" else None

    @property
    def lost(self) -> bool:
        """Whether the last refresh could not reach the cluster."""
        return self.error == _LOST

    def brokers_up(self) -> str:
        """`3 brokers`, or `2 of 3 brokers` if one is down."""
        every = len({*self.brokers, *self.down})
        if self.down:
            return f"{every - len(self.down)} of {count(every, 'broker')}"
        return count(every, "broker")

    def age(self) -> str:
        """The age of the names, for the toolbar."""
        if self.refreshed is None:
            return "names from the last time" if self._lists["topic"] else "no names yet"
        age_s = time.monotonic() - self.refreshed
        return f"names {age_s:.0f} s old" if age_s < 120 else f"names {age_s / 60:.0f} min old"
