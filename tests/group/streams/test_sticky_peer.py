"""The assignor `sticky` beside Apache Kafka's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from clients.apache_kafka import java_command
from group.streams.sticky_cases import ChangingGroup, printed, spec

from pk.core.group.streams.sticky import assign

pytestmark = pytest.mark.peer

GOLDEN = Path(__file__).parents[2] / "golden" / "sticky_assignments.json"


def test_every_assignment_comes_out_as_in_apache() -> None:
    golden: list[dict[str, Any]] = []
    with subprocess.Popen(
        java_command(str(Path(__file__).with_name("StickyAssignor.java"))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as java:
        assert java.stdin is not None and java.stdout is not None
        for seed in range(400):
            group = ChangingGroup(seed)
            for round_ in range(6):
                case = group.case()
                print(json.dumps(case), file=java.stdin, flush=True)
                expected = json.loads(java.stdout.readline())
                assert "error" not in expected, (seed, round_, expected)
                given = printed(assign(spec(case)))
                assert given == expected, f"seed {seed}, round {round_}: {json.dumps(case)}"
                if seed < 25 and round_ in (0, 2, 5):
                    golden.append(json.loads(json.dumps({"case": case, "expected": expected})))
                group.assigned(expected)
        java.stdin.close()
    if os.environ.get("PK_WRITE_GOLDEN"):
        lines = ",\n".join(json.dumps(g, separators=(",", ":")) for g in golden)
        GOLDEN.write_text(f"[\n{lines}\n]\n")
