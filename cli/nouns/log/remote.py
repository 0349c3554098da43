"""`pk log remote`: the segments in remote storage, from the store alone."""

from collections.abc import Sequence

from pk.cli.exits import CommandError, Exit
from pk.cli.nouns.log.rows import RemoteSegmentRow
from pk.cli.options.values import Pair
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.core.config import BrokerConfig, ConfigError
from pk.core.log.remote.checking import CheckedObject, checked_objects
from pk.core.log.remote.storage import RemoteStorageError
from pk.core.log.remote.stores import open_storage, store_options


def remote(
    context: Context,
    url: str,
    *,
    topics: Sequence[str],
    verify: bool,
    configs: Sequence[Pair],
) -> int:
    """`pk log remote`."""
    given = {pair.key: pair.value for pair in configs}
    if stray := [key for key in given if not key.startswith("pk.remote.")]:
        raise CommandError(f"-X takes only keys pk.remote.*, not {stray[0]}.")
    try:
        config = BrokerConfig({**given, "pk.remote.url": url})
        storage = open_storage(url, store_options(config), create=False)
        found = list(checked_objects(storage, topics, records=verify))
    except (ConfigError, RemoteStorageError) as e:
        raise CommandError(f"{e}.") from e
    context.show(
        listing(
            RemoteSegmentRow,
            [_row(one) for one in found],
            lambda row: "red" if row["problem"] else None,
        )
    )
    wrong = sum(bool(one.problem) for one in found)
    partitions = {one.segment.partition for one in found if one.segment is not None}
    what = count(wrong, "finding") if wrong else "nothing is wrong"
    context.say(
        f"{count(len(partitions), 'partition')}, {count(len(found), 'segment')}, "
        f"{sum(one.stored.size for one in found):,} bytes: {what}."
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
