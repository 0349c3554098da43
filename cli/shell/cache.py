"""What the shell knows of its cluster: names for completion and figures for the toolbar, refreshed in the background.

Completion and toolbar read what is here and never wait. A refresh that fails leaves the old names and says so in the
toolbar.
"""

import time
from collections.abc import Iterable, Mapping

import trio

from pk.cli.commands.reassign_state import describe_nodes, running_reassignments
from pk.cli.complete import Candidate
from pk.cli.context import count
from pk.cli.names import remember
from pk.cli.session import Session
from pk.cli.settings import Settings
from pk.core.config import BROKER_KEYS, TOPIC_KEYS
from pk.core.config_keys import Key, Type
from pk.core.errors import KafkaError
from pk.net.client.errors import ClientError
from pk.net.client.results import ConfigResource, ConfigSource, ResourceType, TopicDescription

REFRESH_S = 10.0
_CONFIGS_MAX = 200
"""Topics whose configs are kept for completion."""
_PARTITIONS_MAX = 20_000


class Cache:
    """The names and figures of one cluster."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.error: str | None = None
        self.refreshed: float | None = None
        self.brokers: dict[int, str] = {}
        self.controller: int | None = None
        self.down: set[int] = set()
        """Brokers that are fenced, or hold replicas and are not there."""

        self.under_replicated = 0
        self.offline = 0
        self.moving = 0
        self.partitions: dict[str, str] = {}
        self.topics: dict[str, str] = {}
        self.groups: dict[str, str] = {}
        self.configs: dict[str, dict[str, str]] = {}
        """Topic → its configs that were set."""

        self._wanted = trio.Event()

    def stale(self) -> None:
        """Asks for a refresh soon; called in the engine's thread."""
        self._wanted.set()

    async def keep_fresh(self, session: Session) -> None:
        """Refreshes for ever."""
        while True:
            self._wanted = trio.Event()
            try:
                with trio.fail_after(REFRESH_S):
                    await self._refresh(session)
                self.error = None
                self.refreshed = time.monotonic()
            except (ClientError, KafkaError, OSError, trio.TooSlowError) as e:
                self.error = "not connected" if not isinstance(e, KafkaError) else e.name
            with trio.move_on_after(REFRESH_S):
                await self._wanted.wait()

    async def _refresh(self, session: Session) -> None:
        admin = await session.admin(self.settings)
        cluster, nodes = await describe_nodes(admin)
        self.brokers = {b.node_id: b.address for b in cluster.brokers}
        self.controller = cluster.controller_id if cluster.controller_id >= 0 else None
        described = await admin.describe_topics()
        topics = {n: t for n, t in described.items() if isinstance(t, TopicDescription)}
        self.topics = {n: f"{len(t.partitions)} partitions" for n, t in sorted(topics.items())}
        self._partitions(topics, {b for b, node in nodes.items() if not node.fenced})
        self.moving = len(await running_reassignments(admin))
        listed = await admin.list_groups()
        self.groups = {g.group_id: g.state for g in sorted(listed.groups, key=lambda g: g.group_id)}
        remember(self.settings.bootstrap, "topic", self.topics)
        remember(self.settings.bootstrap, "group", self.groups)
        wanted = [ConfigResource(ResourceType.TOPIC, n) for n in list(topics)[:_CONFIGS_MAX]]
        if wanted:
            answers = await admin.describe_configs(wanted, include_synonyms=False)
            self.configs = {
                resource.name: {
                    e.name: e.value or "" for e in found if e.source == ConfigSource.TOPIC
                }
                for resource, found in answers.items()
                if not isinstance(found, Exception)
            }

    def _partitions(self, topics: Mapping[str, TopicDescription], live: set[int]) -> None:
        every = [(t.name, p) for _, t in sorted(topics.items()) for p in t.partitions]
        self.under_replicated = sum(p.under_replicated for _, p in every)
        self.offline = sum(p.leader_id < 0 for _, p in every)
        known = {b for _, p in every for b in p.replicas} | set(self.brokers)
        self.down = known - live
        self.partitions = {
            f"{name}/{p.partition}": f"leader {p.leader_id}, replicas {','.join(map(str, p.replicas))}"
            for name, p in every[:_PARTITIONS_MAX]
        }
        remember(self.settings.bootstrap, "broker", map(str, known))
        remember(self.settings.bootstrap, "partition", self.partitions)

    def brokers_up(self) -> str:
        """`3 brokers`, or `2 of 3 brokers` where one is down."""
        every = len({*self.brokers, *self.down})
        if self.down:
            return f"{every - len(self.down)} of {count(every, 'broker')}"
        return count(every, "broker")

    def names(self, kind: str) -> Iterable[Candidate]:
        """The candidates of a kind; part of `pk.cli.complete.Names`."""
        match kind:
            case "topic":
                return [Candidate(n, meaning) for n, meaning in self.topics.items()]
            case "group":
                return [Candidate(n, state) for n, state in self.groups.items()]
            case "broker":
                return [Candidate(str(n), address) for n, address in self.brokers.items()]
            case "partition":
                return [Candidate(n, meaning) for n, meaning in self.partitions.items()]
            case "bootstrap":
                return [Candidate(address, f"broker {n}") for n, address in self.brokers.items()]
            case "topic-config":
                return self.config_keys(None)
            case "broker-config":
                return [Candidate(f"{k.name}=", _about(k, None)) for k in BROKER_KEYS.values()]
        return ()

    def config_keys(self, topic: str | None) -> list[Candidate]:
        """The config keys of a topic, each with its present value, its default and what it is for."""
        present = self.configs.get(topic or "", {})
        return [
            Candidate(f"{k.name}=", _about(k, present.get(k.name))) for k in TOPIC_KEYS.values()
        ]

    def config_values(self, name: str) -> list[Candidate]:
        """The values that a topic's or broker's key can have, where they can be listed."""
        key = TOPIC_KEYS.get(name) or BROKER_KEYS.get(name)
        if key is None:
            return []
        if key.type is Type.BOOLEAN:
            return [Candidate(f"{name}={v}") for v in ("true", "false")]
        if not key.valid or ".." in key.valid:
            return []
        words = key.valid.replace("|", ",").strip("[]").split(",")
        return [Candidate(f"{name}={w.strip()}") for w in words if w.strip().isidentifier()]

    def age(self) -> str:
        """How old the names are, for the toolbar."""
        if self.refreshed is None:
            return "names not loaded yet"
        return f"names {time.monotonic() - self.refreshed:.0f} s old"


def _about(key: Key, present: str | None) -> str:
    parts = [f"now {present}"] if present is not None else []
    if key.default is not None:
        parts.append(f"default {key.default or '(empty)'}")
    first = key.doc.partition(". ")[0].strip()
    return " · ".join([*parts, first])
