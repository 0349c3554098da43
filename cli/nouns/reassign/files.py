"""The files and words of `pk reassign`: Apache's JSON both ways, rollback files, rates, `orders/0=1,2,3`.

A plan is Apache's JSON: `{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…],"log_dirs":[…]}]}`. A rollback
file is the same with one more key, `pk`, which Apache's tool ignores: whose cluster it is of, what was asked for, and
which throttles were set for it, written before they are. So one file undoes a reassignment and tells a later command what
a crash left behind. In a saved plan, `pk` holds the throttle that the plan was made with, for `apply` to use.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pk.cli.cluster.leftover_throttles import MARK
from pk.cli.nouns.reassign.plan import Replicas
from pk.cli.output.formats import show_bytes
from pk.cli.runtime.context import place_name
from pk.cli.runtime.exits import CommandError, Unusable
from pk.cli.runtime.paths import make_user_dir, user_dir
from pk.core.values import TopicPartition

ANY_DIR = "any"
_KEEP_FILES = 50
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?(?:/s|ps)?", re.IGNORECASE)
_BITS = re.compile(r"[KMGT]i?b(/s|ps)?$|[kmgt]i?bps$|bits?(/s|ps)?$")
"""`50Mb/s` and `50mbps` are megabits to whoever sells networks, and eight times what was meant otherwise."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12} | {
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


