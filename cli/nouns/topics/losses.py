"""Warns before records are deleted: gives their number and the groups that read them, and says that
they cannot be restored."""

from collections.abc import Iterable
from contextlib import suppress

import trio

from pk.cli.cluster.groups import offsets_of
from pk.cli.phrases import count, join
from pk.cli.positions.resolve import bounds_of
from pk.cli.runtime.context import Context
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_READERS_S = 3.0
"""How long to look for the groups that read the topics."""
_GROUPS_MAX = 500


async def records_in(admin: Admin, partitions: Iterable[TopicPartition]) -> int | None:
    """The number of offsets in partitions; None unless all leaders answer."""
    wanted = list(partitions)
    starts, ends = await bounds_of(admin, wanted)
    if starts.errors or ends.errors:
        return None
    return sum(ends.ok[tp].offset - starts.ok[tp].offset for tp in wanted)


async def readers_of(admin: Admin, topics: Iterable[str]) -> list[str]:
    """The groups with commits or start offsets in any of the topics, as far as brokers answer
    within 3 s."""
    wanted = set(topics)
    found: list[str] = []
    with trio.move_on_after(_READERS_S), suppress(KafkaError, ClientError):
        listed = await admin.list_groups()
        types = {g.group_id: g.type for g in listed.groups[:_GROUPS_MAX]}
        for name, offsets in (await offsets_of(admin, types)).ok.items():
            if any(tp.topic in wanted for tp in offsets):
                found.append(name)
    return sorted(found)


async def say_readers(context: Context, admin: Admin, topics: Iterable[str]) -> None:
    """Say which groups read topics that will lose records; not with --yes, which skips the
    question."""
    if context.change.yes:
        return
    readers = await readers_of(admin, topics)
    if readers:
        one = len(readers) == 1
        context.say(
            f"{'Group' if one else 'Groups'} {join(readers)} {'has' if one else 'have'} commits "
            "there; `pk groups lag` shows how far each has read."
        )


def lost_records(records: int | None) -> str:
    """A number of records: `up to 1,204 records`, since an offset may belong to a transaction
    marker or a compacted record."""
    if records is None:
        return "all its records"
    return f"up to {count(records, 'record')}" if records else "no records"
