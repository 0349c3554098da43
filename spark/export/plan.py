"""Asks the brokers for the offsets that an export must read, and checks them against earlier
runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition, uuid_text
from pk.net.client.admin import Admin, open_admin
from pk.net.client.results import LATEST
from pk.spark.errors import DataLost, DirectoryRefused
from pk.spark.export.manifest import Manifest
from pk.spark.export.options import ExportOptions
from pk.spark.read.plan import describe, ids_of, listed, whole, within
from pk.spark.read.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Found:
    """The result of planning: a range for each partition to export, even if the range is empty."""

    cluster_id: str | None
    topic_id: str
    ranges: tuple[OffsetRange, ...]
    leader_epochs: Mapping[int, int]
    """By partition, a leader epoch in which the log had all records of the range, if known."""


async def plan_export(options: ExportOptions, before: Manifest | None) -> Found:
    """Determine the ranges to export now, after the runs in `before`.

    Raises DirectoryRefused if the topic, its log or the isolation level differs from that of the
    earlier runs; DataLost, KafkaError, ClientError.
    """
    read = options.read
    if before is not None:
        _check_isolation(options, before)
    async with open_admin(options.bootstrap, read.admin_config) as admin:
        cluster_id = (await admin.describe_cluster()).cluster_id
        topic = (await describe(admin, [options.topic]))[options.topic]
        topic_id = uuid_text(topic.topic_id)
        if before is not None:
            _check_topic(options, before, cluster_id, topic_id)
        ids = ids_of([topic])
        held = await whole(admin, ids, read.isolation)
        wanted: Mapping[TopicPartition, tuple[int, int | None]] = {
            tp: (span.begin, span.end) for tp, span in held.items()
        }
        if options.resolve is not None:
            wanted = await options.resolve(admin, sorted(ids), read.isolation)
        # Ask for the epochs after the ends, so that no record before an end has a later epoch.
        latest = await admin.list_offsets(dict.fromkeys(ids, LATEST))
        epochs = {tp.partition: listed(latest, tp).leader_epoch for tp in ids}
        if before is not None:
            await _check_logs(admin, options, before)
    ranges: list[OffsetRange] = []
    for tp in sorted(wanted):
        begin, end = wanted[tp]
        if before is not None and tp.partition in before.partitions:
            begin = before.partitions[tp.partition][1]
            if begin > held[tp].end:
                raise DataLost(
                    f"{tp} ends at {held[tp].end}, but was exported up to {begin}: records were"
                    " lost; export to another directory, or overwrite this one"
                )
        end = held[tp].end if end is None else end
        ranges.append(within(held[tp], begin, max(begin, end), options.fail_on_data_loss))
    known = {r.partition: epochs[r.partition] for r in ranges if epochs[r.partition] >= 0}
    return Found(cluster_id, topic_id, tuple(ranges), known)


def _check_isolation(options: ExportOptions, before: Manifest) -> None:
    now = options.read.isolation.name.lower()
    if before.isolation not in (None, now):
        raise DirectoryRefused(
            f"the export in {options.directory} was made with isolation.level={before.isolation}, "
            f"not {now}: a resumed export keeps it; export to another directory, or overwrite "
            "this one"
        )


def _check_topic(
    options: ExportOptions, before: Manifest, cluster_id: str | None, topic_id: str
) -> None:
    if None not in (before.cluster_id, cluster_id) and before.cluster_id != cluster_id:
        raise DirectoryRefused(
            f"the export in {options.directory} is of the cluster {before.cluster_id}, and "
            f"{options.bootstrap} is {cluster_id}; export to another directory, or overwrite this "
            "one"
        )
    if before.topic_id != topic_id:
        raise DirectoryRefused(
            f"the topic {options.topic} was deleted and created again since the export in"
            f" {options.directory} (id {before.topic_id} then, {topic_id} now); export to another"
            " directory, or overwrite this one"
        )


async def _check_logs(admin: Admin, options: ExportOptions, before: Manifest) -> None:
    """Raise DirectoryRefused if a log lost exported records in an unclean election, and has grown
    again since.

    The records before the exported end have leader epochs up to the epoch in the manifest. If that
    epoch, or the last epoch before it that the log still has, ends below the exported end, then
    other records now have those offsets.
    """
    epochs = {
        TopicPartition(options.topic, partition): epoch
        for partition, epoch in before.leader_epochs.items()
    }
    ends = await admin.offsets_for_leader_epochs(epochs)
    for tp in ends:
        try:
            end_offset = ends.value(tp).end_offset
        except KafkaError as e:
            raise KafkaError(e.code, f"leader epochs of {tp}") from e
        exported = before.partitions[tp.partition][1]
        if 0 <= end_offset < exported:
            raise DirectoryRefused(
                f"{tp} was exported up to offset {exported} in leader epoch {epochs[tp]}, which "
                f"now ends at {end_offset}: the log was truncated and has grown again with "
                "other records; export to another directory, or overwrite this one"
            )
