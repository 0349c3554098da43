"""The same `pk` commands against pk's broker and Apache Kafka give the same JSON and exit codes.

Values that cannot be the same are masked (ids, times, addresses, wording after an error's name);
what else differs stands in DIFFERENCES with its reason, and a line there that no longer differs
fails too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import run_command, wait_for_slow_brokers

from clients.fixtures import Kafka, fresh_name

pytestmark = pytest.mark.peer

# Each step is a command line; @ stands for the prefix of this run's names.
STEPS: Mapping[str, str] = {
    "create": "topics create @a -p 3 -r 1 -c retention.ms=60000 -c cleanup.policy=compact",
    "create another": "topics create @b -p 1 -r 1",
    "create twice": "topics create @a -p 3 -r 1",
    "create if not exists": "topics create @a -p 3 -r 1 --if-not-exists",
    "create with a bad name": "topics create @bad!name -p 1 -r 1",
    "create with too many replicas": "topics create @c -p 1 -r 9",
    "create with no partitions": "topics create @c -p 0 -r 1",
    "create with an unknown key": "topics create @c -c nonsense=1",
    "create with a bad value": "topics create @c -c retention.ms=soon",
    "create dry": "topics create @dry -p 2 -r 1 --dry-run",
    "list": "topics list",
    "describe": "topics describe @a",
    "describe unknown": "topics describe @nope",
    "alter": "topics alter @a -c max.message.bytes=5000 -y",
    "grow": "topics add-partitions @a -p 5 -y",
    "shrink": "topics add-partitions @a -p 2 -y",
    "produce": "console-producer -t @b --property parse.key=true --property key.separator=:",
    "offsets": "topics offsets @b",
    "offsets of an empty topic": "topics offsets @a",
    "consume": "console-consumer -t @b --from-beginning -n 3",
    "consume the last": "console-consumer -t @b -o -1..end",
    "consume in a group": "console-consumer -t @b --from-beginning -n 2 -g @g",
    "list groups": "groups list",
    "describe group": "groups describe @g",
    "describe unknown group": "groups describe @nogroup",
    "reset dry": "groups reset-offsets @g -t @b --to-earliest --dry-run",
    "reset": "groups reset-offsets @g -t @b --to-earliest -y",
    "reset beyond the end": "groups reset-offsets @g -t @b --to-offset 99 -y",
    "reset to a time": "groups reset-offsets @g -t @b --to-datetime 2001-01-01T00:00:00 -y",
    "describe group after": "groups describe @g",
    "delete offsets": "groups delete-offsets @g -t @b -y",
    "configs of a topic": "configs describe topic @a",
    "all configs of a topic": "configs describe topic @b --all",
    "configs with documentation": "configs describe topic @b --all --docs --columns name,type",
    "all configs of the broker": "configs describe broker 1 --all",
    "alter a broker": "configs alter broker 1 -c log.cleaner.backoff.ms=14000 -y",
    "alter a broker's read-only key": "configs alter broker 1 -c log.dirs=/nowhere -y",
    "restore the broker": "configs alter broker 1 --delete log.cleaner.backoff.ms -y",
    "list configs": "configs list",
    "isr": "isr @a",
    "cluster": "cluster describe",
    "brokers": "brokers list",
    "partitions": "partitions list @a",
    "partitions by pattern": "partitions list @[ab]",
    "isr by health": "isr --under-replicated --offline --under-min-isr",
    "elect leaders": "partitions elect-leaders @a -y",
    "elect leaders unclean": "partitions elect-leaders @a --unclean -y",
    "plan to an unknown broker": "reassign plan -t @a --to 9",
    "plan with too many replicas": "reassign plan -t @a --rf 2",
    "plan for nothing": "reassign plan -t @a --to 1",
    "move to where it is": "reassign apply --set @b/0=1 -y",
    "what moves": "reassign status",
    "cancel what does not move": "reassign cancel @a/0 -y",
    "throttles": "reassign throttle",
    "throttle nothing": "reassign throttle 5MB/s -y",
    "delete group": "groups delete @g -y",
    "delete group twice": "groups delete @g -y",
    "delete": "topics delete @a @b -y",
    "delete unknown": "topics delete @nope -y",
}
STDIN = {"produce": "k1:v1\nk2:v2\nk3:v3\n"}

OWN_SETTING = "the starter of Apache Kafka sets it, and pk up has no such thing to set"
DIFFERENCES: Mapping[str, str] = {
    r"all configs of the broker/pk\..*": "keys of pk's own",
    r"all configs of the broker/unclean\.recovery\..*": "of KIP-966; 4.3.1 does not have them yet",
    r"all configs of the broker/(advertised\.)?listeners/.*": "addresses, and a controller's",
    r"all configs of the broker/(controller\..*|process\.roles|broker\.id)/.*": OWN_SETTING,
    r"all configs of the broker/listener\.security\.protocol\.map/.*": OWN_SETTING,
    r".*/log\.dirs/.*": "where data lies",
    r"create dry/.*/topic_id": "Apache names an id that no topic will have; pk names none",
}

MASKED_KEYS = {"topic_id", "cluster_id", "port", "timestamp", "target_time", "coordinator"}
MASKED_KEYS |= {"time_lag_ms"}
MASKED_KEYS |= {"log_bytes", "usable_bytes", "metadata_offset"}
# How many there are depends on what other tests left in the shared broker.
COUNTED = {"cluster": {"topics", "partitions", "leaders", "replicas"}}
COUNTED["brokers"] = COUNTED["cluster"]
COUNTED["plan for nothing"] = {
    f"{what}_{when}" for what in ("replicas", "leaders", "bytes") for when in ("before", "after")
}
NAMES = ("name", "topic", "group", "resource")


class Answer(NamedTuple):
    """The answer of a step, flattened to path → value."""

    exit_code: int
    values: dict[str, object]
    stderr: str


def _ask(kafka: Kafka, step: str, prefix: str, home: Path) -> Answer:
    words = STEPS[step].replace("@", prefix).split()
    if step != "produce":
        words += ["-f", "json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        wait_for_slow_brokers(patch)
        ran = run_command([*words, "-b", kafka.bootstrap], home, STDIN.get(step, "").encode())
    assert "Traceback" not in ran.err, ran.err
    answer = ran.json if ran.out.strip() else None
    return Answer(ran.code, dict(_flat(step, answer, step, prefix)), ran.err)


def _flat(path: str, value: Any, step: str, prefix: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in MASKED_KEYS or key in COUNTED.get(step, ()):
                yield f"{path}/{key}", "…" if inner is not None else None
            else:
                yield from _flat(f"{path}/{key}", inner, step, prefix)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            name = _name(inner)
            if name is not None and step.startswith("list") and not name.startswith(prefix):
                continue  # another test's
            yield from _flat(f"{path}/{name or number}", inner, step, prefix)
    elif isinstance(value, str):
        # Kafka's name of an error is the answer; the words behind it are each broker's own.
        yield path, re.sub(r"^([A-Z][A-Z_]{5,}): .*", r"\1", value, flags=re.DOTALL)
    else:
        yield path, value


def _name(entry: Any) -> str | None:
    """The name of a list's entry, so that a missing one does not shift all that follow."""
    if not isinstance(entry, dict):
        return None
    if "offset" in entry or "partition" in entry:
        return None
    if "name" in entry:
        return str(entry["name"])
    return next((str(entry[key]) for key in NAMES if key in entry), None)


