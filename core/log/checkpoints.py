"""Reads and writes the small text files of a log directory, in Kafka's formats.

    meta.properties                     Java properties: version=1, cluster.id, node.id and
                                        directory.id
    partition.metadata                  `version: 0`, `topic_id: …`
    .kafka_cleanshutdown                {"version":0,"brokerEpoch":7}
    recovery-point-offset-checkpoint    0, the count, and a line `topic partition offset` each; also
                                        log-start-offset-checkpoint,
                                        replication-offset-checkpoint (high watermarks),
                                        cleaner-offset-checkpoint (up to where logs are compacted)
    pk-scrub-time-checkpoint            the same with the time in ms at which a log was last read
                                        to detect damage (pk only)

Each file is replaced as a whole, atomically (`Disk.write`).
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pk.core.values import TopicPartition, Uuid, uuid_from_text, uuid_text

META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
SCRUB_TIMES: Final = "pk-scrub-time-checkpoint"

UNKNOWN_BROKER_EPOCH: Final = -1


class MetaProperties(NamedTuple):
    """The owner of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: Uuid

    def format(self) -> bytes:
        """Format the content of `meta.properties`."""
        lines = {
            "cluster.id": self.cluster_id,
            "directory.id": uuid_text(self.directory_id),
            "node.id": str(self.node_id),
            "version": "1",
        }
        return "".join(f"{key}={_escape(value)}\n" for key, value in lines.items()).encode()

    @classmethod
    def parse(cls, content: bytes) -> "MetaProperties":
        """Parse the content of `meta.properties`. Raises ValueError."""
        values = parse_properties(content.decode("latin-1"))
        version = values.get("version")
        if version != "1":
            raise ValueError(f"version {version} of {META_PROPERTIES} is not the one of KRaft (1)")
        try:
            directory_id = uuid_from_text(values["directory.id"])
            return cls(values["cluster.id"], int(values["node.id"]), directory_id)
        except KeyError as e:
            raise ValueError(f"{META_PROPERTIES} has no {e.args[0]}") from None


def _escape(value: str) -> str:
    return re.sub(r"([\\:=#!])", r"\\\1", value)


def parse_properties(text: str) -> dict[str, str]:
    """Parse the keys and values of a file in Java's properties format, as far as these files use
    it."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, value = re.match(r"((?:\\.|[^=:\s\\])*)\s*[=:]?\s*(.*)", line).groups()  # pyright: ignore[reportOptionalMemberAccess]
            values[re.sub(r"\\(.)", r"\1", key)] = re.sub(r"\\(.)", r"\1", value)
    return values


def format_partition_metadata(topic_id: Uuid) -> bytes:
    """Format the content of `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}\n".encode()


def parse_partition_metadata(content: bytes) -> Uuid:
    """Parse the topic id in `partition.metadata`. Raises ValueError."""
    found = re.fullmatch(
        r"version:\s*(\d+)\s+topic_id:\s*(\S+)\s*", content.decode("utf-8", "replace")
    )
    if found is None or found[1] != "0":
        raise ValueError(f"not a {PARTITION_METADATA}: {content[:80]!r}")
    return uuid_from_text(found[2])


def format_clean_shutdown(broker_epoch: int) -> bytes:
    """Format the content of `.kafka_cleanshutdown`."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_clean_shutdown(content: bytes) -> int:
    """Parse the broker epoch in `.kafka_cleanshutdown`. It is -1 for the empty file of an older
    broker (KIP-966)."""
    try:
        said = json.loads(content)
        return int(said["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Format the content of an offset checkpoint."""
    lines = [
        f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())
    ]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def parse_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Parse the offsets in a checkpoint. An empty file, which Kafka creates before it has any
    offsets, has none. Raises ValueError."""
    if not content:
        return {}
    version, count, *lines = content.decode().split("\n")
    if version.strip() != "0":
        raise ValueError(f"version {version!r} of an offset checkpoint")
    offsets: dict[TopicPartition, int] = {}
    for line in lines[: int(count)]:
        topic, partition, offset = line.split()
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    if len(offsets) != int(count):
        raise ValueError(f"{count} offsets announced, {len(offsets)} are there")
    return offsets
