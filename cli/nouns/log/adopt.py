"""`pk log adopt`: takes over the topics of a data directory that Apache Kafka wrote.

The order of the steps makes sure that, after a crash at any point, the directory is either still
Apache's (pk refuses it, and `adopt` can be run again) or pk's:

    write pk's metadata in .pk-adopt/, after removing that of an earlier attempt
    move Apache's own files aside, except its metadata log
    rename the new metadata to pk-metadata/
    move the metadata log aside: from then on, the directory is pk's

No file of Apache Kafka is removed. Logs keep their files, except segments in message formats older
than 0.11: those are rewritten as record batches, which Apache Kafka reads too.
"""

import os
import secrets
import shlex
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from pk.cli.config_keys.units import config_value
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.log.rows import AdoptedTopicRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.core.broker.controller.embedded_store import EmbeddedStore
from pk.core.broker.offload import offload
from pk.core.config import BrokerConfig
from pk.core.errors import KafkaError
from pk.core.log.disk import RealDisk, this_process
from pk.core.log.files import LockHeld
from pk.core.log.tools.adopt import (
    PK_METADATA,
    AdoptedTopic,
    Adoption,
    CannotAdopt,
    events,
    plan,
    with_configs,
)
from pk.core.log.tools.upgrade import upgrade_log
from pk.core.meta import configs
from pk.core.meta.events import (
    AclCreated,
    ClientQuotaChanged,
    ClusterCreated,
    Event,
    ScramCredentialChanged,
)
from pk.core.meta.features import first_features
from pk.core.record.batch import CorruptBatch
from pk.core.values import METADATA_TOPIC, new_id, uuid_text

_SCRATCH = ".pk-adopt"
_EVENTS_PER_BATCH = 5000


async def adopt(
    context: Context,
    directories: Sequence[str],
    topic_configs: Sequence[tuple[str, str]],
    topic_file: str | None,
) -> None:
    """Run `pk log adopt`."""
    paths = _paths(directories)
    disk = RealDisk()
    with ExitStack() as held:
        for path in paths:
            try:
                held.callback(disk.lock(f"{path}/.lock", this_process()).release)
            except LockHeld as e:
                raise CommandError(
                    f"{path} is in use: {e.holder or 'another process'} holds it; stop the broker "
                    "first."
                ) from None
        try:
            adoption = await offload(plan, disk, paths, lambda: new_id(secrets.token_bytes))
            with_configs(adoption, _given(topic_configs, topic_file))
        except CannotAdopt as e:
            raise CommandError(str(e)) from None
        _check_configs(adoption)
        _show(context, adoption)
        if context.change.dry_run:
            return
        await context.agree(f"Take over {count(len(adoption.topics), 'topic')} for pk?")
        await _apply(disk, adoption)
    _say_done(context, adoption)


def _paths(given: Sequence[str]) -> list[str]:
    paths = list(dict.fromkeys(map(os.path.abspath, given)))
    for path in paths:
        if not os.path.isdir(path):
            raise CommandError(f"{path} is not a directory.")
    return paths


def _given(
    topic_configs: Iterable[tuple[str, str]], topic_file: str | None
) -> dict[str, dict[str, str]]:
    """Topic → key → value, from the file and the command line. Raises Unusable."""
    pairs: list[tuple[str, str]] = []
    if topic_file is not None:
        try:
            with open(topic_file, encoding="utf-8") as file:
                lines = [line.strip() for line in file]
        except (OSError, UnicodeDecodeError) as e:
            raise Unusable(f"{topic_file} cannot be read: {e}.") from None
        for line in lines:
            name, equals, value = line.partition("=")
            if line and not line.startswith("#"):
                if not equals:
                    raise Unusable(
                        f"--config-file must have lines of TOPIC:KEY=VALUE, not {line!r}."
                    )
                pairs.append((name.strip(), value.strip()))
    given: dict[str, dict[str, str]] = {}
    for name, value in (*pairs, *topic_configs):
        topic, colon, key = name.partition(":")
        if not colon or not topic or not key:
            raise Unusable(f"-c must be TOPIC:KEY=VALUE, not {name}={value}.")
        given.setdefault(topic, {})[key] = config_value(key, value)
    broker = _broker_config()
    for topic, own in given.items():
        try:
            configs.check_topic(own, broker)
        except KafkaError as e:
            raise Unusable(f"-c {topic}: {e.message}.") from None
    return given


def _broker_config() -> BrokerConfig:
    return BrokerConfig.parse({"node.id": "1", "log.dirs": "/"})


def _check_configs(adoption: Adoption) -> None:
    """Remove topic configs that pk does not know, with a note for each."""
    broker = _broker_config()
    for topic in adoption.topics:
        for key, value in list(topic.configs.items()):
            try:
                configs.check_topic({key: value}, broker)
            except KafkaError as e:
                del topic.configs[key]
                adoption.notes.append(f"{topic.name}: {key}={value} is left out: {e.message}.")


