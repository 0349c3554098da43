"""`pk brokers list`, `describe` and `logdirs`: which brokers are up, which replicas each has, and
how much space is left."""

from collections.abc import Iterable, Mapping, Sequence

from pk.cli.cluster.broker_rows import BrokerRow
from pk.cli.cluster.brokers import (
    BrokerSnapshot,
    ask_brokers,
    broker_rows,
    broker_style,
    known_brokers,
    parse_brokers,
)
from pk.cli.exits import CommandError
from pk.cli.nouns.brokers.rows import (
    ConfigOfBroker,
    DescribedBroker,
    FeatureOfBroker,
    LogDirRow,
    ReplicaRow,
)
from pk.cli.output.amounts import show_bytes
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import field_listing, listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import phrase
from pk.cli.runtime.results import succeeded
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ConfigResource,
    ConfigSource,
    FeatureDescription,
    LogDirDescription,
    RemoteState,
    ResourceType,
)


async def list_brokers(context: Context) -> None:
    """Run `pk brokers list`."""
    admin = await context.admin()
    snapshot = await ask_brokers(context, admin)
    context.show(listing(BrokerRow, broker_rows(snapshot), broker_style))


def chosen_brokers(snapshot: BrokerSnapshot, words: Iterable[str]) -> list[int]:
    """The named brokers, or all. Raises CommandError for a broker that does not exist."""
    known = known_brokers(snapshot)
    wanted = parse_brokers(words, "ID")
    for broker in wanted:
        if broker not in known:
            names = ", ".join(map(str, known))
            raise CommandError(f"Broker {broker} does not exist; the brokers are {names}.")
    return list(wanted) or known


async def describe(context: Context, ids: Sequence[str]) -> None:
    """Run `pk brokers describe`."""
    admin = await context.admin()
    snapshot = await ask_brokers(context, admin)
    wanted = chosen_brokers(snapshot, ids)
    configs = await _own_configs(context, admin, [b for b in wanted if b in snapshot.features.ok])
    rows = {row["broker"]: row for row in broker_rows(snapshot)}
    data: list[DescribedBroker] = []
    sections: list[Section] = []
    for broker in wanted:
        row = rows[broker]
        features = _feature_rows(snapshot.features.ok.get(broker))
        dirs = _dir_rows(broker, snapshot.dirs.ok.get(broker, ()))
        sets = configs.get(broker, [])
        data.append({**row, "features": features, "log_dirs": dirs, "configs": sets})
        about = {
            name: show_bytes(value)
            if name.endswith("_bytes") and isinstance(value, int | None)
            else value
            for name, value in row.items()
            if name != "broker"
        }
        sections.append(Section(f"Broker {broker}:", field_listing(about)))
        if dirs:
            sections.append(Section("", listing(LogDirRow, dirs, without=["broker"])))
        if features:
            sections.append(Section("", listing(FeatureOfBroker, features)))
        if sets:
            sections.append(Section("", listing(ConfigOfBroker, sets)))
        error = snapshot.dirs.errors.get(broker) or snapshot.features.errors.get(broker)
        if error is not None:
            context.failed(error, f"broker {broker}")
    context.show_document(
        Document(data, sections, listing(BrokerRow, [rows[b] for b in wanted], broker_style))
    )


async def _own_configs(
    context: Context, admin: Admin, brokers: Iterable[int]
) -> dict[int, list[ConfigOfBroker]]:
    """The configs set on each broker itself, in its file or at run time."""
    resources = [ConfigResource(ResourceType.BROKER, str(b)) for b in brokers]
    if not resources:
        return {}
    found: dict[int, list[ConfigOfBroker]] = {}
    answers = await admin.describe_configs(resources, include_synonyms=False)
    described = succeeded(context, answers, lambda resource: f"configs of broker {resource.name}")
    for resource, answer in described.items():
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


def _feature_rows(features: FeatureDescription | None) -> list[FeatureOfBroker]:
    if features is None:
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


def _dir_rows(broker: int, dirs: Iterable[LogDirDescription]) -> list[LogDirRow]:
    rows: list[LogDirRow] = []
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


def _replica_rows(
    broker: int,
    dirs: tuple[LogDirDescription, ...],
    topics: set[str],
    remote: Mapping[TopicPartition, RemoteState],
) -> list[ReplicaRow]:
    return [
        {
            "broker": broker,
            "path": d.path,
            "topic": replica.partition.topic,
            "partition": replica.partition.partition,
            "bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag,
            "remote_bytes": remote[replica.partition].bytes
            if replica.partition in remote and not replica.future
            else None,
            "arriving": replica.future,
        }
        for d in dirs
        for replica in d.replicas
        if not topics or replica.partition.topic in topics
    ]


async def _remote(admin: Admin, broker: int) -> Mapping[TopicPartition, RemoteState]:
    """The state in remote storage of the partitions that a broker leads; empty if the broker does
    not report it."""
    try:
        return await admin.remote_storage([broker])
    except (KafkaError, ClientError):
        return {}


async def logdirs(
    context: Context, ids: Sequence[str], topics: Sequence[str], *, replicas: bool
) -> None:
    """Run `pk brokers logdirs`."""
    admin = await context.admin()
    snapshot = await ask_brokers(context, admin)
    replica_rows: list[ReplicaRow] = []
    dir_rows: list[LogDirRow] = []
    one_by_one = replicas or topics
    for topic in topics:
        if topic not in snapshot.topics:
            from pk.cli.cluster.topics import unknown_topic

            raise CommandError((await unknown_topic(context, admin, topic)).said)
    for broker in chosen_brokers(snapshot, ids):
        dirs = snapshot.dirs.ok.get(broker)
        if (error := snapshot.dirs.errors.get(broker)) is not None:
            context.failed(error, f"broker {broker}")
        elif dirs is None:
            context.failed(CommandError("it is not up."), f"broker {broker}")
        elif one_by_one:
            remote = await _remote(admin, broker)
            replica_rows += _replica_rows(broker, dirs, set(topics), remote)
        else:
            dir_rows += _dir_rows(broker, dirs)
    context.show(listing(ReplicaRow, replica_rows) if one_by_one else listing(LogDirRow, dir_rows))
