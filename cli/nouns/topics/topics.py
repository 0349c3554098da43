"""`pk topics list` and `describe`."""

from collections.abc import Iterable, Mapping
from typing import Any

from pk.cli.cluster.topics import describe_topics, leader_of, partition_style, say_no_match, whole
from pk.cli.command_line.completion.name_cache import remember
from pk.cli.nouns.topics.rows import TopicRow
from pk.cli.output.formats import Column, Document, Listing, Row, Section
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context, count
from pk.cli.runtime.exits import Unusable
from pk.core.values import ZERO_UUID, uuid_text
from pk.net.client.admin import Admin
from pk.net.client.results import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
    TopicDescription,
)


def id_text(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_text(topic_id)


async def list_topics(context: Context) -> None:
    """`pk topics list`."""
    args = context.args
    if args.internal and args.exclude_internal:
        raise Unusable("-i and --exclude-internal contradict each other.")
    pattern = whole(args.pattern, "PATTERN") if args.pattern is not None else None
    admin = await context.admin()
    listed = await admin.list_topics()
    remember(context.settings.bootstrap, "topic", (t.name for t in listed))
    rows: list[TopicRow] = [
        {
            "topic": t.name,
            "partitions": t.partition_count,
            "replication_factor": t.replication_factor,
            "internal": t.internal,
            "topic_id": id_text(t.topic_id),
        }
        for t in sorted(listed, key=lambda t: t.name)
        if (pattern is None or pattern.fullmatch(t.name))
        and (not t.internal or args.internal or (pattern is not None and not args.exclude_internal))
    ]
    context.show(listing(TopicRow, rows))
    say_no_match(context, "topic", pattern, (t.name for t in listed))


_PARTITIONS = (
    Column("topic"),
    Column("partition", right=True),
    Column("leader", right=True),
    Column("replicas"),
    Column("isr", title="ISR"),
    Column("under_replicated", wide=True),
    Column("leader_epoch", wide=True, right=True),
    Column("elr", wide=True, title="ELR"),
    Column("last_known_elr", wide=True, title="LAST KNOWN ELR"),
    Column("offline_replicas", wide=True),
)
_CONFIGS = (Column("topic"), Column("name"), Column("value"), Column("source"))


def partition_rows(topic: TopicDescription) -> list[dict[str, Any]]:
    """A row for each partition."""
    return [
        {
            "topic": topic.name,
            "partition": p.partition,
            "leader": leader_of(p),
            "replicas": list(p.replicas),
            "isr": list(p.isr),
            "under_replicated": p.under_replicated,
            "leader_epoch": p.leader_epoch,
            "elr": None if p.elr is None else list(p.elr),
            "last_known_elr": None if p.last_known_elr is None else list(p.last_known_elr),
            "offline_replicas": list(p.offline_replicas),
        }
        for p in topic.partitions
    ]


async def topic_configs(
    context: Context, admin: Admin, topics: Iterable[str]
) -> dict[str, tuple[ConfigEntry, ...]]:
    """The configs of each topic; those that cannot be read are told and noted."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    if not resources:
        return {}
    found = {}
    for resource, answer in (await admin.describe_configs(resources)).items():
        if isinstance(answer, Exception):
            context.failed(answer, f"configs of {resource.name}")
        else:
            found[resource.name] = answer
    return found


def _unhealthy(row: Mapping[str, Any], args: Any, min_isr: Mapping[str, int]) -> bool:
    needed = min_isr.get(row["topic"], 1)
    return (
        (args.under_replicated and row["under_replicated"])
        or (args.offline and row["leader"] is None)
        or (args.under_min_isr and len(row["isr"]) < needed)
        or (args.at_min_isr and len(row["isr"]) == needed)
    )


def _min_isr(configs: Mapping[str, Iterable[ConfigEntry]]) -> dict[str, int]:
    return {
        topic: int(entry.value)
        for topic, entries in configs.items()
        for entry in entries
        if entry.name == "min.insync.replicas" and entry.value
    }


async def describe_topics_command(context: Context) -> None:
    """`pk topics describe`."""
    args = context.args
    admin = await context.admin()
    topics = await describe_topics(context, admin, args.topic or None)
    if not args.topic and not args.internal:
        topics = [t for t in topics if not t.internal]
    configs = await topic_configs(context, admin, (t.name for t in topics))
    partitions = {t.name: partition_rows(t) for t in topics}
    filtered = args.under_replicated or args.offline or args.under_min_isr or args.at_min_isr
    if filtered:
        min_isr = _min_isr(configs)
        partitions = {
            name: [row for row in rows if _unhealthy(row, args, min_isr)]
            for name, rows in partitions.items()
        }
        topics = [t for t in topics if partitions[t.name]]
    shown = {
        t.name: [
            e for e in configs.get(t.name, ()) if args.all_configs or e.source == ConfigSource.TOPIC
        ]
        for t in topics
    }
    all_rows: list[Row] = [row for t in topics for row in partitions[t.name]]
    listing = Listing(_PARTITIONS, all_rows, partition_style)
    if filtered:
        context.show(listing)
        return
    context.show_document(
        Document(
            [_data(t, partitions[t.name], shown[t.name]) for t in topics],
            [s for t in topics for s in _sections(t, partitions[t.name], shown[t.name])],
            listing,
        )
    )


def _data(
    topic: TopicDescription, partitions: list[dict[str, Any]], configs: list[ConfigEntry]
) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": id_text(topic.topic_id),
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": max((len(p.replicas) for p in topic.partitions), default=0),
        "partitions": [{k: v for k, v in row.items() if k != "topic"} for row in partitions],
        "configs": [
            {"name": e.name, "value": e.value, "source": e.source.name.lower()} for e in configs
        ],
    }


def _sections(
    topic: TopicDescription, partitions: list[dict[str, Any]], configs: list[ConfigEntry]
) -> list[Section]:
    data = _data(topic, partitions, configs)
    title = (
        f"{topic.name}: {count(data['partition_count'], 'partition')}, "
        f"{count(data['replication_factor'], 'replica')}"
        + (f", id {data['topic_id']}" if data["topic_id"] else "")
    )
    sections = [Section(title, Listing(_PARTITIONS[1:], partitions, partition_style))]
    if configs:
        sections.append(Section("", Listing(_CONFIGS[1:], data["configs"])))
    return sections
