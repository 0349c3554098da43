"""Rollback files: they undo a reassignment, and tell a later command what a crash left in the
cluster.

A rollback file is Apache's reassignment JSON of the previous replicas, with one more key, `pk`,
which Apache's tool ignores: the cluster's id, the new replicas, and the throttles for the move. It
is written before these are set.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pk.cli.cluster.reassignment_json import apache_json, assignments_of, read_json
from pk.cli.cluster.replicas import Replicas
from pk.cli.cluster.throttle_marks import MARK
from pk.cli.cluster.throttles import Throttled
from pk.cli.exits import CommandError, Unusable
from pk.cli.runtime.paths import make_user_dir, user_dir
from pk.core.values import TopicPartition

DONE: Final = "done"
CANCELLED: Final = "cancelled"
REFUSED: Final = "refused"
"""The controller refused every move."""

NOT_STARTED: Final = "not started"
"""The throttle could not be set, so nothing was submitted."""

_NOTHING_MOVED = frozenset((REFUSED, NOT_STARTED))
_KEEP_FILES = 50


class Rollback(NamedTuple):
    """A rollback file: the previous replicas, the new ones, and the throttles set for the move."""

    path: str
    cluster_id: str | None
    created_ms: int
    before: Mapping[TopicPartition, Replicas]
    after: Mapping[TopicPartition, Replicas]
    throttled: Throttled = Throttled()
    finished: str | None = None
    """The result, `DONE` or another; None if pk has not seen the end."""

    @property
    def name(self) -> str:
        return os.path.basename(self.path).removesuffix(".json")

    @property
    def moved_nothing(self) -> bool:
        """Whether the reassignment ended before anything moved, so that nothing must be
        restored."""
        return self.finished in _NOTHING_MOVED


def _directory() -> str:
    return os.path.join(user_dir("state"), "reassign")


def new_path(stamp_ms: int) -> str:
    """A path for a rollback file. Raises CommandError if its directory cannot be created."""
    try:
        directory = os.path.join(make_user_dir("state"), "reassign")
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as e:
        raise CommandError(f"{e.filename} cannot be created: {e.strerror}.") from None
    return os.path.join(directory, f"reassign-{stamp_ms}-{os.getpid()}.json")


def write(rollback: Rollback) -> None:
    """Write a rollback file atomically: a crash leaves the old file or the new one. Raises
    CommandError."""
    data = apache_json(rollback.before) | {
        "pk": {
            "format": 1,
            "cluster_id": rollback.cluster_id,
            "created_ms": rollback.created_ms,
            "finished": rollback.finished,
            "target": apache_json(rollback.after)["partitions"],
            "throttle": {
                "rate": rollback.throttled.rate,
                "brokers": {str(b): dict(k) for b, k in rollback.throttled.brokers.items()},
                "topics": {
                    t: {k: list(v) for k, v in keys.items()}
                    for t, keys in rollback.throttled.topics.items()
                },
            },
        }
    }
    scratch = f"{rollback.path}.{os.getpid()}"
    try:
        with open(scratch, "w", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, rollback.path)
        _mark(rollback)
    except OSError as e:
        raise CommandError(f"{rollback.path} cannot be written: {e.strerror}.") from None


def _mark(rollback: Rollback) -> None:
    """Create or delete the mark that tells other commands that a throttle may be left
    (`pk.cli.cluster.leftover_throttles`)."""
    mark = f"{rollback.path}{MARK}"
    if rollback.throttled.any:
        with open(mark, "w", encoding="utf-8"):
            return
    with suppress(FileNotFoundError):
        os.unlink(mark)


def read(path: str) -> Rollback:
    """Read a rollback file, or a plain JSON file of Apache's tool as one. Raises Unusable."""
    data = read_json(path)
    before = assignments_of(data, path).replicas
    own: Mapping[str, Any] = data.get("pk") or {}
    try:
        throttle: Mapping[str, Any] = own.get("throttle") or {}
        brokers: Mapping[str, Mapping[str, Any]] = throttle.get("brokers", {})
        topics: Mapping[str, Mapping[str, Any]] = throttle.get("topics", {})
        return Rollback(
            os.path.abspath(os.path.expanduser(path)),
            own.get("cluster_id"),
            int(own.get("created_ms", 0)),
            before,
            assignments_of({"partitions": own.get("target", [])}, path).replicas,
            Throttled(
                throttle.get("rate"),
                {int(b): dict(keys) for b, keys in brokers.items()},
                {t: {k: tuple(v) for k, v in keys.items()} for t, keys in topics.items()},
            ),
            own.get("finished"),
        )
    except (AttributeError, TypeError, ValueError):
        raise Unusable(f"{path} is not a rollback file of pk.") from None


def rollbacks(cluster_id: str | None) -> list[Rollback]:
    """The rollback files of a cluster, newest first; skips those that cannot be read."""
    try:
        names = sorted(os.listdir(_directory()), reverse=True)
    except OSError:
        return []
    found: list[Rollback] = []
    for name in names:
        if not name.startswith("reassign-") or not name.endswith(".json"):
            continue
        try:
            rollback = read(os.path.join(_directory(), name))
        except Unusable:
            continue
        if rollback.cluster_id == cluster_id:
            found.append(rollback)
    return found


def find(word: str, cluster_id: str | None) -> Rollback:
    """The rollback file with this path or name. Raises Unusable."""
    if not os.path.sep in word and not os.path.exists(os.path.expanduser(word)):
        inside = os.path.join(_directory(), f"{word.removesuffix('.json')}.json")
        if os.path.exists(inside):
            word = inside
    rollback = read(word)
    if rollback.cluster_id not in (None, cluster_id):
        raise Unusable(
            f"{word} belongs to another cluster ({rollback.cluster_id}; this one is {cluster_id})."
        )
    return rollback


def delete_oldest(cluster_id: str | None) -> None:
    """Delete the oldest rollback files of a cluster beyond the number to keep. A file that is
    unfinished, or whose throttles are still set, is never deleted."""
    for old in rollbacks(cluster_id)[_KEEP_FILES:]:
        if old.finished is not None and not old.throttled.any:
            try:
                os.unlink(old.path)
            except OSError:
                return
