"""Our server-side assignors and subscription hashes beside Apache Kafka's own."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.apache_kafka import java_command
from group.consumer.server_cases import ASSIGNORS, ChangingGroup, printed, spec

from pk.core.group.metadata_hash import group_hash, topic_hash
from pk.core.values import uuid_from_text, uuid_text

pytestmark = pytest.mark.peer

GOLDEN = Path(__file__).parents[2] / "golden" / "server_assignors.json"


class Java:
    """Apache's assignors, in a process that answers line by line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(str(Path(__file__).with_name("ServerAssignors.java"))),
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


def test_every_target_assignment_comes_out_as_in_apache(java: Java) -> None:
    golden: list[dict[str, Any]] = []
    for seed in range(500):
        group = ChangingGroup(seed)
        for round_ in range(5):
            case = group.case()
            answer = java.ask(case)
            assert "error" not in answer, (seed, round_, case, answer)
            expected = {m: given for m, given in answer.items() if given}
            ours = printed(ASSIGNORS[case["assignor"]].assign(spec(case)))
            assert ours == expected, f"seed {seed}, round {round_}: {json.dumps(case)}"
            if seed < 40 and round_ in (0, 3):
                golden.append({"case": case, "expected": expected})
            group.assigned(expected)
    if os.environ.get("PK_WRITE_GOLDEN"):
        lines = ",\n".join(json.dumps(g, separators=(",", ":")) for g in golden)
        GOLDEN.write_text(f"[\n{lines}\n]\n")


def test_hashes_of_what_a_group_reads_are_those_of_apache(java: Java) -> None:
    chance = random.Random(5)
    for _ in range(200):
        topics = {
            f"t{'ä' * chance.randint(0, 2)}-{i}{'x' * chance.randint(0, 200)}": {
                "id": uuid_text(chance.randbytes(16)),
                "racks": [
                    [chance.choice(("a", "rack-ü", "b")) for _ in range(chance.randint(0, 3))]
                    for _ in range(chance.randint(1, 40))
                ],
            }
            for i in range(chance.randint(0, 5))
        }
        expected = java.ask({"hash": topics})
        hashes = {
            name: topic_hash(name, uuid_from_text(topic["id"]), topic["racks"])
            for name, topic in topics.items()
        }
        assert hashes == expected["topics"]
        assert group_hash(hashes) == expected["group"]
