"""Asks the cluster for what the screen shows, in the background, and no more than that.

The first thing asked is one Metadata request: it names every topic, partition and in-sync set, and a screen can be drawn
from it. What a tab needs beyond that is asked while it is looked at: log directories for sizes, ListOffsets for rates,
ListGroups and OffsetFetch for lag. Of a large cluster not everything is asked each time: the rows on the screen are, and a
share of the others, so that thousands of topics or groups are gone through in a few rounds and no broker is kept busy by
somebody who watches. A request that took long is repeated the more seldom.

What fails is told (`trouble`) and tried again; what was known stays on the screen.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import trio

from pk.cli.commands.isr import log_ends
from pk.cli.commands.reassign_state import describe_nodes, min_isrs
from pk.cli.commands.reassign_watch import Seen, look
from pk.cli.commands.throttles import read_throttles
from pk.cli.context import join
from pk.cli.failures import leaf, sentence
from pk.cli.resolve import now_ms
from pk.cli.top.model import Model
from pk.core.errors import KafkaError, ProtocolError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_ANSWER_S = 3.0
"""A broker that has not answered by then is told to be silent; it may be stopped and hold its connections open."""
_PARTITIONS = 2000
"""So many partitions that are not on the screen are asked for their end in one round."""
_GROUPS = 200
_EASE = 5.0
"""What took a second is not asked again for five, however short the interval."""
_DIRS_S = 10.0
_NODES_S = 5.0
_AILING = 200
_TIMES = 60

T = TypeVar("T")


class Wants:
    """What the screen shows now: the tab, and the rows of it that are to be seen."""

    def __init__(self) -> None:
        self.tab = "cluster"
        self.subject: str | None = None
        self.visible: Sequence[str] = ()
        """Topics or groups that are on the screen."""


class Collector:
    """Fills a model. `changed` is called after every answer."""

    def __init__(
        self, admin: Admin, model: Model, wants: Wants, changed: Callable[[], None]
    ) -> None:
        self.admin = admin
        self.model = model
        self.wants = wants
        self.at_ms: int | None = None
        """When the cluster last answered, epoch milliseconds."""

        self.changed = changed
        self._trouble: dict[str, str] = {}
        self._due: dict[str, float] = {}
        self._partition_turn: list[TopicPartition] = []
        self._group_turn: list[str] = []

    @property
    def trouble(self) -> str | None:
        """What fails at present, the gravest first."""
        for name in ("topics", *self._trouble):
            if name in self._trouble:
                return self._trouble[name]
        return None

    async def begin(self) -> None:
        """The first look, without which there is no screen. Raises what the request raises."""
        await self._topics()

    async def round(self, interval_s: float) -> None:
        """Asks once for all that the tab shows. Returns when everything has been answered or given up."""
        jobs: list[tuple[str, Callable[[], Awaitable[None]], float]] = [
            ("topics", self._topics, 0.0),
            ("nodes", self._nodes, max(_NODES_S, interval_s)),
        ]
        match self.wants.tab:
            case "cluster":
                jobs += [("ends", self._ends, 0.0), ("dirs", self._dirs, _DIRS_S)]
            case "topics" | "topic":
                jobs += [("ends", self._ends, 0.0), ("dirs", self._dirs, _DIRS_S)]
                jobs += [("commits", self._commits, 0.0)]
            case "groups" | "group":
                jobs += [("groups", self._groups, 0.0)]
            case "isr":
                jobs += [("behind", self._behind, 0.0)]
            case _:
                jobs += [("moves", self._moves, 0.0)]
        async with trio.open_nursery() as nursery:
            for name, job, every_s in jobs:
                if trio.current_time() >= self._due.get(name, 0.0):
                    nursery.start_soon(self._try, name, job, every_s)

    async def _try(self, name: str, job: Callable[[], Awaitable[None]], every_s: float) -> None:
        started = trio.current_time()
        try:
            await job()
        except Exception as error:
            found = leaf(error)
            if not isinstance(found, (KafkaError, ClientError, ProtocolError, OSError)):
                raise
            self._trouble[name] = sentence(found)
        else:
            self._trouble.pop(name, None)
            took = trio.current_time() - started
            self._due[name] = max(started + every_s, trio.current_time() + _EASE * took - 0.25)
        self.changed()

    async def _answered(self, what: Callable[[], Awaitable[T]]) -> T:
        """The answer of one request that any broker can give; raises TimeoutError where it takes too long."""
        with trio.move_on_after(_ANSWER_S):
            return await what()
        raise TimeoutError(0, f"No broker has answered for {_ANSWER_S:.0f} s; trying again")

    async def _each(
        self, brokers: Iterable[int], ask: Callable[[int], Awaitable[None]], what: str
    ) -> None:
        """Asks several brokers; those that do not answer in time are told."""
        silent: set[int] = set()

        async def one(broker: int) -> None:
            silent.add(broker)
            with trio.move_on_after(_ANSWER_S):
                try:
                    await ask(broker)
                except (ClientError, KafkaError):
                    return
                silent.discard(broker)

        async with trio.open_nursery() as nursery:
            for broker in brokers:
                nursery.start_soon(one, broker)
        if silent:
            names = join([str(b) for b in sorted(silent)])
            several = "Brokers" if len(silent) > 1 else "Broker"
            raise TimeoutError(0, f"{several} {names} did not answer for {what}")

    async def _topics(self) -> None:
        cluster = self.admin.cluster
        await self._answered(lambda: cluster.refresh(None))
        metadata = cluster.metadata
        if not self.model.nodes:
            self.model.see_nodes(metadata.brokers, None, metadata.cluster_id)
        self.at_ms = now_ms()
        self.model.see_topics(metadata.topics, self.at_ms)

    async def _nodes(self) -> None:
        description, nodes = await self._answered(lambda: describe_nodes(self.admin))
        self.model.see_nodes(nodes, description.controller_id, description.cluster_id)

    # offsets

    def _share(self, first: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions to ask for now: `first`, and the next of all the others in turn."""
        asked = dict.fromkeys(tp for tp in first if tp in self.model.partitions)
        if not self._partition_turn:
            self._partition_turn = list(self.model.partitions)
        turn, self._partition_turn = (
            self._partition_turn[:_PARTITIONS],
            self._partition_turn[_PARTITIONS:],
        )
        asked |= dict.fromkeys(tp for tp in turn if tp in self.model.partitions)
        return list(asked)

    def _on_screen(self) -> list[TopicPartition]:
        wants = self.wants
        names = [wants.subject] if wants.tab == "topic" and wants.subject else wants.visible
        return [
            TopicPartition(name, number)
            for name in names
            if name in self.model.topics
            for number in range(len(self.model.topics[name].partitions))
        ]

    async def _ends(self) -> None:
        await self._ends_of(self._share(self._on_screen()))

    async def _ends_of(self, partitions: Iterable[TopicPartition]) -> None:
        """Asks the leaders where partitions end."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            leader = self.model.partitions[tp].leader_id
            if leader >= 0:
                by_leader.setdefault(leader, []).append(tp)

        async def ask(broker: int) -> None:
            ends = await latest(self.admin, broker, by_leader[broker])
            self.model.see_ends(ends, trio.current_time())
            self.changed()

        await self._each(by_leader, ask, "offsets")

    async def _dirs(self) -> None:
        async def ask(broker: int) -> None:
            answer = (await self.admin.describe_log_dirs([broker]))[broker]
            if isinstance(answer, Exception):
                raise answer
            self.model.see_dirs({broker: answer}, trio.current_time())
            self.changed()

        live = [b for b, node in self.model.nodes.items() if not node.fenced]
        await self._each(live, ask, "sizes")

    # groups

    async def _groups(self) -> None:
        listed = await self._answered(lambda: self.admin.list_groups())
        self.model.see_groups(listed.groups)
        self.changed()
        names = self._group_share()
        await self._commits_of(names)
        partitions = {tp for name in names for tp in self.model.commits.get(name, ())}
        await self._ends_of(tp for tp in partitions if tp in self.model.partitions)
        self.changed()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._members)
            nursery.start_soon(self._record_times)

    def _group_share(self) -> list[str]:
        """The groups to ask for now: those on the screen, and the next of the others in turn."""
        groups = self.model.groups or {}
        wants = self.wants
        first = [wants.subject] if wants.tab == "group" and wants.subject else wants.visible
        if not self._group_turn:
            self._group_turn = list(groups)
        turn, self._group_turn = self._group_turn[:_GROUPS], self._group_turn[_GROUPS:]
        return [name for name in dict.fromkeys((*first, *turn)) if name in groups]

    async def _commits_of(self, names: Sequence[str]) -> None:
        if not names:
            return
        answers = await self._answered(lambda: self.admin.list_groups_offsets(names))
        found = {
            name: {tp: o.offset for tp, o in answer.items() if isinstance(o, r.OffsetAndMetadata)}
            for name, answer in answers.items()
            if isinstance(answer, dict)
        }
        self.model.see_commits(found, trio.current_time())

    async def _commits(self) -> None:
        """Commits of groups, for what is read of topics."""
        if self.model.groups is None or not self._group_turn:
            listed = await self._answered(lambda: self.admin.list_groups())
            self.model.see_groups(listed.groups)
        await self._commits_of(self._group_share())

    async def _members(self) -> None:
        groups = self.model.groups or {}
        names = [name for name in self.wants.visible if name in groups]
        if not names:
            return
        answers = await self._answered(lambda: self.admin.describe_groups(names))
        self.model.members.update(
            (name, len(answer.members))
            for name, answer in answers.items()
            if isinstance(answer, r.GroupDescription)
        )

    async def _record_times(self) -> None:
        """When the records were produced that the groups on the screen read next."""
        model, wants = self.model, self.wants
        places: dict[tuple[TopicPartition, int], None] = {}
        if wants.tab == "group" and wants.subject is not None:
            for tp, offset in model.commits.get(wants.subject, {}).items():
                if model.lag(wants.subject, tp):
                    places[tp, offset] = None
        else:
            for name in wants.visible:
                worst = model.worst(name)
                if worst is not None:
                    places[worst, model.commits[name][worst]] = None
        unknown = [p for p in places if p not in model.record_times and p[0] in model.partitions]
        asked = list(islice(unknown, _TIMES))
        if not asked:
            return
        answers = await self._answered(lambda: self.admin.record_times(asked))
        model.see_record_times(
            {p: t for p, t in answers.items() if t is not None and not isinstance(t, Exception)}
        )

    # replicas

    async def _behind(self) -> None:
        model = self.model
        ailing = model.ailing[:_AILING]
        if not ailing:
            model.behind.clear()
            return
        described = {
            tp: r.PartitionDescription(
                tp.partition, p.leader_id, p.leader_epoch, p.replicas, p.isr, p.offline_replicas
            )
            for tp in ailing
            if (p := model.partitions[tp])
        }
        ends = await log_ends(self.admin, described)
        model.behind = {tp: _lags(ends.get(tp, {}), p) for tp, p in described.items()}
        unknown = {tp.topic for tp in ailing} - model.min_isr.keys()
        if unknown:
            model.min_isr |= await self._answered(lambda: min_isrs(self.admin, unknown))

    async def _moves(self) -> None:
        known = [row.tp for row in self.model.moves.rows]
        seen: Seen = await self._answered(lambda: look(self.admin, None))
        throttle: int | None = None
        moving = {tp.topic for tp in (*seen.running, *known)}
        if seen.running:
            present = await self._answered(
                lambda: read_throttles(self.admin, self.model.nodes, moving)
            )
            rates = [int(v) for k in present.rates.values() for v in k.values() if v.isdecimal()]
            throttle = min(rates, default=None)
        self.model.see_moves(seen, throttle, trio.current_time())


def _lags(ends: Mapping[int, int], p: r.PartitionDescription) -> dict[int, int | None]:
    """Broker → records that its replica lacks; None where its end, or the leader's, is not known."""
    leo = ends.get(p.leader_id)
    return {b: None if leo is None or b not in ends else max(leo - ends[b], 0) for b in p.replicas}


async def latest(
    admin: Admin, broker: int, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The high watermarks of partitions, as their leader tells them; what it refuses is left out.

    One request, and no metadata before it: what is asked every other second must be cheap. Raises ClientError, KafkaError.
    """
    from pk.core.wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    topics: dict[str, ListOffsetsTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=tp.partition, timestamp=r.LATEST)
        )
    request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
    connection = await admin.cluster.connection(broker)
    response = await connection.request(request, low=1)
    return {
        TopicPartition(topic.name, p.partition_index): p.offset
        for topic in response.topics
        for p in topic.partitions
        if p.error_code == 0
    }
