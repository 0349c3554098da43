"""Collects the snapshot of a cluster for `pk doctor`: only the data that the chosen checks need,
with all requests in parallel.

The collector changes nothing, joins no group and creates no topic. If a broker does not answer or
denies access, its data is left out and recorded as unseen.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

import trio

from pk.cli.cluster.broker_defaults import Default, broker_defaults
from pk.cli.cluster.brokers import describe_nodes
from pk.cli.cluster.features import common_range, release_of
from pk.cli.cluster.groups import SHARE, offsets_of
from pk.cli.cluster.reassignments import running_reassignments
from pk.cli.cluster.throttles import describe as describe_throttles
from pk.cli.cluster.throttles import everything, read_throttles
from pk.cli.diagnosis import checks as c
from pk.cli.diagnosis.open_transactions import pinning_transactions
from pk.cli.diagnosis.pinning_transaction import Known
from pk.cli.diagnosis.readers import horizon_ms, retention_ms
from pk.cli.diagnosis.snapshot import (
    Broker,
    ClusterSnapshot,
    Commit,
    Directory,
    Follower,
    Group,
    OpenTransaction,
    Partition,
    Topic,
)
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.cluster_files import start_commands
from pk.cli.runtime.failures import phrase
from pk.core.auth.acls import AclBinding, Operation
from pk.core.auth.unsecured_tokens import UNSECURED
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.errors import ClientError

_ANSWER_S = 3.0
"""How long a broker may take to describe itself."""
_PART_S = 10.0
"""How long a part of the snapshot may take: a broker that hangs must not delay the results of the
others."""
_TIMES_MAX = 1000
"""The most committed offsets in danger of retention for which the timestamp of the next record is
requested."""
_CONFIGS = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
)
_DELETING = ("cleanup.policy", "retention.ms", "retention.bytes")
_DATA_NEEDS = frozenset((c.OFFSETS, c.TRANSACTIONS, c.GROUPS))


Commits = dict[TopicPartition, r.OffsetAndMetadata]


_GONE = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
)


def _is_gone(answer: object) -> bool:
    """Whether a topic or a group was deleted after it was listed: then it is neither a problem nor
    missing data."""
    return isinstance(answer, KafkaError) and answer.code in _GONE


_BROKER_KEYS = (
    "transaction.max.timeout.ms",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "sasl.enabled.mechanisms",
    UNSECURED,
)


class Collector:
    """Builds a snapshot, part by part."""

    def __init__(self, admin: Admin, needs: frozenset[str]) -> None:
        self.admin = admin
        self.needs = needs
        self.unseen: dict[str, Exception] = {}
        self.lacking: dict[str, Exception] = {}
        self.cluster: r.ClusterDescription | None = None
        self.nodes: dict[int, r.Node] = {}
        self.topics: dict[str, r.TopicDescription] = {}
        self.running: Mapping[TopicPartition, r.Reassignment] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.inherited: dict[str, set[str]] = {}
        """Topic → the keys that it inherits, since it does not set them itself."""

        self.defaults: dict[int, dict[str, Default]] = {}
        self.releases: dict[int, str | None] = {}
        self.features: dict[int, r.FeatureDescription] = {}
        self.apis: dict[int, frozenset[tuple[str, int, int]]] = {}
        self.broker_configs: dict[int, dict[str, str]] = {}
        self.silent: set[int] = set()
        self.quorum: r.QuorumDescription | None = None
        self.ahead_ms: int | None = None
        self.dirs: dict[int, tuple[r.LogDirDescription, ...]] = {}
        self.throttled: str | None = None
        self.throttles_unowned = False
        self.offsets: dict[str, dict[TopicPartition, r.ListedOffset]] = {}
        self.groups_whole = True
        self.groups: dict[str, tuple[r.GroupDescription, Commits]] = {}
        self.transactions: list[OpenTransaction] = []
        self.certificate_ends: dict[int, int] = {}
        self.acls: list[AclBinding] = []
        self.scram_users: frozenset[str] = frozenset()
        self.recoveries: Mapping[TopicPartition, r.UncleanRecovery] = {}
        self.remote: Mapping[TopicPartition, r.RemoteState] = {}
        self.expiring: dict[tuple[str, TopicPartition], int | None] = {}

    async def collect(self) -> ClusterSnapshot:
        """Request the data of all chosen checks. Raises KafkaError and ClientError if not even the
        topics can be listed."""
        described: Answers[str, r.TopicDescription] = Answers()

        async def ask_nodes() -> None:
            self.cluster, self.nodes = await describe_nodes(self.admin)

        async def ask_topics() -> None:
            described.update(await self.admin.describe_topics())

        # Requests that brokers forward to the controller are sent first, with a shorter limit: a
        # broker answers requests in order.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_nodes)
            nursery.start_soon(ask_topics)
            nursery.start_soon(self._part, c.REASSIGNMENTS, self._running, _ANSWER_S)
            if c.QUORUM in self.needs:
                nursery.start_soon(self._part, c.QUORUM, self._quorum, _ANSWER_S)
        self.topics.update(described.ok)
        self.unseen.update({f"topic {name}": e for name, e in described.errors.items()})
        parts: tuple[tuple[str, Callable[[], Awaitable[None]], frozenset[str]], ...] = (
            (c.CONFIGS, self._topic_configs, frozenset((c.CONFIGS,))),
            (c.CONFIGS, self._leaders_configs, frozenset((c.GROUPS,))),
            (c.DIRS, self._directories, frozenset((c.DIRS,))),
            (c.THROTTLES, self._throttles, frozenset((c.THROTTLES,))),
            (c.OFFSETS, self._log_ends, _DATA_NEEDS),
            (c.TIMES, self._newest, frozenset((c.TIMES,))),
            (c.GROUPS, self._groups, frozenset((c.GROUPS,))),
            (c.ACLS, self._acls, frozenset((c.ACLS,))),
            (c.USERS, self._users, frozenset((c.USERS,))),
            (c.RECOVERIES, self._recoveries, frozenset((c.RECOVERIES,))),
            (c.REMOTE, self._remote, frozenset((c.REMOTE,))),
            (c.CERTIFICATES, self._certificates, frozenset((c.CERTIFICATES,))),
        )
        if c.BROKERS in self.needs:  # a broker that did not answer gets no more requests
            await self._part(c.BROKERS, self._brokers)
        async with trio.open_nursery() as nursery:
            for name, ask, wanted_by in parts:
                if wanted_by & self.needs:
                    nursery.start_soon(self._part, name, ask)
        if c.TRANSACTIONS in self.needs:
            await self._part(c.TRANSACTIONS, self._transactions)
        if {c.GROUPS, c.CONFIGS} <= self.needs:
            await self._part(c.TIMES, self._expiring)
        return self.snapshot()

    async def _part(
        self, name: str, ask: Callable[[], Awaitable[None]], limit_s: float = _PART_S
    ) -> None:
        with trio.move_on_after(limit_s) as scope:
            try:
                await ask()
            except (KafkaError, ClientError) as e:
                if not (isinstance(e, KafkaError) and e.code == ErrorCode.UNSUPPORTED_VERSION):
                    self._miss(name, name, e)
        if scope.cancelled_caught:
            self._miss(name, name, _late(limit_s))

    def _miss(self, need: str, part: str, error: Exception) -> None:
        """Record that part of the data that checks need could not be read."""
        self.unseen[part] = error
        self.lacking.setdefault(need, error)

    async def _running(self) -> None:
        self.running = await running_reassignments(self.admin)

    async def _recoveries(self) -> None:
        self.recoveries = await self.admin.unclean_recovery(None)

    async def _remote(self) -> None:
        self.remote = await self.admin.remote_storage(self.answering)

    @property
    def live(self) -> list[int]:
        return sorted(b for b, node in self.nodes.items() if not node.fenced)

    @property
    def answering(self) -> list[int]:
        return [b for b in self.live if b not in self.silent]

    async def _topic_configs(self) -> None:
        resources = [r.ConfigResource(r.ResourceType.TOPIC, name) for name in self.topics]
        answers = await self.admin.describe_configs(
            resources, keys=_CONFIGS, include_synonyms=False
        )
        for resource, error in answers.errors.items():
            if _is_gone(error):
                self.topics.pop(resource.name, None)
            else:
                self._miss(c.CONFIGS, f"configs of topic {resource.name}", error)
        for resource, entries in answers.ok.items():
            self.configs[resource.name] = {e.name: e.value for e in entries if e.value}
            self.inherited[resource.name] = {
                e.name for e in entries if e.source is not r.ConfigSource.TOPIC
            }

    async def _leaders_configs(self) -> None:
        """The values on each broker of the configs that delete records, for topics that do not set
        them."""
        self.defaults = await broker_defaults(self.admin, self.answering, _DELETING)

    async def _brokers(self) -> None:
        async def ask(broker: int) -> bool:
            try:
                self.features[broker] = await self.admin.describe_features(broker)
                self.releases[broker] = release_of(self.features[broker])
                ranges = await self.admin.api_versions(broker)
                self.apis[broker] = frozenset(
                    (a.name, a.min_version, a.max_version) for a in ranges
                )
                resource = r.ConfigResource(r.ResourceType.BROKER, str(broker))
                described = await self.admin.describe_configs(
                    [resource], keys=_BROKER_KEYS, include_synonyms=False
                )
                for entries in described.ok.values():
                    self.broker_configs[broker] = {e.name: e.value for e in entries if e.value}
            except ClientError:
                self.silent.add(broker)
                return False
            except KafkaError as e:
                self._miss(c.BROKERS, f"broker {broker}", e)
            return True

        # A broker that did not answer this request gets no other requests that could take as long.
        limits = {"others_s": _ANSWER_S, "first_answer_s": _ANSWER_S}
        self.silent |= await self.admin.fan_out.ask(self.live, ask, **limits)

    async def _quorum(self) -> None:
        before = now_ms()
        self.quorum = await self.admin.describe_quorum()
        between = (before + now_ms()) // 2
        # The leader's entry has the time of its own clock when it responded.
        for voter in self.quorum.voters:
            if voter.replica_id == self.quorum.leader_id and voter.last_caught_up_timestamp_ms > 0:
                self.ahead_ms = voter.last_caught_up_timestamp_ms - between

    async def _directories(self) -> None:
        async def ask(broker: int) -> None:
            part = f"log directories of broker {broker}"
            with trio.move_on_after(_ANSWER_S) as scope:
                answers = await self.admin.describe_log_dirs([broker])
                self.dirs.update(answers.ok)
                for error in answers.errors.values():
                    self._miss(c.DIRS, part, error)
            if scope.cancelled_caught:
                self._miss(c.DIRS, part, _late(_ANSWER_S))

        async with trio.open_nursery() as nursery:
            for broker in self.answering:
                nursery.start_soon(ask, broker)

    async def _throttles(self) -> None:
        present = await read_throttles(self.admin, self.answering, list(self.topics))
        if present.any:
            self.throttled = describe_throttles(everything(present, ()))
            self.throttles_unowned = not self.running
        for part, error in present.unread.items():
            if not _is_gone(error):
                self._miss(c.THROTTLES, f"throttles of {part}", error)

    def _led(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, p.partition)
            for topic in self.topics.values()
            for p in topic.partitions
            if p.leader_id >= 0 and p.leader_id not in self.silent
        ]

    async def _list(
        self,
        name: str,
        wanted: Mapping[TopicPartition, int],
        isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
    ) -> None:
        answers = await self.admin.list_offsets(wanted, isolation=isolation)
        self.offsets[name] = answers.ok
        for tp, error in answers.errors.items():
            if _is_gone(error):
                self.topics.pop(tp.topic, None)
        failed = [
            e
            for e in answers.errors.values()
            if not (isinstance(e, KafkaError) and e.code == ErrorCode.UNSUPPORTED_VERSION)
            and not _is_gone(e)
        ]
        if failed:
            self._miss(c.OFFSETS, f"offsets of {len(failed)} partitions", failed[0])

    async def _log_ends(self) -> None:
        tps = self._led()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._list, "start", dict.fromkeys(tps, r.EARLIEST))
            nursery.start_soon(self._list, "end", dict.fromkeys(tps, r.LATEST))
            if c.TRANSACTIONS in self.needs:
                nursery.start_soon(
                    self._list,
                    "stable",
                    dict.fromkeys(tps, r.LATEST),
                    r.IsolationLevel.READ_COMMITTED,
                )

    async def _newest(self) -> None:
        user = {t.name for t in self.topics.values() if not t.internal}
        await self._list("newest", {tp: r.MAX_TIMESTAMP for tp in self._led() if tp.topic in user})

    async def _groups(self) -> None:
        self.groups_whole = False
        listed = await self.admin.list_groups()
        for broker, error in listed.errors.items():
            self._miss(c.GROUPS, f"groups of broker {broker}", error)
        types = {g.group_id: g.type for g in listed.groups}
        whole = not listed.errors
        cluster = await self.admin.describe_cluster(include_authorized_operations=True)
        may = cluster.authorized_operations
        if may != r.NO_OPERATIONS and not may >> Operation.DESCRIBE & 1:
            # Brokers leave out the groups that the user may not describe.
            hidden = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "ListGroups")
            self._miss(c.GROUPS, "groups that you may not describe", hidden)
            whole = False
        described = await self.admin.describe_groups(types)
        commits = await offsets_of(self.admin, types)
        for name in described:
            failed = described.errors.get(name) or commits.errors.get(name)
            if failed is None:
                self.groups[name] = (described.ok[name], dict(commits.ok[name].ok))
            elif not _is_gone(failed):
                self._miss(c.GROUPS, f"group {name}", failed)
                whole = False
        self.groups_whole = whole

    async def _acls(self) -> None:
        try:
            self.acls = list(await self.admin.describe_acls())
        except KafkaError as e:
            if e.code != ErrorCode.SECURITY_DISABLED:
                raise

    async def _users(self) -> None:
        users = await self.admin.describe_scram_users()
        self.scram_users = frozenset(users)

    async def _certificates(self) -> None:
        if not self.admin.config.uses_tls:
            return
        from pk.net.client.tls import certificate_end_ms

        for broker in self.answering:
            self.certificate_ends[broker] = await certificate_end_ms(
                self.nodes[broker], self.admin.config
            )

    async def _transactions(self) -> None:
        """Request the transactions of partitions whose last stable offset is below the log end:
        only these have open ones."""
        ends, stable = self.offsets.get("end", {}), self.offsets.get("stable", {})
        held = [tp for tp, at in stable.items() if tp in ends and at.offset < ends[tp].offset]
        found = await pinning_transactions(self.admin, held) if held else {}
        self.transactions += [
            OpenTransaction(
                tp,
                one.producer_id,
                one.last_ms,
                one.start_offset,
                one.since_ms,
                one.transactional_id,
                None if one.known is Known.UNHEARD else one.known is Known.NO,
            )
            for tp, one in found.items()
        ]

    async def _expiring(self) -> None:
        """The next records of groups that retention will delete soon, with their timestamps."""
        now = now_ms()
        ends = self.offsets.get("end", {})
        kept: dict[TopicPartition, int] = {}
        for _, commits in self.groups.values():
            for tp, commit in commits.items():
                if tp in kept or tp not in ends or self._unread(tp, commit) >= ends[tp].offset:
                    continue
                topic = self.topics.get(tp.topic)
                if topic is None or tp.topic not in self.configs:
                    continue
                leader = next(
                    (p.leader_id for p in topic.partitions if p.partition == tp.partition), -1
                )
                inherited = self._by_leader(tp.topic).get(leader, {})
                lives = retention_ms({**self.configs[tp.topic], **inherited})
                if lives is not None:
                    kept[tp] = now - lives + horizon_ms(lives)
        await self._list("fresh", kept)
        fresh = self.offsets["fresh"]
        starts = self.offsets.get("start", {})
        places: set[tuple[TopicPartition, int]] = set()
        for name, (_, commits) in self.groups.items():
            for tp, commit in commits.items():
                at = self._unread(tp, commit)
                if tp not in fresh or at >= ends[tp].offset:
                    continue
                if fresh[tp].offset < 0 or at < fresh[tp].offset:
                    self.expiring[name, tp] = None
                    if tp in starts and at >= starts[tp].offset:
                        places.add((tp, at))
        times = (await self.admin.record_times(sorted(places)[:_TIMES_MAX])).ok
        for name, tp in self.expiring:
            unread = self._unread(tp, self.groups[name][1][tp])
            self.expiring[name, tp] = times.get((tp, unread))

    def _unread(self, tp: TopicPartition, commit: r.OffsetAndMetadata) -> int:
        """The offset of the next record that a group has not read."""
        if not isinstance(commit, r.ShareGroupOffset):
            return commit.offset
        end = self.offsets.get("end", {}).get(tp)
        return commit.unread(end.offset if end is not None else None)

    # The snapshot

    def snapshot(self) -> ClusterSnapshot:
        sizes = _sizes(self.dirs)
        quorum = self.quorum
        features = self.features
        common = {}
        if features and set(features) >= set(self.live):
            for name in {f.name for d in features.values() for f in d.supported}:
                levels = common_range(features, name)
                if levels is not None:
                    common[name] = levels[1]
        newest = max(features.values(), key=lambda d: d.finalized_epoch, default=None)
        return ClusterSnapshot(
            now_ms=now_ms(),
            brokers={b: self._broker(b, node) for b, node in sorted(self.nodes.items())},
            topics={name: self._topic(topic, sizes) for name, topic in sorted(self.topics.items())},
            controller=self._controller(),
            controller_ahead_ms=self.ahead_ms,
            followers=_followers(quorum) if quorum else (),
            groups={name: self._group(name) for name in sorted(self.groups)},
            groups_whole=self.groups_whole,
            directories=_directories(self.dirs),
            throttled=self.throttled,
            throttles_unowned=self.throttles_unowned,
            finalized={f.name: f.max_version_level for f in newest.finalized} if newest else {},
            common=common,
            transactions=self.transactions,
            certificate_ends=self.certificate_ends,
            acls=self.acls,
            scram_users=self.scram_users,
            recoveries=self.recoveries,
            remote=self.remote,
            unseen=self.unseen,
            lacking=self.lacking,
            start_commands=start_commands(node.address for node in self.admin.cluster.bootstrap),
        )

    def _controller(self) -> int | None:
        if self.quorum is not None:
            return self.quorum.leader_id
        # In a cluster without a quorum, the brokers name the controller.
        no_quorum = c.QUORUM in self.needs and c.QUORUM not in self.unseen
        return self.cluster.controller_id if no_quorum and self.cluster is not None else None

    def _broker(self, broker: int, node: r.Node) -> Broker:
        return Broker(
            node.rack,
            node.fenced,
            self.releases.get(broker),
            self.apis.get(broker),
            self.broker_configs.get(broker, {}),
            broker in self.silent,
        )

    def _topic(self, topic: r.TopicDescription, sizes: Mapping[TopicPartition, int]) -> Topic:
        def offset(name: str, tp: TopicPartition) -> int | None:
            found = self.offsets.get(name, {}).get(tp)
            return found.offset if found else None

        partitions = {}
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition)
            moving = self.running.get(tp)
            newest = self.offsets.get("newest", {}).get(tp)
            partitions[p.partition] = Partition(
                p.leader_id,
                p.replicas,
                p.isr,
                moving.adding_replicas if moving else (),
                moving.removing_replicas if moving else (),
                offset("start", tp),
                offset("end", tp),
                offset("stable", tp),
                newest.timestamp_ms if newest and newest.timestamp_ms >= 0 else None,
                sizes.get(tp),
            )
        configs = self.configs.get(topic.name, {})
        return Topic(partitions, topic.internal, configs, self._by_leader(topic.name))

    def _by_leader(self, topic: str) -> dict[int, dict[str, str]]:
        inherited = self.inherited.get(topic, set())
        return {
            broker: {key: d.value for key, d in defaults.items() if key in inherited}
            for broker, defaults in self.defaults.items()
        }

    def _group(self, name: str) -> Group:
        group, commits = self.groups[name]
        return Group(
            group.state,
            len(group.members),
            {
                tp: Commit(
                    self._unread(tp, o),
                    (name, tp) in self.expiring,
                    self.expiring.get((name, tp)),
                    o.lag if isinstance(o, r.ShareGroupOffset) else None,
                )
                for tp, o in commits.items()
            },
            frozenset(tp.topic for m in group.members for tp in m.assignment),
            group.type == SHARE,
        )


def _late(limit_s: float) -> TimeoutError:
    return TimeoutError(f"no answer within {limit_s:.0f} s")


def _sizes(dirs: Mapping[int, Iterable[r.LogDirDescription]]) -> dict[TopicPartition, int]:
    """The size of the largest replica of each partition, since the others may still be catching
    up."""
    sizes: dict[TopicPartition, int] = {}
    for described in dirs.values():
        for directory in described:
            for replica in directory.replicas:
                tp = replica.partition
                sizes[tp] = max(sizes.get(tp, 0), replica.size_bytes)
    return sizes


def _directories(dirs: Mapping[int, Iterable[r.LogDirDescription]]) -> list[Directory]:
    return [
        Directory(
            broker,
            d.path,
            phrase(KafkaError(d.error_code)) if d.error_code else None,
            d.total_bytes,
            d.usable_bytes,
        )
        for broker, described in sorted(dirs.items())
        for d in described
    ]


def _followers(quorum: r.QuorumDescription) -> list[Follower]:
    def one(state: r.QuorumReplica, voter: bool) -> Follower:
        return Follower(
            state.replica_id,
            state.log_end_offset,
            voter,
            state.last_fetch_timestamp_ms,
            state.last_caught_up_timestamp_ms,
        )

    return [one(v, True) for v in quorum.voters] + [one(o, False) for o in quorum.observers]


async def collect(admin: Admin, needs: frozenset[str]) -> ClusterSnapshot:
    """The snapshot of the cluster. Raises KafkaError and ClientError if not even the topics can be
    listed."""
    return await Collector(admin, needs).collect()
