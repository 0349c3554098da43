"""What was changed, and what changes it back: a file for each change, so that `pk undo` works on another day.

A command that changes something whose inverse it knows calls `remember` after the question and before the change: a
crash between the two leaves a file that undoes nothing, which is harmless, where the other order could leave a change
without one. It then says how to use it (`how_to_undo`). A change that was refused as a whole is taken back with
`forget`.

A file is JSON, for its owner's eyes only: `kind` (who knows what to do with `inverse`), the cluster, a sentence, the
inverse itself. Kinds are listed in `pk.cli.undo.undo`. An inverse says both what was before and what the change
made of it, so that an undo can tell that somebody else has changed it since.
"""

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pk.cli.runtime.exits import CommandError
from pk.cli.runtime.paths import make_user_dir, user_dir

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context
    from pk.net.client.admin import Admin

_KEEP = 500
"""Files kept; the oldest go first."""


class Change(NamedTuple):
    """A change that was made."""

    id: str
    kind: str
    cluster_id: str | None
    cluster: str
    """How the user had named the cluster."""

    description: str
    made_ms: int
    inverse: Mapping[str, Any]
    undone_ms: int | None = None
    """When it was undone; None while it is not."""

    undoes: str | None = None
    """The change that this one undid; None where it is no undoing."""


def _directory() -> str:
    return os.path.join(user_dir("state"), "undo")


def _path(change_id: str) -> str:
    return os.path.join(_directory(), f"{change_id}.json")


def _ids() -> list[int]:
    """The ids there are, oldest first."""
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
    """Keeps what undoes a change that is about to be made; returns its id. Raises OSError."""
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
            # Another pk may be after the same number: whoever makes the file has it.
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
        forget(str(number))  # half of it undoes nothing
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
    """Keeps what undoes a change that is about to be made, and returns its id for `how_to_undo`.

    Where the file cannot be written that is said, and None returned: the change was agreed to, and may be made.
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
    """The id of the cluster that `admin` talks to; None where the broker is too old to have one."""
    known = admin.cluster.metadata.cluster_id
    return known if known else (await admin.describe_cluster()).cluster_id


def how_to_undo(change_id: str) -> str:
    """The sentence that names the way back."""
    return f"To undo it: pk undo {change_id}"


def forget(change_id: str) -> None:
    """Drops a change that was not made after all."""
    try:
        os.unlink(_path(change_id))
    except OSError:
        return


def narrow(change_id: str, inverse: Mapping[str, Any]) -> None:
    """Replaces a change's inverse: by what undoes the part of it that was made.

    Quietly where that cannot be written: undoing the rest as well sets what is so already.
    """
    with contextlib.suppress(OSError):
        _rewrite(change_id, inverse=inverse)


def mark_undone(change_id: str, now_ms: int) -> None:
    """Notes that a change was undone. Raises OSError."""
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
        raise OSError(errno.EIO, f"it is not JSON any more: {e}", path) from None


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
    """The changes that were remembered, newest first. Files that cannot be read are passed over."""
    found = (_read(str(number)) for number in reversed(_ids()))
    return [change for change in found if change is not None]


def last(cluster_id: str | None, kind: str | None = None) -> Change:
    """The newest change of a cluster (and kind) that is not undone and no undoing itself. Raises CommandError.

    Undone again and again, it goes back step by step.
    """
    for change in history():
        open_ = change.undone_ms is None and change.undoes is None
        if open_ and change.cluster_id == cluster_id and kind in (None, change.kind):
            return change
    raise CommandError(
        "There is nothing to undo on this cluster; `pk history` shows what was changed."
    )


def find(change_id: str, kind: str | None = None) -> Change:
    """The change of that id, which must be of `kind` where one is named. Raises CommandError."""
    found = _read(change_id) if change_id.isascii() and change_id.isdigit() else None
    if found is None:
        raise CommandError(f"There is no change {change_id!r}; `pk history` shows which there are.")
    if kind not in (None, found.kind):
        raise CommandError(
            f"Change {change_id} is another kind of change ({found.description}); "
            f"`pk undo {change_id}` undoes it."
        )
    return found
