"""Apache's tools that run one after another in one JVM end as they end in JVMs of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clients.apache_kafka import available, free_ports, run_tool

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(available() is not None, reason="needs java and mvn"),
]

STORAGE = "kafka.tools.StorageTool"
TOPICS = "org.apache.kafka.tools.TopicCommand"


def test_a_tool_gets_its_own_output_and_code() -> None:
    made, refused, again = (
        run_tool(STORAGE, "random-uuid"), run_tool(TOPICS), run_tool(STORAGE, "random-uuid")
    )  # fmt: skip
    assert (made.returncode, made.stderr) == (again.returncode, again.stderr) == (0, "")
    assert len(made.stdout.split()) == len(again.stdout.split()) == 1 and made != again
    assert refused.returncode == 1 and "--bootstrap-server" in refused.stdout + refused.stderr


def test_what_a_tool_throws_is_the_end_of_its_jvm() -> None:
    ran = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", "/no/such/00.log")
    assert ran.returncode == 1
    assert 'Exception in thread "main" java.nio.file.NoSuchFileException' in ran.stderr


def test_arguments_and_output_are_utf_8(tmp_path: Path) -> None:
    words = ("format", "--config", f"{tmp_path}/schlüssel.properties", "--cluster-id", "x")
    assert "schlüssel" in run_tool(STORAGE, *words).stderr


def test_the_next_tool_runs_after_one_that_was_ended() -> None:
    (port,) = free_ports(1)
    with pytest.raises(subprocess.TimeoutExpired):
        run_tool(TOPICS, "--list", "--bootstrap-server", f"127.0.0.1:{port}", timeout=0.5)
    assert run_tool(STORAGE, "random-uuid").returncode == 0
