"""`pk topics describe`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pk.cli.cluster.min_isr import min_isrs_in
from pk.cli.cluster.partition_rows import partition_fields
from pk.cli.cluster.partition_selection import filters, matches
from pk.cli.cluster.topics import describe_topics, id_text, partition_style
from pk.cli.cluster.unclean_recovery import lines, recoveries
from pk.cli.nouns.topics.rows import (
    ConfigOfTopic,
    DescribedTopic,
    PartitionOfTopic,
    PartitionRow,
    TiersOfPartition,
)
from pk.cli.nouns.topics.tiers import is_tiered, tiers_of
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.runtime.results import succeeded
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.results import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)

if TYPE_CHECKING:
    from pk.cli.nouns.topics.options import DescribeTopics


def _partition(p: PartitionDescription) -> PartitionOfTopic:
    return {
        "partition": p.partition,
        **partition_fields(p),
        "under_replicated": p.under_replicated,
    }


async def topic_configs(
    context: Context, admin: Admin, topics: Iterable[str]
) -> dict[str, tuple[ConfigEntry, ...]]:
    """The configs of each topic. Reports those that cannot be read, and records the failure."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    if not resources:
        return {}
    answers = await admin.describe_configs(resources)
    described = succeeded(context, answers, lambda resource: f"configs of {resource.name}")
    return {resource.name: entries for resource, entries in described.items()}


async def describe(context: Context, options: "DescribeTopics") -> None:
    """Run `pk topics describe`."""
    admin = await context.admin()
    topics = await describe_topics(context, admin, options.topic or None)
    filtered = filters(options)
    if not options.topic and not options.internal and not filtered:
        topics = [t for t in topics if not t.internal]
    configs = await topic_configs(context, admin, (t.name for t in topics))
    min_isr = min_isrs_in(configs)
    partitions = {
        t.name: [
            _partition(p)
            for p in t.partitions
            if not filtered or matches(p, options, min_isr.get(t.name, 1))
        ]
        for t in topics
    }
    rows: list[PartitionRow] = [
        {"topic": t.name, **row} for t in topics for row in partitions[t.name]
    ]
    leaderless = [
        TopicPartition(row["topic"], row["partition"]) for row in rows if row["leader"] is None
    ]
    if leaderless:
        for line in lines(await recoveries(admin, leaderless)):
            context.say(line)
    flat = listing(PartitionRow, rows, partition_style)
    if filtered:
        context.show(flat)
        return
    tiered = [t for t in topics if is_tiered(configs.get(t.name, ()))]
    tiers = await tiers_of(context, admin, tiered)
    described = [
        _described(
            t,
            partitions[t.name],
            [
                e
                for e in configs.get(t.name, ())
                if options.all_configs or e.source == ConfigSource.TOPIC
            ],
            tiers.get(t.name),
        )
        for t in topics
    ]
    sections = [section for topic in described for section in _sections(topic)]
    context.show_document(Document(described, sections, flat))


def _described(
    topic: TopicDescription,
    partitions: list[PartitionOfTopic],
    configs: Iterable[ConfigEntry],
    tiers: list[TiersOfPartition] | None,
) -> DescribedTopic:
    described: DescribedTopic = {
        "topic": topic.name,
        "topic_id": id_text(topic.topic_id),
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": max((len(p.replicas) for p in topic.partitions), default=0),
        "partitions": partitions,
        "configs": [
            {"name": e.name, "value": e.value, "source": e.source.name.lower()} for e in configs
        ],
    }
    if tiers is not None:
        described["tiers"] = tiers
    return described


def _sections(topic: DescribedTopic) -> list[Section]:
    title = (
        f"{topic['topic']}: {count(topic['partition_count'], 'partition')}, "
        f"{count(topic['replication_factor'], 'replica')}"
        + (f", id {topic['topic_id']}" if topic["topic_id"] else "")
    )
    found = [Section(title, listing(PartitionOfTopic, topic["partitions"], partition_style))]
    if tiers := topic.get("tiers"):
        found.append(Section("", listing(TiersOfPartition, tiers)))
    if topic["configs"]:
        found.append(Section("", listing(ConfigOfTopic, topic["configs"])))
    return found
