"""Finds what to take over from data directories written by Apache Kafka (KRaft).

Topic ids and partitions come from `partition.metadata` and the directories' names. Configs come
from Apache's metadata log if it can be read (see `core/meta/kraft.py`). Two numbers must continue:

- leader epochs continue: a partition starts here with the epoch after the last one in its log, or
  its next leader would write batches that look older than the existing ones;
- producer ids continue: if an id were assigned twice, its batches would be checked against the
  sequences of its first owner.

Nothing is written here; `pk.cli.nouns.log.adopt` writes the events that this returns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from pk.core.errors import KafkaError
from pk.core.log import checkpoints
from pk.core.log.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
)
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.files import Disk
from pk.core.log.log_dir import LOG_NAME
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.log.recovery import EPOCHS_FILE
from pk.core.log.segment import LOG, SNAPSHOT
from pk.core.log.tools.inspect import Partition, Scan
from pk.core.meta.events import (
    TOPIC,
    AclCreated,
    ClientQuotaChanged,
    ConfigChanged,
    Event,
    PartitionCreated,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    StrangersSecretMade,
    TopicCreated,
)
from pk.core.meta.kraft import KraftMetadata
from pk.core.record.batch import MAGIC
from pk.core.values import METADATA_TOPIC, NO_EPOCH, NO_NODE, OFFSETS_TOPIC, Uuid, uuid_text

APACHE_NAMES: Final = (f"{METADATA_TOPIC}-0", "quorum-state", "bootstrap.checkpoint")
"""The names of Apache's own files, which are moved aside."""
ASIDE: Final = "apache-kafka"
PK_METADATA: Final = "pk-metadata"
_SNAPSHOT_SUFFIX: Final = ".checkpoint"
_IDS_PER_BLOCK: Final = 1000


class CannotAdopt(Exception):
    """The directories cannot be taken over; the message is one sentence for the operator."""


class AdoptedTopic(Struct):
    """A topic to take over."""

    name: str
    topic_id: Uuid
    directories: dict[int, str] = field(default_factory=dict[int, str])
    """Partition → its directory."""
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    """Partition → the leader epoch with which it continues."""
    configs: dict[str, str] = field(default_factory=dict[str, str])
    bytes: int = 0
    has_id_file: bool = True


class Adoption(Struct):
    """Everything that `adopt` takes over."""

    paths: list[str]
    meta: MetaProperties
    topics: list[AdoptedTopic]
    producer_id_next: int
    moves: list[tuple[str, str]]
    """The files to move aside: from, to."""
    clean: bool
    notes: list[str]
    security: list[Event]
    """ACLs, SCRAM users and quotas in Apache's metadata."""


