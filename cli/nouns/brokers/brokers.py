"""`pk brokers list`, `describe` and `logdirs`: who is there, what each holds, how much room it has."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import trio

from pk.cli.cluster.reassignments import describe_nodes, keep_names
from pk.cli.nouns.cluster.features import release_of
from pk.cli.nouns.configs.configs import source_word
from pk.cli.nouns.reassign.files import parse_brokers
from pk.cli.output.formats import Column, Document, Listing, Row, Section, show_bytes
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import CommandError
from pk.cli.runtime.failures import phrase
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ClusterDescription,
    ConfigResource,
    ConfigSource,
    FeatureDescription,
    LogDirDescription,
    Node,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)

_ANSWER_S = 3.0
"""How long each broker has to tell of itself; one that is stopped may hold its connections open."""

BROKERS = (
    Column("broker", right=True),
    Column("host"),
    Column("port", right=True),
    Column("rack"),
    Column("controller"),
    Column("state"),
    Column("leaders", right=True),
    Column("replicas", right=True),
    Column("log_bytes", right=True, show=show_bytes, title="LOG"),
    Column("fenced", wide=True),
    Column("supports", wide=True),
    Column("metadata_offset", wide=True, right=True),
    Column("usable_bytes", right=True, show=show_bytes, wide=True, title="ROOM"),
)

Dirs = Mapping[int, "tuple[LogDirDescription, ...] | Exception"]
Features = Mapping[int, "FeatureDescription | Exception"]


class Look(NamedTuple):
    """The cluster's brokers and what they told of themselves."""

    cluster: ClusterDescription
    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicDescription]
    dirs: Dirs
    features: Features

    @property
    def partitions(self) -> dict[TopicPartition, PartitionDescription]:
        return {
            TopicPartition(t.name, p.partition): p
            for t in self.topics.values()
            for p in t.partitions
        }


async def look_at_brokers(context: Context, admin: Admin) -> Look:
    """Asks the cluster for its topics, and each broker for its directories and features."""
    cluster, nodes = await describe_nodes(admin)
    topics: dict[str, TopicDescription] = {}
    dirs: dict[int, Any] = {}
    features: dict[int, Any] = {}
    late = TimeoutError(f"no answer within {_ANSWER_S:.0f} s")

    async def ask_topics() -> None:
        described = await admin.describe_topics()
        topics.update((n, t) for n, t in described.items() if isinstance(t, TopicDescription))

    async def ask_dirs(broker: int) -> None:
        dirs[broker] = late
        with trio.move_on_after(_ANSWER_S):
            answers = await admin.describe_log_dirs([broker])
            dirs[broker] = answers[broker]

    async def ask_features(broker: int) -> None:
        features[broker] = late
        with trio.move_on_after(_ANSWER_S):
            try:
                features[broker] = await admin.describe_features(broker)
            except (ClientError, KafkaError) as e:
                features[broker] = e

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_topics)
        for broker, node in nodes.items():
            if not node.fenced:
                nursery.start_soon(ask_dirs, broker)
                nursery.start_soon(ask_features, broker)
    look = Look(cluster, nodes, topics, dirs, features)
    keep_names(context, nodes, topics, look.partitions)
    return look


def known_brokers(look: Look) -> list[int]:
    """The brokers that are there, and those that hold replicas but are not."""
    return sorted({*look.nodes, *(b for p in look.partitions.values() for b in p.replicas)})


def broker_rows(look: Look) -> list[dict[str, Any]]:
    """A row for each broker."""
    partitions = look.partitions.values()
    leaders = Counter(p.leader_id for p in partitions)
    replicas = Counter(b for p in partitions for b in p.replicas)
    rows = []
    for broker in known_brokers(look):
        node = look.nodes.get(broker)
        features = look.features.get(broker)
        dirs = look.dirs.get(broker)
        told = not isinstance(dirs, Exception) and dirs is not None
        rows.append(
            {
                "broker": broker,
                "host": node.host if node else None,
                "port": node.port if node else None,
                "rack": node.rack if node else None,
                "controller": broker == look.cluster.controller_id,
                "state": state_of(node, dirs, features),
                "leaders": leaders[broker],
                "replicas": replicas[broker],
                "log_bytes": _bytes_of(dirs) if told else None,
                "fenced": node.fenced if node else None,
                "supports": release_of(features),
                "metadata_offset": _metadata_offset(features),
                "usable_bytes": _usable(dirs) if told else None,
            }
        )
    return rows


