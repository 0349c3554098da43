"""Reads and writes Apache's reassignment JSON.

A plan is `{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…],"log_dirs":[…]}]}`. A
plan that pk saves has one more key, `pk`, which contains the plan's throttle. Apache's tool ignores
it.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from pk.cli.cluster.replicas import Replicas
from pk.cli.exits import Unusable
from pk.cli.phrases import partition_name
from pk.core.values import TopicPartition

ANY_DIR = "any"


class Assignments(NamedTuple):
    """The content of a plan."""

    replicas: dict[TopicPartition, Replicas]
    log_dirs: dict[tuple[TopicPartition, int], str]
    """(partition, broker) → the directory of its replica, if the file names one."""

    throttle: str | None = None
    """The --throttle with which the plan was saved."""


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
        raise Unusable(f"{path} has no assignments; it must be Apache's reassignment JSON.")
    return cast(dict[str, Any], data)


def assignments_of(data: Mapping[str, Any], path: str) -> Assignments:
    """The assignments in Apache's JSON. Raises Unusable."""
    if data.get("version", 1) != 1 or not isinstance(data.get("partitions"), list):
        raise Unusable(
            f'{path} has no assignments; it must be {{"version":1,"partitions":[{{"topic":…,'
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
                f"{path}: partition entry {number} needs topic, partition and replicas "
                "(and as many log_dirs)."
            ) from None
        if tp in found.replicas:
            raise Unusable(f"{path} names {partition_name(tp)} twice.")
        found.replicas[tp] = replicas
        for broker, directory in zip(replicas, dirs, strict=True):
            if directory != ANY_DIR:
                found.log_dirs[tp, broker] = directory
    return found


def _saved_throttle(data: Mapping[str, Any], path: str) -> str | None:
    """The throttle in a saved plan. Raises Unusable."""
    own = data.get("pk")
    plan = cast(dict[str, Any], own).get("plan") if isinstance(own, dict) else None
    found = cast(dict[str, Any], plan).get("throttle") if isinstance(plan, dict) else None
    if found is not None and not isinstance(found, str):
        raise Unusable(f'{path}: the throttle of a plan must be a string such as "50MB/s".')
    return found


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def apache_json(replicas: Mapping[TopicPartition, Replicas]) -> dict[str, Any]:
    """Apache's JSON, as `kafka-reassign-partitions --reassignment-json-file` expects it."""
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
    """A plan to save: Apache's JSON with the throttle."""
    data = apache_json(replicas)
    return data if throttle is None else data | {"pk": {"plan": {"throttle": throttle}}}