def _row(topic: AdoptedTopic) -> AdoptedTopicRow:
    return {
        "topic": topic.name,
        "partitions": len(topic.directories),
        "bytes": topic.bytes,
        "topic_id": uuid_text(topic.topic_id),
        "configs": topic.configs,
    }


def _show(context: Context, adoption: Adoption) -> None:
    context.show(listing(AdoptedTopicRow, [_row(topic) for topic in adoption.topics]))
    for old, new in adoption.moves:
        context.say(f"{old} is moved to {new}.")
    for note in adoption.notes:
        context.say(note)
    if lost := [topic.name for topic in adoption.topics if not topic.has_id_file]:
        context.say(f"Some partitions have no topic id in their files: {', '.join(lost)}.")
    meta = adoption.meta
    context.say(
        f"pk will serve them as node {meta.node_id} of cluster {meta.cluster_id}, with "
        f"{_security(adoption)}."
    )


def _security(adoption: Adoption) -> str:
    """`2 ACLs, 1 password for SCRAM and 3 quotas`."""
    kinds = [type(event) for event in adoption.security]
    acls, quotas = kinds.count(AclCreated), kinds.count(ClientQuotaChanged)
    passwords = kinds.count(ScramCredentialChanged)
    return (
        f"{count(acls, 'ACL')}, {count(passwords, 'password')} for SCRAM and "
        f"{count(quotas, 'quota')}"
    )


async def _apply(disk: RealDisk, adoption: Adoption) -> None:
    await offload(_upgrade, disk, adoption)
    first = adoption.paths[0]
    scratch = f"{first}/{_SCRATCH}"
    await offload(_fresh, disk, scratch)
    store = EmbeddedStore(disk, scratch, now_ms)
    epoch = await store.campaign(adoption.meta.node_id)
    cluster = ClusterCreated(adoption.meta.cluster_id)
    waiting: list[Event] = [cluster, *first_features(), *events(adoption)]
    for offset in range(0, len(waiting), _EVENTS_PER_BATCH):
        await store.append(epoch, offset, waiting[offset : offset + _EVENTS_PER_BATCH])
    await store.close()
    await offload(_exchange, disk, adoption, scratch)


def _upgrade(disk: RealDisk, adoption: Adoption) -> None:
    """Rewrite segments in message formats older than 0.11, since pk's logs contain only record
    batches. Apache Kafka reads the result too, so the directory remains usable if it is not taken
    over in the end. Raises CommandError."""
    for topic in adoption.topics:
        for directory in topic.directories.values():
            try:
                upgrade_log(disk, directory, repair=not adoption.clean)
            except (CorruptBatch, OSError) as e:
                raise CommandError(f"{directory} cannot be taken over: {e}.") from None


def _fresh(disk: RealDisk, scratch: str) -> None:
    if disk.exists(scratch):
        disk.remove_tree(scratch)
    disk.make(scratch)


def _exchange(disk: RealDisk, adoption: Adoption, scratch: str) -> None:
    """Rename everything. Apache's metadata log is last, since the directory is Apache's as long as
    it exists."""
    log = f"/{METADATA_TOPIC}-0"
    moves = sorted(adoption.moves, key=lambda move: move[0].endswith(log))
    for old, new in moves:
        if old.endswith(log):
            break
        _move(disk, old, new)
    target = f"{adoption.paths[0]}/{PK_METADATA}"
    disk.rename(f"{scratch}/{PK_METADATA}", target)
    disk.sync_dir(adoption.paths[0])
    for old, new in moves:
        if old.endswith(log):
            _move(disk, old, new)
    disk.remove_tree(scratch)
    for path in adoption.paths:
        disk.sync_dir(path)


def _move(disk: RealDisk, old: str, new: str) -> None:
    parent = os.path.dirname(new)
    disk.make(parent)
    disk.rename(old, new)
    disk.sync_dir(parent)
    disk.sync_dir(os.path.dirname(old))


def _say_done(context: Context, adoption: Adoption) -> None:
    where, node = adoption.paths[0], adoption.meta.node_id
    words = [] if node == 1 else ["-X", f"node.id={node}"]
    if len(adoption.paths) > 1:
        words += ["-X", f"log.dirs={','.join(adoption.paths)}"]
    command = shlex.join(("pk", "up", "--data", where, *words))
    partitions = sum(len(topic.directories) for topic in adoption.topics)
    context.say(
        f"{count(len(adoption.topics), 'topic')} with {count(partitions, 'partition')} now belong "
        f"to pk; `{command}` serves them."
    )