def parse_rate(text: str, option: str) -> int:
    """Bytes a second from `50MB/s`, `50M`, `64MiB/s`, `1.5G`, or a bare number of bytes, as Apache's. Raises Unusable."""
    if _BITS.search(text.strip()):
        raise Unusable(f"{option}: {text!r} may mean bits; 50MB/s and 50M are bytes a second.")
    found = _RATE.fullmatch(text.strip())
    rate = round(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if rate < 1:
        raise Unusable(
            f"{option} wants bytes a second such as 50MB/s, 64MiB/s or 50000000, not {text!r}."
        )
    return rate


def show_rate(rate: float) -> str:
    return f"{show_bytes(rate)}/s"


def parse_partition(text: str, option: str) -> TopicPartition:
    """`orders/0` or `orders:0`. Raises Unusable."""
    topic, _, number = text.replace(":", "/").rpartition("/")
    if not topic or not number.isdecimal():
        raise Unusable(f"{option} wants a partition such as orders/0, not {text!r}.")
    return TopicPartition(topic, int(number))


def parse_brokers(words: Iterable[str], option: str) -> tuple[int, ...]:
    """Broker ids from `4,5`. Raises Unusable."""
    found = []
    for word in words:
        if not word.isdecimal():
            raise Unusable(f"{option} wants broker ids such as 4,5,6, not {word!r}.")
        found.append(int(word))
    return tuple(dict.fromkeys(found))


def parse_sets(texts: Iterable[str]) -> dict[TopicPartition, Replicas]:
    """Assignments from `orders/0=1,2,3`. Raises Unusable."""
    found: dict[TopicPartition, Replicas] = {}
    for text in texts:
        name, _, brokers = text.partition("=")
        tp = parse_partition(name, "--set")
        if tp in found:
            raise Unusable(f"--set names {place_name(tp)} twice.")
        words = [w.strip() for w in brokers.split(",") if w.strip()]
        replicas = tuple(int(w) for w in words if w.isdecimal())
        if not replicas or len(replicas) < len(words):
            raise Unusable(f"--set wants PARTITION=BROKERS such as orders/0=1,2,3, not {text!r}.")
        found[tp] = replicas
    return found


class Assignments(NamedTuple):
    """What a file asks for."""

    replicas: dict[TopicPartition, Replicas]
    log_dirs: dict[tuple[TopicPartition, int], str]
    """(partition, broker) → the directory of its replica, where the file names one."""

    throttle: str | None = None
    """The --throttle that the plan was saved with."""


def read_json(path: str) -> dict[str, Any]:
    """The JSON object in a file, or on standard input for `-`. Raises Unusable."""
    try:
        if path == "-":
            data = json.loads(sys.stdin.read())
        else:
            with open(os.path.expanduser(path), encoding="utf-8") as file:
                data = json.load(file)
    except OSError as e:
        raise Unusable(f"{path} cannot be read: {e.strerror}.") from None
    except ValueError as e:
        raise Unusable(f"{path} is not JSON: {e}.") from None
    if not isinstance(data, dict):
        raise Unusable(f"{path} holds no assignments; it is Apache's reassignment JSON.")
    return data


def assignments_of(data: Mapping[str, Any], path: str) -> Assignments:
    """The assignments in Apache's JSON. Raises Unusable."""
    if data.get("version", 1) != 1 or not isinstance(data.get("partitions"), list):
        raise Unusable(
            f'{path} holds no assignments; it is {{"version":1,"partitions":[{{"topic":…,'
            '"partition":…,"replicas":[…]}]}.'
        )
    found = Assignments({}, {}, _saved_throttle(data, path))
    for number, entry in enumerate(data["partitions"]):
        try:
            tp = TopicPartition(str(entry["topic"]), _whole(entry["partition"]))
            replicas = tuple(_whole(b) for b in entry["replicas"])
            dirs = [str(d) for d in entry.get("log_dirs") or [ANY_DIR] * len(replicas)]
            if len(dirs) != len(replicas):
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Unusable(
                f"{path}: partition entry {number} wants topic, partition and replicas "
                "(and as many log_dirs)."
            ) from None
        if tp in found.replicas:
            raise Unusable(f"{path} names {place_name(tp)} twice.")
        found.replicas[tp] = replicas
        for broker, directory in zip(replicas, dirs, strict=True):
            if directory != ANY_DIR:
                found.log_dirs[tp, broker] = directory
    return found


def _saved_throttle(data: Mapping[str, Any], path: str) -> str | None:
    """The throttle in a saved plan. Raises Unusable."""
    own = data.get("pk")
    plan = own.get("plan") if isinstance(own, dict) else None
    found = plan.get("throttle") if isinstance(plan, dict) else None
    if found is not None and not isinstance(found, str):
        raise Unusable(f'{path}: the throttle of a plan must be a string such as "50MB/s".')
    return found


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def apache_json(replicas: Mapping[TopicPartition, Replicas]) -> dict[str, Any]:
    """Apache's JSON, as `kafka-reassign-partitions --reassignment-json-file` takes it."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "replicas": list(brokers),
                "log_dirs": [ANY_DIR] * len(brokers),
            }
            for tp, brokers in sorted(replicas.items())
        ],
    }


def plan_json(replicas: Mapping[TopicPartition, Replicas], throttle: str | None) -> dict[str, Any]:
    """A plan to save: Apache's JSON, with the throttle to apply it with."""
    data = apache_json(replicas)
    return data if throttle is None else data | {"pk": {"plan": {"throttle": throttle}}}


class Throttled(NamedTuple):
    """Throttles that were set for a reassignment, and what stood there before."""

    rate: int | None = None
    brokers: Mapping[int, Mapping[str, str | None]] = {}
    """Broker → key → the value it had of its own; None where it had none."""

    topics: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    """Topic → key → the `partition:broker` entries that were added."""

    @property
    def any(self) -> bool:
        return bool(self.brokers or self.topics)


class Rollback(NamedTuple):
    """A rollback file: where everything was, where it was to go, which throttles were set for it."""

    path: str
    cluster_id: str | None
    created_ms: int
    before: Mapping[TopicPartition, Replicas]
    after: Mapping[TopicPartition, Replicas]
    throttled: Throttled = Throttled()
    finished: str | None = None
    """How it ended (`done`, `cancelled`, …); None while nobody has seen its end."""

    @property
    def name(self) -> str:
        return os.path.basename(self.path).removesuffix(".json")


def _directory() -> str:
    return os.path.join(user_dir("state"), "reassign")


def new_path(stamp_ms: int) -> str:
    """A name for a rollback file. Raises CommandError where its directory cannot be made."""
    try:
        directory = os.path.join(make_user_dir("state"), "reassign")
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as e:
        raise CommandError(f"{e.filename} cannot be made: {e.strerror}.") from None
    return os.path.join(directory, f"reassign-{stamp_ms}-{os.getpid()}.json")


def write(rollback: Rollback) -> None:
    """Writes a rollback file so that a crash leaves the old one or the new one. Raises CommandError."""
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
    """Keeps the mark by which other commands find out that a throttle may be left (`pk.cli.cluster.leftover_throttles`)."""
    mark = f"{rollback.path}{MARK}"
    if rollback.throttled.any:
        with open(mark, "w", encoding="utf-8"):
            return
    with suppress(FileNotFoundError):
        os.unlink(mark)


def read(path: str) -> Rollback:
    """A rollback file, or plain Apache JSON taken for one. Raises Unusable."""
    data = read_json(path)
    before = assignments_of(data, path).replicas
    own = data.get("pk") or {}
    try:
        throttle = own.get("throttle") or {}
        return Rollback(
            os.path.abspath(os.path.expanduser(path)),
            own.get("cluster_id"),
            int(own.get("created_ms", 0)),
            before,
            assignments_of({"partitions": own.get("target", [])}, path).replicas,
            Throttled(
                throttle.get("rate"),
                {int(b): dict(keys) for b, keys in throttle.get("brokers", {}).items()},
                {
                    t: {k: tuple(v) for k, v in keys.items()}
                    for t, keys in throttle.get("topics", {}).items()
                },
            ),
            own.get("finished"),
        )
    except (AttributeError, TypeError, ValueError):
        raise Unusable(f"{path} is no rollback file of pk.") from None


def rollbacks(cluster_id: str | None) -> list[Rollback]:
    """The rollback files of a cluster, the newest first; those that cannot be read are passed over."""
    try:
        names = sorted(os.listdir(_directory()), reverse=True)
    except OSError:
        return []
    found = []
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
    """The rollback file that a path or a name means. Raises Unusable."""
    if not os.path.sep in word and not os.path.exists(os.path.expanduser(word)):
        inside = os.path.join(_directory(), f"{word.removesuffix('.json')}.json")
        if os.path.exists(inside):
            word = inside
    rollback = read(word)
    if rollback.cluster_id not in (None, cluster_id):
        raise Unusable(
            f"{word} is of another cluster ({rollback.cluster_id}; this one is {cluster_id})."
        )
    return rollback


def tidy(cluster_id: str | None) -> None:
    """Removes the oldest rollback files of a cluster beyond those worth keeping; never one that is not finished, or that
    knows of a throttle that is still set."""
    for old in rollbacks(cluster_id)[_KEEP_FILES:]:
        if old.finished is not None and not old.throttled.any:
            try:
                os.unlink(old.path)
            except OSError:
                return
