"""Requests only the data that the screen shows, in the background.

The first request asks for the brokers, so that there is a screen immediately. A Metadata request
follows, for every topic, partition and ISR. Anything else is requested only while its tab is open:
log directories for sizes, ListOffsets for rates, ListGroups and OffsetFetch for lag. On a large
cluster, a round covers the rows on the screen and a share of the others: a few rounds cover
thousands of topics or groups, and watching keeps no broker busy. The slower a request was, the less
often it is repeated.

A failure is shown (`trouble`) and retried; the last known values stay on the screen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from pk.cli.cluster.brokers import describe_nodes
from pk.cli.cluster.groups import SHARE, offsets_of
from pk.cli.cluster.metrics_listeners import listeners
from pk.cli.cluster.min_isr import min_isrs
from pk.cli.cluster.out_of_sync_since import witnesses
from pk.cli.cluster.pipelines import pipeline_of
from pk.cli.cluster.reassignment_progress import Seen, poll
from pk.cli.cluster.reassignments import running_reassignments
from pk.cli.cluster.replicas import lags, latest, log_ends
from pk.cli.cluster.throttles import read_throttles
from pk.cli.exits import CommandError
from pk.cli.phrases import join
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.failures import NOT_AUTHORISED, leaf, sentence
from pk.cli.top.model import Model
from pk.core.errors import KafkaError, ProtocolError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError, NoBrokers, Unanswered

if TYPE_CHECKING:
    from pk.cli.cluster.metrics import Source

_ANSWER_S = 3.0
"""A broker that has not answered after this long counts as silent: its process may be suspended,
with its connections open."""
_FIRST_S = 5.0
"""How long the first response may take, without which there is nothing to show."""
_WHOLE_S = 30.0
"""How long a response may take for a snapshot, which requests everything at once."""
_PARTITIONS = (1000, 20_000)
"""The minimum and the maximum number of partitions that are not on the screen and whose end is
requested in a round."""
_GROUPS = (200, 5000)
"""The minimum and the maximum number of groups that are not on the screen and whose committed
offsets are requested in a round."""
_SHARE_S = 0.2
"""The time in a round for requests about items that are not on the screen. The share of these items
adapts to it."""
_INTERVAL_FACTOR = 5.0
_SLOW_FROM_S = 0.25
"""A request that took a second is repeated after about five seconds at the earliest; a quick one,
each round."""
_DIRS_S = 10.0
_NODES_S = 5.0
"""Sizes and the list of brokers change slowly: they are requested at most this often."""
_LISTENERS_S = 30.0
"""Configs with the addresses of metrics change rarely: they are requested at most this often."""
_UNHEALTHY_MAX = 200
"""The number of unhealthy partitions whose replicas' lag is requested."""
_TIMES = 60
"""The number of partitions in a round for which the time of the next unread record is
requested."""

T = TypeVar("T")


class ScreenNeeds:
    """The data that the screen needs, for its tab and for the visible rows."""

    def __init__(self) -> None:
        self.tab = "cluster"
        self.subject: str | None = None
        self.visible: Sequence[str] = ()
        """Topics or groups on the screen."""

        self.whole = False
        """Whether everything is needed each time, as for a snapshot."""


class _Turn(Generic[T]):
    """Goes through many items in rounds: a share at a time, as large as `_SHARE_S` allows."""

    def __init__(self, bounds: tuple[int, int]) -> None:
        self._bounds = bounds
        self._size = bounds[0]
        self._left: list[T] = []

    def next(self, first: Iterable[T], known: Collection[T], *, whole: bool) -> list[T]:
        """The items to request now: `first`, and the next share of the others or, with `whole`, all
        of them."""
        if whole:
            return list(known)
        if not self._left:
            self._left = list(known)
        share, self._left = self._left[: self._size], self._left[self._size :]
        return [one for one in dict.fromkeys((*first, *share)) if one in known]

    @property
    def over(self) -> bool:
        """Whether all items have had their turn."""
        return not self._left

    def took(self, seconds: float) -> None:
        """Adjust the next share to the time that this one took."""
        low, high = self._bounds
        wanted = round(self._size * _SHARE_S / max(seconds, _SHARE_S / 4))
        self._size = min(max(wanted, low), high)


