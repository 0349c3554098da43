"""Since when a replica is out of sync. No API of Kafka tells; these are the next best witnesses.

A broker that answers tells where its replica ends, and the first record that it lacks tells when it was produced: from then
on the replica is behind. Of a broker that is away the metadata quorum knows when it last fetched (DescribeQuorum), and what
it has missed since is reckoned from the offset that its partitions' leaders had reached at that time.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import trio

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_ASK_S = 3.0
_PARTITIONS = 1000
"""Of so many partitions it is asked; where more are out of sync, one broker's fate tells of the others."""

Gone = tuple[TopicPartition, int]
"""A partition, and a broker whose replica of it is not in sync."""


class Witness(NamedTuple):
    """What is known of a replica that is out of sync."""

    since_ms: int | None
    """Epoch milliseconds."""

    missed: int | None
    """Records, reckoned from the time; None where its end is known, or nothing is."""


async def last_seen(admin: Admin) -> dict[int, int]:
    """Broker → when the metadata quorum last heard from it, epoch milliseconds; empty where nobody tells."""
    with trio.move_on_after(_ASK_S), suppress(KafkaError, ClientError):
        quorum = await admin.describe_quorum()
        return {
            node.replica_id: node.last_fetch_timestamp_ms
            for node in (*quorum.voters, *quorum.observers)
            if node.last_fetch_timestamp_ms > 0
        }
    return {}


async def witnesses(
    admin: Admin,
    partitions: Mapping[TopicPartition, r.PartitionDescription],
    ends: Mapping[TopicPartition, Mapping[int, int]],
) -> dict[Gone, Witness]:
    """What is known of every replica of `partitions` that is not in sync. `ends`: partition → broker → its log end."""
    lacking: dict[Gone, int] = {}
    away: list[Gone] = []
    for tp, p in list(partitions.items())[:_PARTITIONS]:
        here = ends.get(tp, {})
        for broker in p.replicas:
            if broker in p.isr:
                continue
            if broker in here:
                lacking[tp, broker] = here[broker]
            else:
                away.append((tp, broker))
    found: dict[Gone, Witness] = {}
    async with trio.open_nursery() as nursery:
        if lacking:
            nursery.start_soon(_ask_records, admin, lacking, found)
        if away:
            nursery.start_soon(_ask_quorum, admin, away, ends, partitions, found)
    return found


async def _ask_records(
    admin: Admin, lacking: Mapping[Gone, int], found: dict[Gone, Witness]
) -> None:
    """When the first record was produced that a replica lacks."""
    times: Mapping[tuple[TopicPartition, int], object] = {}
    with trio.move_on_after(_ASK_S), suppress(KafkaError, ClientError):
        places = {(tp, end) for (tp, _), end in lacking.items()}
        times = await admin.record_times(sorted(places))
    for (tp, broker), end in lacking.items():
        time = times.get((tp, end))
        found[tp, broker] = Witness(time if isinstance(time, int) and time >= 0 else None, None)


async def _ask_quorum(
    admin: Admin,
    away: list[Gone],
    ends: Mapping[TopicPartition, Mapping[int, int]],
    partitions: Mapping[TopicPartition, r.PartitionDescription],
    found: dict[Gone, Witness],
) -> None:
    """When a broker was last heard from, and what was written since."""
    seen = await last_seen(admin)
    oldest: dict[TopicPartition, int] = {}
    for tp, broker in away:
        if broker in seen and partitions[tp].leader_id >= 0:
            oldest[tp] = min(oldest.get(tp, seen[broker]), seen[broker])
    offsets: Mapping[TopicPartition, object] = {}
    if oldest:
        with trio.move_on_after(_ASK_S), suppress(KafkaError, ClientError):
            offsets = await admin.list_offsets(oldest)
    for tp, broker in away:
        leo = ends.get(tp, {}).get(partitions[tp].leader_id)
        then = offsets.get(tp)
        missed = None
        if leo is not None and isinstance(then, r.ListedOffset) and seen.get(broker) == oldest[tp]:
            missed = max(leo - then.offset, 0) if then.offset >= 0 else 0
        found[tp, broker] = Witness(seen.get(broker), missed)
