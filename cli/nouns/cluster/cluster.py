"""`pk cluster describe` and `quorum`."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import trio

from pk.cli.cluster.broker_rows import BrokerOfCluster
from pk.cli.cluster.brokers import BrokerSnapshot, ask_brokers, broker_rows, broker_style
from pk.cli.nouns.cluster.rows import NodeRow
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import field_listing, listing, part_of
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    MetadataSnapshot,
    QuorumDescription,
    QuorumReplica,
)

_SNAPSHOT_S = 3.0


async def describe(context: Context) -> None:
    """Run `pk cluster describe`."""
    admin = await context.admin()
    snapshot = await ask_brokers(context, admin)
    rows = [part_of(BrokerOfCluster, row) for row in broker_rows(snapshot)]
    brokers = listing(BrokerOfCluster, rows, broker_style)
    summary = summary_of(snapshot)
    context.show_document(
        Document(
            [{**summary, "brokers": rows}],
            [Section("", field_listing(summary)), Section("", brokers)],
            brokers,
        )
    )


def summary_of(snapshot: BrokerSnapshot) -> dict[str, Any]:
    """The cluster in a few numbers."""
    partitions = snapshot.partitions.values()
    cluster = snapshot.cluster
    return {
        "cluster_id": cluster.cluster_id,
        "controller_id": None if cluster.controller_id < 0 else cluster.controller_id,
        "brokers": sum(not node.fenced for node in snapshot.nodes.values()),
        "topics": len(snapshot.topics),
        "partitions": len(partitions),
        "under_replicated": sum(p.under_replicated for p in partitions),
        "offline": sum(p.leader_id < 0 for p in partitions),
    }


async def quorum(context: Context) -> None:
    """Run `pk cluster quorum`."""
    admin = await context.admin()
    try:
        found = await admin.describe_quorum()
    except KafkaError as e:
        if e.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        raise KafkaError(
            e.code, "it does not describe its metadata log, as is usual with ZooKeeper"
        ) from None
    brokers = await ask_brokers(context, admin)
    applied = {
        b: f.finalized_epoch for b, f in brokers.features.ok.items() if f.finalized_epoch >= 0
    }
    now = now_ms()
    rows = quorum_rows(found, applied, now)
    snapshot = await _snapshot(admin, found)
    nodes = listing(NodeRow, rows)
    behind = [row["lag"] for row in rows if row["lag"] is not None]
    age = max(now - snapshot.made_ms, 0) if snapshot else None
    summary = {
        "cluster_id": brokers.cluster.cluster_id,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "lag_max": max(behind, default=None),
        "snapshot_offset": snapshot.end_offset if snapshot else None,
        "snapshot_age_ms": age,
    }
    shown = {k: v for k, v in summary.items() if k != "snapshot_age_ms"}
    shown["snapshot_age"] = "-" if age is None else show_span(age)
    context.show_document(
        Document(
            [{**summary, "nodes": rows}],
            [Section("", field_listing(shown)), Section("", nodes)],
            nodes,
        )
    )


async def _snapshot(admin: Admin, quorum: QuorumDescription) -> MetadataSnapshot | None:
    """The controller's newest snapshot; None if the controller cannot be reached at a broker's
    listener, or reports none."""
    with trio.move_on_after(_SNAPSHOT_S), suppress(ClientError, KafkaError):
        return await admin.describe_metadata_snapshot(quorum)
    return None


def quorum_rows(quorum: QuorumDescription, applied: Mapping[int, int], now: int) -> list[NodeRow]:
    """A row for each voter and observer. `applied` maps a broker to the metadata offset that it has
    applied."""
    end = max(
        (s.log_end_offset for s in (*quorum.voters, *quorum.observers)),
        default=quorum.high_watermark,
    )
    leader_end = next(
        (s.log_end_offset for s in quorum.voters if s.replica_id == quorum.leader_id), end
    )
    rows: list[NodeRow] = []
    for voters, states in ((True, quorum.voters), (False, quorum.observers)):
        for state in sorted(states, key=lambda s: s.replica_id):
            leads = voters and state.replica_id == quorum.leader_id
            rows.append(_quorum_row(quorum, state, voters, leads, leader_end, applied, now))
    return rows


def _quorum_row(
    quorum: QuorumDescription,
    state: QuorumReplica,
    voter: bool,
    leads: bool,
    end: int,
    applied: Mapping[int, int],
    now: int,
) -> NodeRow:
    from pk.core.values import ZERO_UUID, uuid_text

    known = state.log_end_offset >= 0
    return {
        "node": state.replica_id,
        "role": "leader" if leads else "voter" if voter else "observer",
        "log_end_offset": state.log_end_offset if known else None,
        "lag": end - state.log_end_offset if known else None,  # below 0: the leader has lost events
        "caught_up_ms": _since(state.last_caught_up_timestamp_ms, now, leads),
        "fetched_ms": _since(state.last_fetch_timestamp_ms, now, leads),
        "applied_offset": applied.get(state.replica_id),
        "endpoints": list(quorum.nodes.get(state.replica_id, ())),
        "directory_id": None if state.directory_id == ZERO_UUID else uuid_text(state.directory_id),
    }


def _since(stamp: int, now: int, leads: bool) -> int | None:
    if leads:
        return 0
    return max(now - stamp, 0) if stamp > 0 else None