@pytest.fixture(scope="module")
def answers(
    pk_kafka: Kafka, apache: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Answer, Answer]]:
    """Every step's two answers, pk's first. The steps build on one another."""
    prefix = fresh_name("same") + "-"
    home = tmp_path_factory.mktemp("home")
    return {
        step: (_ask(pk_kafka, step, prefix, home), _ask(apache, step, prefix, home))
        for step in STEPS
    }


@pytest.mark.parametrize("step", STEPS)
def test_same_answer(answers: dict[str, tuple[Answer, Answer]], step: str) -> None:
    ours, theirs = answers[step]
    assert ours.exit_code == theirs.exit_code, (ours.stderr, theirs.stderr)
    different = {
        path: (ours.values.get(path, "absent"), theirs.values.get(path, "absent"))
        for path in ours.values | theirs.values
        if ours.values.get(path, "absent") != theirs.values.get(path, "absent")
        and not any(re.fullmatch(pattern, path) for pattern in DIFFERENCES)
    }
    assert not different, (different, ours.stderr, theirs.stderr)


@pytest.mark.parametrize("pattern", DIFFERENCES)
def test_difference_is_still_there(answers: dict[str, tuple[Answer, Answer]], pattern: str) -> None:
    assert any(
        re.fullmatch(pattern, path) and ours.values.get(path, 0) != theirs.values.get(path, 0)
        for ours, theirs in answers.values()
        for path in ours.values | theirs.values
    )
