"""Records changes, and how to undo them: a file for each change, so that `pk undo` works days
later.

A command that changes something and knows the inverse calls `remember` after the question and
before the change. A crash between the two leaves a file that undoes nothing, which is harmless; the
other order could leave a change without a file. The command then prints how to undo it
(`how_to_undo`). If the whole change was refused, `forget` deletes the file.

A file is JSON, readable only by its owner: `kind` (which code applies `inverse`), the cluster, a
sentence, and the inverse. Kinds are listed in `pk.cli.undo.undo`. An inverse contains the values
before and after the change, so that an undo can find out whether another user has changed them
since.
"""

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pk.cli.exits import CommandError
from pk.cli.runtime.paths import make_user_dir, user_dir

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context
    from pk.net.client.admin import Admin

_KEEP = 500
"""The number of files to keep; the oldest are deleted first."""


class Change(NamedTuple):
    """A change that was made."""

    id: str
    kind: str
    cluster_id: str | None
    cluster: str
    """The cluster's name, as the user gave it."""

    description: str
    made_ms: int
    inverse: Mapping[str, Any]
    undone_ms: int | None = None
    """When the change was undone; None if it was not."""

    undoes: str | None = None
    """The id of the change that this one undid; None if it is not an undo."""


def _directory() -> str:
    return os.path.join(user_dir("state"), "undo")


def _path(change_id: str) -> str:
    return os.path.join(_directory(), f"{change_id}.json")


def _ids() -> list[int]:
    """The existing ids, oldest first."""
    try:
        names = os.listdir(_directory())
    except OSError:
        return []
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def store(
    kind: str,
    cluster_id: str | None,
    description: str,
    inverse: Mapping[str, Any],
    *,
    cluster: str,
    now_ms: int,
    undoes: str | None = None,
) -> str:
    """Record how to undo a change that is about to be made. Returns its id. Raises OSError."""
    make_user_dir("state")
    os.makedirs(_directory(), mode=0o700, exist_ok=True)
    there = _ids()
    number = there[-1] + 1 if there else 1
    data = {
        "kind": kind,
        "cluster_id": cluster_id,
        "cluster": cluster,
        "description": description,
        "made_ms": now_ms,
        "undoes": undoes,
        "inverse": inverse,
    }
    while True:
        try:
            # Another process of pk may try the same number; the one that creates the file gets it.
            fd = os.open(_path(str(number)), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            number += 1
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        forget(str(number))  # an incomplete file cannot undo anything
        raise
    for old in there[: max(len(there) + 1 - _KEEP, 0)]:
        forget(str(old))
    return str(number)


async def remember(
    context: "Context",
    admin: "Admin",
    kind: str,
    description: str,
    inverse: Mapping[str, Any],
    *,
    undoes: str | None = None,
) -> str | None:
    """Record how to undo a change that is about to be made. Returns its id for `how_to_undo`.

    If the file cannot be written, says so and returns None: the user agreed to the change, so it is
    made anyway.
    """
    from pk.cli.positions.resolve import now_ms

    cluster_id = await cluster_id_of(admin)
    name = context.settings.cluster_name
    try:
        return store(
            kind, cluster_id, description, inverse, cluster=name, now_ms=now_ms(), undoes=undoes
        )
    except OSError as e:
        context.say(
            f"{_directory()}: {e.strerror or e}; this change cannot be undone by `pk undo`."
        )
        return None


async def cluster_id_of(admin: "Admin") -> str | None:
    """The id of the cluster that `admin` is connected to; None if the broker is too old to have
    one."""
    known = admin.cluster.metadata.cluster_id
    return known if known else (await admin.describe_cluster()).cluster_id


def how_to_undo(change_id: str) -> str:
    """The sentence that says how to undo a change."""
    return f"To undo it: pk undo {change_id}"


def forget(change_id: str) -> None:
    """Delete the record of a change that was not made."""
    try:
        os.unlink(_path(change_id))
    except OSError:
        return


def narrow(change_id: str, inverse: Mapping[str, Any]) -> None:
    """Replace the inverse of a change that was made only in part.

    Ignores errors: undoing the rest as well would only set values that are already set.
    """
    with contextlib.suppress(OSError):
        _rewrite(change_id, inverse=inverse)


def mark_undone(change_id: str, now_ms: int) -> None:
    """Record that a change was undone. Raises OSError."""
    _rewrite(change_id, undone_ms=now_ms)


def _rewrite(change_id: str, **fields: Any) -> None:
    path = _path(change_id)
    scratch = f"{path}.{os.getpid()}"
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        data |= fields
        fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False, indent=1)
        os.replace(scratch, path)
    except ValueError as e:
        raise OSError(errno.EIO, f"it is no longer JSON: {e}", path) from None


def _read(change_id: str) -> Change | None:
    try:
        with open(_path(change_id), encoding="utf-8") as file:
            data = json.load(file)
        return Change(
            change_id,
            str(data["kind"]),
            data["cluster_id"],
            str(data["cluster"]),
            str(data["description"]),
            int(data["made_ms"]),
            dict(data["inverse"]),
            data.get("undone_ms"),
            data.get("undoes"),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def history() -> list[Change]:
    """The recorded changes, newest first. Skips files that cannot be read."""
    found = (_read(str(number)) for number in reversed(_ids()))
    return [change for change in found if change is not None]


def last(cluster_id: str | None, kind: str | None = None) -> Change:
    """The newest change of a cluster (and kind) that was not undone and is not an undo. Raises
    CommandError.

    Repeated undos therefore go back step by step.
    """
    for change in history():
        open_ = change.undone_ms is None and change.undoes is None
        if open_ and change.cluster_id == cluster_id and kind in (None, change.kind):
            return change
    raise CommandError("Nothing to undo on this cluster; `pk undo --list` shows all changes.")


def find(change_id: str, kind: str | None = None) -> Change:
    """The change with this id, which must be of `kind` if given. Raises CommandError."""
    found = _read(change_id) if change_id.isascii() and change_id.isdigit() else None
    if found is None:
        raise CommandError(
            f"Change {change_id!r} does not exist; `pk undo --list` shows all changes."
        )
    if kind not in (None, found.kind):
        raise CommandError(
            f"Change {change_id} is a different kind of change ({found.description}); "
            f"`pk undo {change_id}` undoes it."
        )
    return found