def state_of(node: Node | None, dirs: object, features: object) -> str:
    """`up`, `fenced`, `down` (holds replicas, is not there), or `silent` (is there, does not answer)."""
    if node is None:
        return "down"
    if node.fenced:
        return "fenced"
    if isinstance(features, (ClientError, TimeoutError)):
        return "silent"
    failed = isinstance(dirs, tuple) and any(d.error_code for d in dirs)
    return "directory failed" if failed else "up"


def broker_style(row: Row) -> str | None:
    """Red for a broker that is not up."""
    return None if row.get("state") == "up" else "red"


def _bytes_of(dirs: Any) -> int:
    return sum(replica.size_bytes for d in dirs for replica in d.replicas)


def _usable(dirs: Any) -> int | None:
    known = [d.usable_bytes for d in dirs if d.usable_bytes >= 0]
    return sum(known) if known else None


def _metadata_offset(features: object) -> int | None:
    """How far a broker has followed the metadata log: KRaft brokers answer it as the epoch of their features."""
    if isinstance(features, FeatureDescription) and features.finalized_epoch >= 0:
        return features.finalized_epoch
    return None


async def list_brokers(context: Context) -> None:
    """`pk brokers list`."""
    admin = await context.admin()
    look = await look_at_brokers(context, admin)
    context.show(Listing(BROKERS, broker_rows(look), broker_style))


def chosen_brokers(look: Look, words: Iterable[str]) -> list[int]:
    """The brokers named, else all. Raises CommandError for one that does not exist."""
    known = known_brokers(look)
    wanted = parse_brokers(words, "ID")
    for broker in wanted:
        if broker not in known:
            names = ", ".join(map(str, known))
            raise CommandError(f"There is no broker {broker}; there are {names}.")
    return list(wanted) or known


_PAIRS = (Column("name"), Column("value"))
_FEATURES = (
    Column("feature"),
    Column("finalized", right=True),
    Column("min_supported", right=True, title="MIN"),
    Column("max_supported", right=True, title="MAX"),
)
_CONFIGS = (Column("config"), Column("value"), Column("source", show=source_word))


async def describe(context: Context) -> None:
    """`pk brokers describe`."""
    admin = await context.admin()
    look = await look_at_brokers(context, admin)
    wanted = chosen_brokers(look, context.args.id)
    configs = await _own_configs(context, admin, [b for b in wanted if _answers(look, b)])
    rows = {row["broker"]: row for row in broker_rows(look)}
    data = []
    sections: list[Section] = []
    for broker in wanted:
        row = rows[broker]
        features = _feature_rows(look.features.get(broker))
        dirs = _dir_rows(broker, look.dirs.get(broker))
        sets = configs.get(broker, [])
        data.append({**row, "features": features, "log_dirs": dirs, "configs": sets})
        named = [
            {"name": k.replace("_", " "), "value": show_bytes(v) if k.endswith("_bytes") else v}
            for k, v in row.items()
            if k != "broker"
        ]
        sections.append(Section(f"Broker {broker}:", Listing(_PAIRS, named)))
        if dirs:
            sections.append(Section("", Listing(_DIRS[1:], dirs)))
        if features:
            sections.append(Section("", Listing(_FEATURES, features)))
        if sets:
            sections.append(Section("", Listing(_CONFIGS, sets)))
        for error in (look.dirs.get(broker), look.features.get(broker)):
            if isinstance(error, Exception):
                context.failed(error, f"broker {broker}")
                break
    context.show_document(
        Document(data, sections, Listing(BROKERS, [rows[b] for b in wanted], broker_style))
    )


def _answers(look: Look, broker: int) -> bool:
    return isinstance(look.features.get(broker), FeatureDescription)


