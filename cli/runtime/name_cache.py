"""The names of a cluster (topics, groups, brokers, partitions) that were seen recently. They are
kept on disk, so that completion never has to ask a broker and works while the cluster is down.

There is a file for each cluster (by its bootstrap address) and kind, so that completion reads no
more than it needs. Each command that lists names leaves them here, and
`pk.cli.command_line.completion.name_refresh` fetches all of them in a separate process. If a file
is lost or broken, completion only has fewer candidates.

Names come with a meaning, which a shell shows beside them: a topic's number of partitions, a
group's state, a broker's address. Partitions are not kept by name: a topic's meaning says how many
it has.
"""

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pk.cli.runtime.paths import make_user_dir, user_dir

if TYPE_CHECKING:
    from pk.net.client.results import MemberDescription

_NAMES_MAX = 50_000


def _file(directory: str, bootstrap: str, kind: str) -> str:
    return os.path.join(directory, f"names-{zlib.crc32(bootstrap.encode()):08x}-{kind}.json")


def _load(bootstrap: str, kind: str) -> dict[str, Any]:
    try:
        with open(_file(user_dir("cache"), bootstrap, kind), encoding="utf-8") as file:
            data = json.load(file)
        found: object = data["names"] if data["of"] == bootstrap else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _save(bootstrap: str, kind: str, names: Mapping[str, Any]) -> None:
    try:
        path = _file(make_user_dir("cache"), bootstrap, kind)
        scratch = f"{path}.{os.getpid()}"
        with open(scratch, "w", encoding="utf-8") as file:
            json.dump({"of": bootstrap, "names": names}, file, separators=(",", ":"))
        os.replace(scratch, path)
    except (OSError, UnicodeError):
        return


def recall(bootstrap: str, kind: str) -> list[str]:
    """The names of `kind` that were last seen in the cluster at `bootstrap`."""
    return list(recall_meanings(bootstrap, kind))


def recall_meanings(bootstrap: str, kind: str) -> dict[str, str]:
    """The names of `kind` with their meanings; a meaning is empty if unknown."""
    return {name: str(meaning) for name, meaning in _load(bootstrap, kind).items()}


def recall_configs(bootstrap: str) -> dict[str, dict[str, str]]:
    """Topic → the configs that were set on it when last seen."""
    return {t: c for t, c in _load(bootstrap, "configs").items() if isinstance(c, dict)}


def partition_count(meaning: str) -> int:
    """The number of partitions of a topic with this meaning; 0 if unknown."""
    number, _, _ = meaning.partition(" ")
    return int(number) if number.isascii() and number.isdigit() else 0


def partitions_meaning(number: int) -> str:
    """The meaning of a topic with `number` partitions."""
    return f"{number} partition{'' if number == 1 else 's'}"


def remember(bootstrap: str, kind: str, names: Iterable[str] | Mapping[str, str]) -> None:
    """Keep `names` for completion, instead of the known ones. Does nothing if the file cannot be
    written.

    Names without a meaning keep the one they had. Partitions (`topic/0`) are added to the known
    ones of their topics.
    """
    if kind == "partition":
        _remember_partitions(bootstrap, names)
        return
    known = _load(bootstrap, kind)
    meanings: dict[str, str] = (
        dict(cast(Mapping[str, str], names)) if isinstance(names, Mapping) else {}
    )
    kept: list[str] = sorted(cast(Iterable[str], names))[:_NAMES_MAX]
    wanted = {name: meanings.get(name) or known.get(name, "") for name in kept}
    if known != wanted:
        _save(bootstrap, kind, wanted)


def _remember_partitions(bootstrap: str, names: Iterable[str]) -> None:
    known = _load(bootstrap, "topic")
    counts: dict[str, int] = {}
    for name in names:
        topic, _, number = name.rpartition("/")
        if topic and number.isascii() and number.isdigit():
            counts[topic] = max(counts.get(topic, 0), int(number) + 1)
    wanted = dict(known)
    for topic, number in counts.items():
        if partition_count(str(known.get(topic, ""))) < number:
            wanted[topic] = partitions_meaning(number)
    if wanted != known:
        _save(bootstrap, "topic", dict(sorted(wanted.items())))


def remember_members(bootstrap: str, group: str, members: "Iterable[MemberDescription]") -> None:
    """Keep the members of a group, instead of the known ones: the id of each, its instance id, and
    its host."""
    mark = members_mark(group)
    lists: dict[str, dict[str, str]] = {"member": {}, "instance": {}}
    for member in members:
        where = f"{mark}{member.client_id} at {member.client_host.removeprefix('/')}"
        lists["member"][member.member_id] = where
        if member.instance_id:
            lists["instance"][member.instance_id] = where
    for kind, names in lists.items():
        known = _load(bootstrap, kind)
        others = {n: m for n, m in known.items() if not str(m).startswith(mark)}
        wanted = {**others, **names}
        if wanted != known and len(wanted) <= _NAMES_MAX:
            _save(bootstrap, kind, wanted)


def members_mark(group: str) -> str:
    """The beginning of the meaning of a member of this group."""
    return f"{group}: "


def remember_configs(bootstrap: str, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Keep the configs set on topics; completion shows them beside the keys."""
    if _load(bootstrap, "configs") != configs:
        _save(bootstrap, "configs", configs)
