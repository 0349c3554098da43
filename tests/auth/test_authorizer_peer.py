"""Our authorizer beside Apache Kafka's own, on random rules and questions."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from auth.acl_cases import case
from clients.apache_kafka import java_command

pytestmark = pytest.mark.peer

GOLDEN = Path(__file__).parents[1] / "golden" / "authorizer.json"


class Java:
    """Apache's authorizer, in a process that answers line by line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(str(Path(__file__).with_name("StandardAuthorizerAnswers.java"))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answers to one case."""
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


def test_every_answer_is_that_of_apaches_authorizer(java: Java) -> None:
    allowed, golden = 0, list[dict[str, Any]]()
    for seed in range(1500):
        asked = case(seed)
        expected, ours = java.ask(asked.as_json()), asked.answers()
        for kind in ("allows", "allows_any", "selected"):
            assert ours[kind] == expected[kind], f"seed {seed}, {kind}: {asked}"
        allowed += sum(ours["allows"])
        if seed < 20:
            golden.append({"case": asked.as_json(), "expected": expected})
    assert 5_000 < allowed < 55_000, "the cases hardly meet"
    if os.environ.get("PK_WRITE_GOLDEN"):
        lines = ",\n".join(json.dumps(g, separators=(",", ":")) for g in golden)
        GOLDEN.write_text(f"[\n{lines}\n]\n")