async def _own_configs(
    context: Context, admin: Admin, brokers: Iterable[int]
) -> dict[int, list[dict[str, Any]]]:
    """What was set on each broker itself, by its file or while it runs."""
    resources = [ConfigResource(ResourceType.BROKER, str(b)) for b in brokers]
    if not resources:
        return {}
    found: dict[int, list[dict[str, Any]]] = {}
    answers = await admin.describe_configs(resources, include_synonyms=False)
    for resource, answer in answers.items():
        if isinstance(answer, Exception):
            context.failed(answer, f"configs of broker {resource.name}")
            continue
        found[int(resource.name)] = [
            {"config": e.name, "value": e.value, "source": e.source.name.lower()}
            for e in answer
            if e.source
            in (
                ConfigSource.DYNAMIC_BROKER,
                ConfigSource.DYNAMIC_DEFAULT_BROKER,
                ConfigSource.STATIC_BROKER,
            )
        ]
    return found


def _feature_rows(features: object) -> list[dict[str, Any]]:
    if not isinstance(features, FeatureDescription):
        return []
    levels = {f.name: f.max_version_level for f in features.finalized}
    return [
        {
            "feature": f.name,
            "finalized": levels.get(f.name, 0),
            "min_supported": f.min_version,
            "max_supported": f.max_version,
        }
        for f in features.supported
    ]


_DIRS = (
    Column("broker", right=True),
    Column("path"),
    Column("state"),
    Column("replicas", right=True),
    Column("bytes", right=True, show=show_bytes),
    Column("total_bytes", right=True, show=show_bytes, title="DISK"),
    Column("usable_bytes", right=True, show=show_bytes, title="ROOM"),
    Column("used_percent", right=True, title="USED", show=lambda p: "-" if p is None else f"{p} %"),
    Column("arriving", right=True, wide=True),
)
_REPLICAS = (
    Column("broker", right=True),
    Column("path", wide=True),
    Column("topic"),
    Column("partition", right=True, title="PART"),
    Column("bytes", right=True, show=show_bytes),
    Column("offset_lag", right=True, title="LAG"),
    Column("arriving"),
)


def _dir_rows(broker: int, dirs: object) -> list[dict[str, Any]]:
    if not isinstance(dirs, tuple):
        return []
    rows = []
    for d in dirs:
        known = d.total_bytes >= 0
        rows.append(
            {
                "broker": broker,
                "path": d.path,
                "state": _dir_state(d),
                "replicas": sum(not replica.future for replica in d.replicas),
                "bytes": sum(replica.size_bytes for replica in d.replicas),
                "total_bytes": d.total_bytes if known else None,
                "usable_bytes": d.usable_bytes if known else None,
                "used_percent": round(100 * (1 - d.usable_bytes / d.total_bytes))
                if known and d.total_bytes
                else None,
                "arriving": sum(replica.future for replica in d.replicas),
            }
        )
    return rows


def _dir_state(d: LogDirDescription) -> str:
    if d.error_code:
        return phrase(KafkaError(d.error_code))
    return "cordoned" if d.cordoned else "ok"


def _replica_rows(broker: int, dirs: object, topics: set[str]) -> list[dict[str, Any]]:
    if not isinstance(dirs, tuple):
        return []
    return [
        {
            "broker": broker,
            "path": d.path,
            "topic": replica.partition.topic,
            "partition": replica.partition.partition,
            "bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag,
            "arriving": replica.future,
        }
        for d in dirs
        for replica in d.replicas
        if not topics or replica.partition.topic in topics
    ]


async def logdirs(context: Context) -> None:
    """`pk brokers logdirs`."""
    args = context.args
    admin = await context.admin()
    look = await look_at_brokers(context, admin)
    rows: list[dict[str, Any]] = []
    one_by_one = args.replicas or args.topics
    for topic in args.topics:
        if topic not in look.topics:
            from pk.cli.cluster.topics import unknown_topic

            raise CommandError((await unknown_topic(context, admin, topic)).said)
    for broker in chosen_brokers(look, args.id):
        dirs = look.dirs.get(broker)
        if isinstance(dirs, Exception):
            context.failed(dirs, f"broker {broker}")
        elif dirs is None:
            context.failed(CommandError("it is not up."), f"broker {broker}")
        elif one_by_one:
            rows += _replica_rows(broker, dirs, set(args.topics))
        else:
            rows += _dir_rows(broker, dirs)
    context.show(Listing(_REPLICAS if one_by_one else _DIRS, rows))
