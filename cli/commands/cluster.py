"""`pk brokers list` and `pk cluster describe`."""

from collections import Counter
from typing import Any

from pk.cli.context import Context
from pk.cli.names import remember
from pk.cli.output import Column, Document, Listing, Section
from pk.net.client.results import TopicDescription

_BROKERS = (
    Column("broker", right=True),
    Column("host"),
    Column("port", right=True),
    Column("rack"),
    Column("controller"),
    Column("leaders", right=True),
    Column("replicas", right=True),
    Column("fenced", wide=True),
)


async def _look(context: Context) -> tuple[Any, list[TopicDescription], list[dict[str, Any]]]:
    admin = await context.admin()
    cluster = await admin.describe_cluster()
    described = await admin.describe_topics()
    topics = [t for t in described.values() if isinstance(t, TopicDescription)]
    leaders = Counter(p.leader_id for t in topics for p in t.partitions)
    replicas = Counter(b for t in topics for p in t.partitions for b in p.replicas)
    rows = [
        {
            "broker": b.node_id,
            "host": b.host,
            "port": b.port,
            "rack": b.rack,
            "controller": b.node_id == cluster.controller_id,
            "leaders": leaders[b.node_id],
            "replicas": replicas[b.node_id],
            "fenced": b.fenced,
        }
        for b in sorted(cluster.brokers, key=lambda b: b.node_id)
    ]
    bootstrap = context.settings.bootstrap
    remember(bootstrap, "broker", (str(b.node_id) for b in cluster.brokers))
    remember(bootstrap, "topic", (t.name for t in topics))
    return cluster, topics, rows


async def list_brokers(context: Context) -> None:
    """`pk brokers list`."""
    _, _, rows = await _look(context)
    context.show(Listing(_BROKERS, rows))


async def describe(context: Context) -> None:
    """`pk cluster describe`."""
    cluster, topics, rows = await _look(context)
    partitions = [p for t in topics for p in t.partitions]
    summary = {
        "cluster_id": cluster.cluster_id,
        "controller_id": None if cluster.controller_id < 0 else cluster.controller_id,
        "brokers": len(rows),
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated": sum(p.under_replicated for p in partitions),
        "offline": sum(p.leader_id < 0 for p in partitions),
    }
    columns = [Column("name"), Column("value")]
    named = [{"name": k.replace("_", " "), "value": v} for k, v in summary.items()]
    brokers = Listing(_BROKERS, rows)
    context.show_document(
        Document(
            [{**summary, "brokers": rows}],
            [Section("", Listing(columns, named)), Section("", brokers)],
            brokers,
        )
    )