class Collector:
    """Fills a model. Calls `changed` after every response."""

    def __init__(
        self, admin: Admin, model: Model, needs: ScreenNeeds, changed: Callable[[], None]
    ) -> None:
        self.admin = admin
        self.model = model
        self.needs = needs
        self.at_ms: int | None = None
        """When the cluster last answered, in epoch milliseconds."""

        self.changed = changed
        self._trouble: dict[str, str] = {}
        self.refused: list[KafkaError] = []
        """Errors about data that this user may not see."""

        self._due: dict[str, float] = {}
        self._partition_turn: _Turn[TopicPartition] = _Turn(_PARTITIONS)
        self._group_turn: _Turn[str] = _Turn(_GROUPS)
        self._listed: dict[int, list[r.GroupListing]] = {}
        self._sources: dict[int, Source] = {}
        """The addresses at which brokers serve metrics."""

        self._sources_due = 0.0

    @property
    def trouble(self) -> str | None:
        """The requests that fail at the moment, the most serious first."""
        for name in ("topics", *self._trouble):
            if name in self._trouble:
                return self._trouble[name]
        return None

    @property
    def lost(self) -> bool:
        """Whether the values are out of date because the cluster itself does not answer."""
        return "topics" in self._trouble

    async def begin(self) -> None:
        """Request the list of brokers; there is no screen before it. Raises what the request
        raises."""
        cluster = self.admin.cluster
        with trio.move_on_after(_FIRST_S) as waited:
            await cluster.refresh(())
        if waited.cancelled_caught:
            raise Unanswered(cluster.silent(), _FIRST_S * 1000)
        self.model.see_nodes(cluster.metadata.brokers, None, cluster.metadata.cluster_id)

    async def close(self) -> None:
        """Close the connections to metrics; those of the admin client stay."""
        for source in self._sources.values():
            await source.client.close()
        self._sources = {}

    def _done(self, name: str, started: float, every_s: float) -> None:
        """Compute when a job is due again."""
        now = trio.current_time()
        ease = 0.0 if self.needs.whole else now + _INTERVAL_FACTOR * (now - started) - _SLOW_FROM_S
        self._due[name] = max(started + every_s, ease)

    async def round(self, interval_s: float) -> None:
        """Make the requests for the tab once. Returns when every request has been answered or given
        up."""
        jobs: list[tuple[str, Callable[[], Awaitable[None]], float]] = [
            ("topics", self._topics, 0.0),
            ("nodes", self._nodes, max(_NODES_S, interval_s)),
        ]
        match self.needs.tab:
            case "cluster":
                jobs += [("ends", self._ends, 0.0), ("dirs", self._dirs, _DIRS_S)]
                if not self.needs.whole:  # they are needed only on the screen
                    jobs += [("metrics", self._metrics, 0.0)]
            case "requests":
                jobs += [("metrics", self._metrics, 0.0)]
            case "topics" | "topic":
                jobs += [("ends", self._ends, 0.0), ("dirs", self._dirs, _DIRS_S)]
                jobs += [("commits", self._commits, 0.0)]
            case "groups" | "group":
                jobs += [("groups", self._groups, 0.0)]
            case "isr":
                jobs += [("behind", self._behind, 0.0)]
            case "records":
                pass  # other requests read them
            case _:
                jobs += [("moves", self._moves, 0.0)]
        if self.model.began_ms is None:
            await self._try("topics", self._topics, 0.0)  # everything else needs the topics
            jobs = [job for job in jobs if job[0] != "topics"]
        # The failure of a job that only another tab needs is no longer of interest.
        for name in self._trouble.keys() - {"topics", *(name for name, _, _ in jobs)}:
            del self._trouble[name]
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
            if isinstance(found, KafkaError) and found.code in NOT_AUTHORISED:
                self.refused = [found]
            said = sentence(found)
            if isinstance(found, NoBrokers):
                said = f"No broker answers; trying again. {said}"
            self._trouble[name] = said
            if every_s:
                self._due[name] = trio.current_time() + every_s
        else:
            self._trouble.pop(name, None)
            self._done(name, started, every_s)
        self.changed()

    async def _answered(self, what: Callable[[], Awaitable[T]], of: str) -> T:
        """The response to one request. Raises TimeoutError if it takes too long; `of` names the
        request."""
        limit_s = _WHOLE_S if self.needs.whole else _ANSWER_S
        with trio.move_on_after(limit_s):
            return await what()
        raise TimeoutError(0, f"No answer in {limit_s:.0f} s to a request for {of}; trying again")

    async def _each(
        self, brokers: Iterable[int], ask: Callable[[int], Awaitable[None]]
    ) -> frozenset[int]:
        """Ask several brokers at once. Returns those that did not answer."""
        failed: set[int] = set()

        async def one(broker: int) -> bool:
            try:
                await ask(broker)
            except (ClientError, KafkaError):
                failed.add(broker)
                return False
            return True

        limit_s = _WHOLE_S if self.needs.whole else _ANSWER_S
        return frozenset(failed) | await self.admin.fan_out.ask(
            brokers, one, first_answer_s=limit_s, others_s=_ANSWER_S
        )

    async def _topics(self) -> None:
        cluster = self.admin.cluster
        await self._answered(lambda: cluster.refresh(None), "topics")
        metadata = cluster.metadata
        self.at_ms = now_ms()
        self.model.see_topics(metadata.topics, self.at_ms)

    async def _nodes(self) -> None:
        async def ask_nodes() -> None:
            asked = self._answered(lambda: describe_nodes(self.admin), "brokers")
            description, nodes = await asked
            self.model.see_nodes(nodes, description.controller_id, description.cluster_id)
            self.changed()

        # Requests to the controller do not wait for each other, since it may be silent.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_nodes)
            asked = self._answered(lambda: running_reassignments(self.admin), "reassignments")
            running = await asked
            self.model.see_adding({tp: move.adding_replicas for tp, move in running.items()})

    # offsets

    def _on_screen(self) -> list[TopicPartition]:
        needs = self.needs
        names = [needs.subject] if needs.tab == "topic" and needs.subject else needs.visible
        return [
            TopicPartition(name, number)
            for name in names
            if name in self.model.topics
            for number in range(len(self.model.topics[name].partitions))
        ]

    async def _ends(self) -> None:
        started = trio.current_time()
        known = self.model.partitions
        turn = self._partition_turn
        await self._ends_of(turn.next(self._on_screen(), known, whole=self.needs.whole))
        turn.took(trio.current_time() - started)

    async def _ends_of(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask the leaders for the log ends of partitions."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            leader = self.model.partitions[tp].leader_id
            if leader >= 0:
                by_leader.setdefault(leader, []).append(tp)

        async def ask(broker: int) -> None:
            ends = await latest(self.admin, broker, by_leader[broker])
            self.model.see_ends(ends, trio.current_time())
            self.changed()

        _check(await self._each(by_leader, ask), "offsets")

    async def _dirs(self) -> None:
        async def ask(broker: int) -> None:
            answer = (await self.admin.describe_log_dirs([broker])).value(broker)
            self.model.see_dirs({broker: answer}, trio.current_time())
            self.changed()

        _check(await self._each(self._live(), ask), "sizes")

    # groups

    def _live(self) -> list[int]:
        return [b for b, node in self.model.nodes.items() if not node.fenced]

    async def _list_groups(self) -> frozenset[int]:
        """Ask every broker for the groups that it coordinates. Returns those that did not
        answer."""

        async def ask(broker: int) -> None:
            self._listed[broker] = await groups_of(self.admin, broker)

        silent = await self._each(self._live(), ask)
        known = {b: listed for b, listed in self._listed.items() if b in self.model.nodes}
        self._listed = known
        # A group that has moved is listed by its new coordinator.
        order = sorted(known, key=lambda b: b not in silent)
        self.model.see_groups({g.group_id: g for b in order for g in known[b]}.values())
        self.changed()
        return silent

    async def _groups(self) -> None:
        silent = await self._list_groups()
        names = self._group_share()
        started = trio.current_time()
        silent |= await self._commits_of(names)
        self._group_turn.took(trio.current_time() - started)
        partitions = {tp for name in names for tp in self.model.commits.get(name, ())}
        known = [tp for tp in partitions if tp in self.model.partitions]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ends_of, known)
            nursery.start_soon(self._members)
        await self._record_times()
        _check(silent, "groups")

    def _group_share(self) -> list[str]:
        """The groups to request now: those on the screen, and the next share of the others."""
        needs = self.needs
        first = [needs.subject] if needs.tab == "group" and needs.subject else needs.visible
        return self._group_turn.next(first, self.model.groups or {}, whole=needs.whole)

    async def _by_coordinator(
        self, names: Iterable[str], ask: Callable[[list[str]], Awaitable[None]]
    ) -> frozenset[int]:
        """Ask each coordinator about its groups, all at once, so that a silent one does not delay
        the others."""
        by_broker: dict[int, list[str]] = {}
        for name in names:
            group = (self.model.groups or {}).get(name)
            if group is not None:
                by_broker.setdefault(group.coordinator_id, []).append(name)
        silent = await self._each(by_broker, lambda broker: ask(by_broker[broker]))
        for broker in silent:
            for name in by_broker[broker]:
                self.admin.cluster.forget_coordinator(name)
        return silent

    async def _commits_of(self, names: Iterable[str]) -> frozenset[int]:
        async def ask(names: list[str]) -> None:
            known = self.model.groups or {}
            types = {name: known[name].type for name in names if name in known}
            answers = await offsets_of(self.admin, types)
            found = {
                name: {tp: o.offset for tp, o in answer.ok.items()}
                for name, answer in answers.ok.items()
            }
            reported_lags = {
                name: {
                    tp: o.lag
                    for tp, o in answer.ok.items()
                    if isinstance(o, r.ShareGroupOffset) and o.lag is not None
                }
                for name, answer in answers.ok.items()
                if types[name] == SHARE
            }
            pipelines = {
                name: pipeline_of(o.metadata for o in answer.ok.values())
                for name, answer in answers.ok.items()
            }
            self.model.see_pipelines(pipelines)
            self.model.see_commits(found, trio.current_time(), reported_lags)
            self.changed()

        return await self._by_coordinator(names, ask)

    async def _commits(self) -> None:
        """Request the committed offsets of groups, for the read rates of topics."""
        silent: frozenset[int] = frozenset()
        if self.model.groups is None or self._group_turn.over:
            silent = await self._list_groups()
        silent |= await self._commits_of(self._group_share())
        _check(silent, "groups")

    async def _members(self) -> None:
        async def ask(names: list[str]) -> None:
            answers = await self.admin.describe_groups(names)
            self.model.see_members({name: len(g.members) for name, g in answers.ok.items()})

        wanted = self.model.groups if self.needs.whole else self.needs.visible
        await self._by_coordinator(wanted or (), ask)

    async def _record_times(self) -> None:
        """Request the timestamps of the records that the groups on the screen read next."""
        model, needs = self.model, self.needs
        places: dict[tuple[TopicPartition, int], None] = {}
        if needs.tab == "group" and needs.subject is not None:
            for tp in model.commits.get(needs.subject, {}):
                offset = model.next_offset(needs.subject, tp)
                if offset is not None and model.lag(needs.subject, tp):
                    places[tp, offset] = None
        else:
            for name in model.commits if needs.whole else needs.visible:
                worst = model.worst(name)
                offset = model.next_offset(name, worst) if worst is not None else None
                if worst is not None and offset is not None:
                    places[worst, offset] = None
        unknown = [p for p in places if p not in model.record_times and p[0] in model.partitions]
        asked = unknown if needs.whole else unknown[:_TIMES]
        if not asked:
            return
        answers = await self._answered(lambda: self.admin.record_times(asked), "records")
        model.see_record_times(
            {place: time for place, time in answers.ok.items() if time is not None}
        )

    # replicas

    async def _behind(self) -> None:
        model = self.model
        unhealthy = model.unhealthy[:_UNHEALTHY_MAX]
        if not unhealthy:
            model.see_behind({})
            return
        described = {
            tp: r.PartitionDescription(
                tp.partition, p.leader_id, p.leader_epoch, p.replicas, p.isr, p.offline_replicas
            )
            for tp in unhealthy
            if (p := model.partitions[tp])
        }
        ends = await log_ends(self.admin, described)
        seen = await witnesses(self.admin, described, ends)
        for (tp, broker), witness in seen.items():
            if witness.since_ms is not None:
                model.history.learn(tp, broker, witness.since_ms)
        model.see_behind(
            {
                tp: lags(tp, p, ends.get(tp, {}), seen, [b for b in p.replicas if b not in p.isr])
                for tp, p in described.items()
            }
        )
        unknown = {tp.topic for tp in unhealthy} - model.min_isr.keys()
        if unknown:
            model.min_isr |= await self._answered(lambda: min_isrs(self.admin, unknown), "configs")

    async def _moves(self) -> None:
        known = [row.tp for row in self.model.moves.rows]
        seen: Seen = await self._answered(
            lambda: poll(self.admin, None, before=self.model.moves.unfinished), "reassignments"
        )
        throttle: int | None = None
        moving = {tp.topic for tp in (*seen.running, *known)}
        if seen.running:
            present = await self._answered(
                lambda: read_throttles(self.admin, self.model.nodes, moving), "throttles"
            )
            rates = [int(v) for k in present.rates.values() for v in k.values() if v.isdecimal()]
            throttle = min(rates, default=None)
        self.model.see_moves(seen, throttle, trio.current_time())

    # requests

    async def _metrics(self) -> None:
        """Request the brokers' counts of their requests. A broker without metrics is left out."""
        if trio.current_time() >= self._sources_due:
            self._sources_due = trio.current_time() + _LISTENERS_S
            try:
                await self._find_sources()
            except (KafkaError, CommandError) as e:
                self.model.miss_metrics(sentence(e))
        if not self._sources:
            return
        missing: dict[int, str] = {}

        async def read(broker: int, source: Source) -> None:
            from pk.cli.cluster.metrics import read_request_counts

            try:
                counts = await self._answered(lambda: read_request_counts(source), "metrics")
            except (CommandError, OSError) as e:
                missing[broker] = sentence(e)
                self.model.forget_requests(broker)
                return
            found = {api: (of_api.times, of_api.errors) for api, of_api in counts.items()}
            self.model.see_requests(broker, found, trio.current_time())
            self.changed()

        async with trio.open_nursery() as nursery:
            for broker, source in self._sources.items():
                nursery.start_soon(read, broker, source)
        if len(missing) == len(self._sources):
            self.model.miss_metrics(next(iter(missing.values())))

    async def _find_sources(self) -> None:
        """Find the addresses of the metrics. Raises CommandError if there are none, KafkaError."""
        served = await self._answered(lambda: listeners(self.admin), "configs")
        urls = {broker: url for broker, url in served.urls.items() if url is not None}
        known, self._sources = self._sources, {}
        if urls:
            from pk.cli.cluster.metrics import source_of

            self._sources = {
                broker: known.pop(broker)
                if broker in known and known[broker].client.where.url == url
                else source_of(str(broker), url)
                for broker, url in urls.items()
            }
        for broker, source in known.items():
            await source.client.close()
            self.model.forget_requests(broker)
        if not urls:
            raise CommandError(f"{served.why_none}.")


def _check(silent: Collection[int], of: str) -> None:
    """Raise TimeoutError if brokers did not answer."""
    if silent:
        names = join([str(b) for b in sorted(silent)])
        several = "Brokers" if len(silent) > 1 else "Broker"
        raise TimeoutError(0, f"{several} {names} did not answer a request for {of}; trying again")


async def groups_of(admin: Admin, broker: int) -> list[r.GroupListing]:
    """The groups that a broker coordinates. Raises ClientError, KafkaError."""
    from pk.core.wire.messages.list_groups import ListGroupsRequest

    connection = await admin.cluster.connection(broker)
    response = await connection.request(ListGroupsRequest())
    if response.error_code:
        raise KafkaError(response.error_code, "ListGroups")
    return [
        r.GroupListing(
            g.group_id, g.protocol_type, g.group_state, g.group_type.capitalize(), broker
        )
        for g in response.groups
    ]