def plan(disk: Disk, paths: Sequence[str], new_id: Callable[[], Uuid]) -> Adoption:
    """Inspect the data directories of one broker. Raises CannotAdopt, OSError."""
    meta = _read_owner(disk, paths)
    kraft, notes = _metadata(disk, paths)
    clean = all(disk.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in paths)
    if not clean:
        notes.append("Apache Kafka was not stopped cleanly: the first start will check the logs.")
    topics = _topics(disk, paths, kraft, new_id)
    for topic in topics:
        described = kraft.topics.get(topic.topic_id) if kraft is not None else None
        if described is not None:
            topic.configs = dict(described.configs)
        elif topic.name == OFFSETS_TOPIC:
            topic.configs = {"cleanup.policy": "compact"}
        _check_partitions(topic, described.partitions if described else set())
    next_id = max([kraft.producer_id_next if kraft else 0, *_producer_ids(disk, topics, clean)])
    next_id = -(-next_id // _IDS_PER_BLOCK) * _IDS_PER_BLOCK
    moves = _moves(disk, paths)
    security = _security(kraft, new_id) if kraft is not None else []
    return Adoption(list(paths), meta, topics, next_id, moves, clean, notes, security)


def _security(kraft: KraftMetadata, new_id: Callable[[], Uuid]) -> list[Event]:
    """Convert ACLs, SCRAM users and quotas to pk's metadata events."""
    found: list[Event] = [AclCreated(*rule) for rule in dict.fromkeys(kraft.acls.values())]
    if kraft.users:
        found.append(StrangersSecretMade(new_id() + new_id()))
    for (user, mechanism), one in sorted(kraft.users.items(), key=lambda item: item[0]):
        found.append(
            ScramCredentialChanged(
                user, mechanism, one.salt, one.stored_key, one.server_key, one.iterations
            )
        )
    for (entity, key), value in kraft.quotas.items():
        found.append(ClientQuotaChanged(entity, key, value))
    return found


def events(adoption: Adoption) -> Iterator[Event]:
    """Yield the events for the metadata log, after the event that names the cluster."""
    node = adoption.meta.node_id
    for topic in adoption.topics:
        yield TopicCreated(topic.name, topic.topic_id)
        for partition in sorted(topic.directories):
            epoch = topic.epochs[partition]
            yield PartitionCreated(
                topic.topic_id, partition, (node,), (node,), node, leader_epoch=epoch
            )
        for key, value in topic.configs.items():
            yield ConfigChanged(TOPIC, topic.name, key, value)
    yield from adoption.security
    if adoption.producer_id_next:
        yield ProducerIdsAllocated(NO_NODE, NO_EPOCH, adoption.producer_id_next)


# --- owner ---


def _read_owner(disk: Disk, paths: Sequence[str]) -> MetaProperties:
    found: MetaProperties | None = None
    for path in paths:
        try:
            meta = MetaProperties.parse(disk.read(f"{path}/{META_PROPERTIES}"))
        except FileNotFoundError:
            raise CannotAdopt(
                f"{path} has no {META_PROPERTIES}, so it is not a data directory of Apache Kafka."
            ) from None
        except ValueError as e:
            raise CannotAdopt(
                f"{path}/{META_PROPERTIES} cannot be understood ({e}); "
                "a directory of a Kafka with ZooKeeper must be migrated to KRaft first."
            ) from None
        if found is not None and (found.cluster_id, found.node_id) != (
            meta.cluster_id,
            meta.node_id,
        ):
            raise CannotAdopt(f"{paths[0]} and {path} belong to different brokers.")
        found = found or meta
        apache = any(disk.exists(f"{path}/{name}") for name in APACHE_NAMES)
        if disk.exists(f"{path}/{PK_METADATA}") and not apache:
            raise CannotAdopt(f"{path} is pk's already: `pk up --data {path}` serves it.")
    assert found is not None
    return found


def _moves(disk: Disk, paths: Sequence[str]) -> list[tuple[str, str]]:
    moves: list[tuple[str, str]] = []
    for path in paths:
        aside, n = f"{path}/{ASIDE}", 1
        while disk.exists(aside):
            n += 1
            aside = f"{path}/{ASIDE}.{n}"
        for name in (
            *APACHE_NAMES,
            PK_METADATA,
        ):  # pk's own metadata, left by an interrupted adoption
            if disk.exists(f"{path}/{name}"):
                moves.append((f"{path}/{name}", f"{aside}/{name}"))
    return moves


def _metadata(disk: Disk, paths: Sequence[str]) -> tuple[KraftMetadata | None, list[str]]:
    """Read the contents of Apache's metadata log. Returns them and warnings."""
    where = next((p for p in paths if disk.exists(f"{p}/{APACHE_NAMES[0]}")), None)
    if where is None:
        return None, ["There is no metadata log of Apache Kafka: configs come from -c alone."]
    kraft, empty = KraftMetadata(), True
    try:
        for value in _metadata_values(disk, f"{where}/{APACHE_NAMES[0]}"):
            kraft.apply(value)
            empty = False
        if empty:
            raise ValueError("it is empty")
    except (KafkaError, ValueError) as e:
        return None, [f"Apache's metadata log cannot be read ({e}): configs come from -c alone."]
    kraft.finish()
    notes: list[str] = []
    if kraft.unread:
        notes.append(
            f"{kraft.unread} records of Apache's metadata log are of versions that are not known "
            "here: look whether the configs are complete, and give what is missing by -c."
        )
    if kraft.other_configs:
        keys = ", ".join(sorted(kraft.other_configs))
        notes.append(f"Configs of brokers and groups are not taken over: {keys}.")
    return kraft, notes


def _metadata_values(disk: Disk, directory: str) -> Iterator[bytes]:
    """Yield the records of the newest snapshot, then those of the log after it. Raises ValueError
    if records are missing."""
    names = disk.list(directory)
    snapshots = sorted(n for n in names if n.endswith(_SNAPSHOT_SUFFIX) and n[:20].isdecimal())
    offset = 0
    if snapshots:
        offset = int(snapshots[-1][:20])
        scan = Scan(disk.open(f"{directory}/{snapshots[-1]}"))
        for batch in scan:
            if batch.crc_error is not None:
                raise ValueError(f"{snapshots[-1]} is damaged")
            if not batch.header.is_control:
                yield from (record.value or b"" for record in batch.records())
        if scan.problems:
            raise ValueError(f"{snapshots[-1]}: {scan.problems[0].what}")
    for batch in Partition(disk, directory).batches(offset):
        if batch.header.base_offset > offset and not snapshots and not offset:
            raise ValueError(f"records 0 to {batch.header.base_offset} are missing")
        offset = batch.header.next_offset
        if batch.crc_error is not None:
            raise ValueError(f"the batch at offset {batch.header.base_offset} is damaged")
        if not batch.header.is_control:
            yield from (record.value or b"" for record in batch.records())


# --- topics ---


def _topics(
    disk: Disk, paths: Sequence[str], kraft: KraftMetadata | None, new_id: Callable[[], Uuid]
) -> list[AdoptedTopic]:
    topics: dict[str, AdoptedTopic] = {}
    by_name = {t.name: t.topic_id for t in kraft.topics.values()} if kraft else {}
    for path in paths:
        for name, entry in disk.list(path).items():
            found = LOG_NAME.fullmatch(name)
            if not entry.is_directory or found is None or found[1] == METADATA_TOPIC:
                continue
            directory = f"{path}/{name}"
            topic_id = _topic_id(disk, directory)
            topic = topics.get(found[1])
            if topic is None:
                known = topic_id or by_name.get(found[1]) or new_id()
                topic = topics[found[1]] = AdoptedTopic(found[1], known)
            elif topic_id is not None and topic_id != topic.topic_id:
                raise CannotAdopt(
                    f"{directory} is of topic id {uuid_text(topic_id)}, other partitions of "
                    f"{found[1]} are of {uuid_text(topic.topic_id)}: one of them is a leftover, "
                    "move it away."
                )
            topic.has_id_file &= topic_id is not None
            _add_partition(disk, topic, int(found[2]), directory)
    return [topics[name] for name in sorted(topics)]


def _topic_id(disk: Disk, directory: str) -> Uuid | None:
    try:
        return checkpoints.parse_partition_metadata(disk.read(f"{directory}/{PARTITION_METADATA}"))
    except FileNotFoundError:
        return None
    except ValueError as e:
        raise CannotAdopt(f"{directory}/{PARTITION_METADATA} cannot be understood: {e}.") from None


def _add_partition(disk: Disk, topic: AdoptedTopic, number: int, directory: str) -> None:
    if number in topic.directories:
        raise CannotAdopt(
            f"{topic.name}-{number} is in two directories: {topic.directories[number]} and "
            f"{directory}."
        )
    partition = Partition(disk, directory)
    topic.directories[number] = directory
    topic.bytes += sum(segment.files[LOG].size for segment in partition.segments)
    topic.epochs[number] = _last_epoch(partition) + 1


def _last_epoch(partition: Partition) -> int:
    content = partition.read(partition.path(EPOCHS_FILE))
    if content is not None:
        try:
            known = LeaderEpochs.parse(content).latest
        except ValueError:
            known = NO_EPOCH
        if known != NO_EPOCH:
            return known
    try:
        return max((b.header.leader_epoch for b in partition.batches()), default=NO_EPOCH)
    except KafkaError as e:
        raise CannotAdopt(f"{partition.directory}: {e.message}.") from None


def _check_partitions(topic: AdoptedTopic, described: set[int]) -> None:
    """Check that the broker has all partitions of a topic, since it has no means to find the
    others. Raises CannotAdopt."""
    expected = described | set(range(max(topic.directories) + 1))
    missing = sorted(expected - set(topic.directories))
    if missing:
        listed = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
        raise CannotAdopt(
            f"Topic {topic.name} has no partition {listed} here: name all of the broker's log "
            "directories; where another broker had them, move the whole topic to this one while "
            "Apache Kafka runs."
        )


def _producer_ids(disk: Disk, topics: Sequence[AdoptedTopic], clean: bool) -> Iterator[int]:
    """Yield the id after each producer id in a log's last snapshot and, for logs that were not
    closed cleanly, in their last batches."""
    for topic in topics:
        for directory in topic.directories.values():
            partition = Partition(disk, directory)
            for offset in partition.snapshots[-1:]:
                path = partition.segment_path(offset, SNAPSHOT)
                try:
                    known = Producers.from_snapshot(disk.read(path), offset, 0)
                except CorruptSnapshot:
                    continue
                yield from (state.producer_id + 1 for state in known)
            if not clean:
                for segment in partition.segments[-2:]:
                    for batch in partition.scan(segment.base_offset):
                        if batch.header.magic == MAGIC:
                            yield batch.header.producer_id + 1


def with_configs(adoption: Adoption, given: Mapping[str, Mapping[str, str]]) -> None:
    """Apply the operator's configs on top of those that were found. Raises CannotAdopt for a
    missing topic."""
    by_name = {topic.name: topic for topic in adoption.topics}
    for name, configs in given.items():
        if name not in by_name:
            raise CannotAdopt(f"There is no topic {name} in {', '.join(adoption.paths)}.")
        by_name[name].configs.update(configs)
