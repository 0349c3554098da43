"""Our assignors beside Java's own."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.apache_kafka import java_command
from net_client.assignment.cases import Group, run, subscription

from pk.core.group.consumer_protocol import encode_assignment, encode_subscription
from pk.core.values import TopicPartition
from pk.net.client.assignment.assignors import ASSIGNORS

pytestmark = pytest.mark.peer

GOLDEN = Path(__file__).parents[2] / "golden" / "assignors.json"


class Java:
    """Java's assignors, in a process that answers line by line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(str(Path(__file__).with_name("Assignors.java"))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to one case."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    java = Java()
    yield java
    java.close()


def test_every_rebalance_comes_out_as_in_java(java: Java) -> None:
    golden: list[dict[str, Any]] = []
    for seed in range(400):
        group = Group(seed)
        for round_ in range(5):
            case = group.case()
            expected = java.ask(case)
            assert "error" not in expected, (seed, round_, case, expected)
            assert run(case) == expected, f"seed {seed}, rebalance {round_}: {json.dumps(case)}"
            if seed < 40 and round_ in (0, 3):
                golden.append({"case": case, "expected": expected})
            group.assigned(expected)
    if os.environ.get("PK_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        lines = ",\n".join(json.dumps(g, separators=(",", ":"), sort_keys=False) for g in golden)
        GOLDEN.write_text(f"[\n{lines}\n]\n")


def test_a_large_group_comes_out_as_in_java(java: Java) -> None:
    chance = random.Random(1)
    topics = {f"topic-{i}": [["a"], ["b"]] * 10 for i in range(20)}
    for assignor in ASSIGNORS:
        members = {
            f"m-{chance.getrandbits(64):x}": {
                "topics": chance.sample(list(topics), 5),
                "user_data": None,
                "owned": [],
                "generation": -1,
                "rack": chance.choice("ab"),
                "instance": None,
            }
            for _ in range(60)
        }
        case = {"assignor": assignor, "topics": topics, "members": members}
        assert run(case) == java.ask(case), assignor


def test_what_members_say_is_written_as_java_writes_it(java: Java) -> None:
    chance = random.Random(2)
    for _ in range(100):
        topics = [f"{chance.choice('abcXYZ')}{chance.randint(0, 50)}" for _ in range(40)]
        said = {
            "topics": chance.sample(sorted(set(topics)), 3),
            "user_data": chance.choice((None, "", "AAEC")),
            "owned": [
                list(p)
                for p in {
                    (chance.choice(topics), chance.randint(0, 9))
                    for _ in range(chance.randint(0, 40))
                }
            ],
            "generation": chance.choice((-1, 0, 7)),
            "rack": chance.choice((None, "a")),
            "instance": None,
        }
        expected = java.ask({"encode": said})
        ours = subscription(said)
        text = {
            "subscription": encode_subscription(ours),
            "assignment": encode_assignment([TopicPartition(*p) for p in said["owned"]]),
            **{
                name: ASSIGNORS[name].user_data(ours.owned, ours.generation)
                for name in ("range", "sticky", "cooperative-sticky")
            },
        }
        assert {
            k: None if v is None else base64.b64encode(v).decode() for k, v in text.items()
        } == expected
