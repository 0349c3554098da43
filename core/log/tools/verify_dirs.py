"""Verifies a whole data directory: its partitions, and its small files against them.

The small files are read before the partitions, so that concurrent appends of a broker can only move
log ends above the offsets in them.
"""

from collections.abc import Callable
from typing import Final

from pk.core import cbor
from pk.core.errors import KafkaError
from pk.core.log import checkpoints
from pk.core.log.checkpoints import PARTITION_METADATA, MetaProperties
from pk.core.log.files import Disk
from pk.core.log.tools.inspect import (
    Again,
    Finding,
    Kind,
    Partition,
    kind_of,
    partition_of,
    survey,
)
from pk.core.log.tools.verify import PartitionCheck, Report
from pk.core.meta import events, snapshot
from pk.core.values import METADATA_TOPIC, TopicPartition, Uuid, uuid_text

Progress = Callable[[int], None]
OnReport = Callable[[str, Report], None]

_METADATA_END: Final = f"/pk-metadata/{METADATA_TOPIC}-0"


def log_bytes(disk: Disk, path: str) -> int:
    """Return how many bytes of logs `verify` will read for this path. Raises OSError."""
    return sum(
        segment.files[".log"].size
        for directory in survey(disk, path).partitions
        for segment in Partition(disk, directory).segments
    )


def verify(
    disk: Disk,
    path: str,
    on_report: OnReport,
    *,
    again: Again | None = None,
    progress: Progress = lambda _: None,
    logs: bool = True,
) -> None:
    """Verify a partition's directory or a data directory; `on_report` is called with the path and
    the report of each partition, and with those of the directory's own files. For `again`,
    `progress` and `logs` see `PartitionCheck`. Raises OSError."""
    found = survey(disk, path)
    own = Report()
    offsets: list[tuple[str, dict[TopicPartition, int]]] = []
    for file in found.files:
        try:
            content = disk.read(file)
        except FileNotFoundError:
            continue
        try:
            said = _check_small(file, content)
        except (ValueError, KafkaError) as e:
            own.add([Finding(file, 0, -1, str(e))])
        else:
            if said is not None:
                offsets.append((file, said))
    ids: dict[str, tuple[Uuid, str]] = {}
    for directory in found.partitions:
        report = PartitionCheck(disk, directory, again=again, progress=progress, logs=logs).run()
        _check_topic_id(disk, directory, ids, report)
        if directory.endswith(_METADATA_END):
            _check_events(disk, directory, report)
        _check_offsets(directory, offsets, report)
        on_report(directory, report)
    if found.files:
        on_report(path, own)


def _check_small(path: str, content: bytes) -> dict[TopicPartition, int] | None:
    """Check a small file. Returns the offsets if it is a checkpoint. Raises ValueError if it is
    invalid."""
    match kind_of(path.rpartition("/")[2]):
        case Kind.OFFSETS:
            return checkpoints.parse_offsets(content)
        case Kind.META_PROPERTIES:
            MetaProperties.parse(content)
        case Kind.IMAGE:
            snapshot.load(content)
        case Kind.CONTROLLER:
            cbor.loads("pk.metadata.controller", content, 1)
        case _:
            pass
    return None


def _check_topic_id(
    disk: Disk, directory: str, ids: dict[str, tuple[Uuid, str]], report: Report
) -> None:
    """Check that all partitions of a topic have the same topic id."""
    path = f"{directory}/{PARTITION_METADATA}"
    tp = partition_of(directory)
    try:
        topic_id = checkpoints.parse_partition_metadata(disk.read(path))
    except FileNotFoundError:
        return
    except ValueError as e:
        report.add([Finding(path, 0, -1, str(e))])
        return
    if tp is None or directory.endswith("-stray"):
        return
    known, where = ids.setdefault(tp.topic, (topic_id, directory))
    if known != topic_id:
        what = f"topic id {uuid_text(topic_id)}, but {where} has {uuid_text(known)}"
        report.add([Finding(path, 0, -1, what)])


def _check_events(disk: Disk, directory: str, report: Report) -> None:
    """Check that every record of pk's metadata log is an event."""
    try:
        for batch in Partition(disk, directory).batches():
            for record in batch.records():
                try:
                    events.decode(record.value or b"")
                except cbor.CborError as e:
                    report.add([Finding(directory, batch.position, record.offset, str(e))])
    except KafkaError:
        return  # reported already


def _check_offsets(
    directory: str, offsets: list[tuple[str, dict[TopicPartition, int]]], report: Report
) -> None:
    """Check that no checkpoint has an offset beyond the end of the log next to it."""
    tp = partition_of(directory)
    where, _, name = directory.rpartition("/")
    if tp is None or "." in name.removeprefix(tp.topic):
        return
    for file, said in offsets:
        if file.rpartition("/")[0] != where:
            continue  # the checkpoint of another broker, whose replica may be ahead
        offset = said.get(tp, -1)
        if offset > max(report.end_offset, 0):
            what = f"says {offset} for {tp}, whose log ends at {max(report.end_offset, 0)}"
            report.add([Finding(file, 0, offset, what)])
