"""`pk log remote`: lists the segments in remote storage, from the store alone."""

from collections.abc import Sequence

from pk.cli.cluster.remote_store import opened_store
from pk.cli.exits import CommandError, Exit
from pk.cli.nouns.log.rows import RemoteSegmentRow
from pk.cli.options.values import Pair
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.core.log.remote.checking import CheckedObject, checked_objects
from pk.core.log.remote.storage import RemoteStorageError

OBJECTS_AT_ONCE = 16


def remote(
    context: Context,
    url: str,
    *,
    topics: Sequence[str],
    verify: bool,
    configs: Sequence[Pair],
) -> int:
    """Run `pk log remote`."""
    storage = opened_store(url, configs)
    try:
        # The objects are left out, since their tails are large.
        checked = checked_objects(storage, topics, records=verify, at_once=OBJECTS_AT_ONCE)
        rows = [_row(one) for one in checked]
    except RemoteStorageError as e:
        raise CommandError(f"{e}.") from e
    context.show(listing(RemoteSegmentRow, rows, lambda row: "red" if row["problem"] else None))
    wrong = sum(bool(row["problem"]) for row in rows)
    partitions = {
        (row["cluster_id"], row["topic"], row["partition"]) for row in rows if row["topic"]
    }
    what = count(wrong, "finding") if wrong else "nothing is wrong"
    context.say(
        f"{count(len(partitions), 'partition')}, {count(len(rows), 'segment')}, "
        f"{sum(row['size'] for row in rows):,} bytes: {what}."
    )
    return Exit.FAILED if wrong else Exit.OK


def _row(one: CheckedObject) -> RemoteSegmentRow:
    segment, tail = one.segment, one.tail
    return {
        "topic": segment.partition.topic if segment is not None else "",
        "partition": segment.partition.partition if segment is not None else None,
        "start_offset": segment.start_offset if segment is not None else None,
        "end_offset": tail.end_offset if tail is not None else None,
        "size": one.stored.size,
        "max_timestamp": tail.max_timestamp if tail is not None else None,
        "epochs": ",".join(str(e.epoch) for e in tail.epochs) if tail is not None else "",
        "cluster_id": segment.cluster_id if segment is not None else "",
        "object": one.stored.name,
        "problem": one.problem,
    }
