"""Finds out since when a replica has been out of sync. Kafka has no API for that; these sources
come closest.

If the broker answers, the log end of its replica is known: the replica has been behind since the
first record that it lacks was produced. If the broker is down, the metadata quorum knows when it
last fetched (DescribeQuorum); the number of records that the replica lacks is estimated from the
offset that the partition's leader had reached at that time.
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
"""At most this many partitions are examined; if more are out of sync, the state of one broker
explains the others."""

Gone = tuple[TopicPartition, int]
"""A partition, and a broker whose replica of it is not in sync."""


class Witness(NamedTuple):
    """What is known about a replica that is out of sync."""

    since_ms: int | None
    """Since when the replica has been out of sync, in epoch milliseconds; None if unknown."""

    missed: int | None
    """The number of records that the replica lacks, estimated from the time; None if its log end is
    known, or no estimate is possible."""


async def last_seen(admin: Admin) -> dict[int, int]:
    """Broker → its last fetch from the metadata quorum, epoch milliseconds; empty if unknown."""
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
    """The known facts about every replica of `partitions` that is not in sync. `ends` maps
    partition → broker → log end."""
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
    """Find when the first record that each replica lacks was produced."""
    times: Mapping[tuple[TopicPartition, int], int | None] = {}
    with trio.move_on_after(_ASK_S), suppress(KafkaError, ClientError):
        places = {(tp, end) for (tp, _), end in lacking.items()}
        times = (await admin.record_times(sorted(places))).ok
    for (tp, broker), end in lacking.items():
        time = times.get((tp, end))
        found[tp, broker] = Witness(time if time is not None and time >= 0 else None, None)


async def _ask_quorum(
    admin: Admin,
    away: list[Gone],
    ends: Mapping[TopicPartition, Mapping[int, int]],
    partitions: Mapping[TopicPartition, r.PartitionDescription],
    found: dict[Gone, Witness],
) -> None:
    """Find when each broker was last seen, and how many records were written since."""
    seen = await last_seen(admin)
    oldest: dict[TopicPartition, int] = {}
    for tp, broker in away:
        if broker in seen and partitions[tp].leader_id >= 0:
            oldest[tp] = min(oldest.get(tp, seen[broker]), seen[broker])
    offsets: Mapping[TopicPartition, r.ListedOffset] = {}
    if oldest:
        with trio.move_on_after(_ASK_S), suppress(KafkaError, ClientError):
            offsets = (await admin.list_offsets(oldest)).ok
    for tp, broker in away:
        leo = ends.get(tp, {}).get(partitions[tp].leader_id)
        then = offsets.get(tp)
        missed = None
        if leo is not None and then is not None and seen.get(broker) == oldest[tp]:
            missed = max(leo - then.offset, 0) if then.offset >= 0 else 0
        found[tp, broker] = Witness(seen.get(broker), missed)
