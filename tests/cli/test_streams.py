"""Standard streams as they are in scripts: closed, full, /dev/null, a directory."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import pk_command, pk_environment

Run = Callable[..., Any]
Fresh = Callable[[str], str]


def shell(
    kafka: Kafka, tmp_path: Path, words: tuple[str, ...], redirection: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a command in sh, with its streams redirected by `redirection`."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *pk_command(*words)],
        env=pk_environment() | {"HOME": str(tmp_path), "PK_BOOTSTRAP_SERVER": kafka.bootstrap},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_produce_takes_nothing_from_dev_null(
    at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    topic = fresh("nothing")
    at("topics", "create", topic)
    ran = shell(kafka, tmp_path, ("produce", topic), "</dev/null")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert at("produce", topic, "-F", os.devnull).code == 0
    wrong = at("produce", topic, "-F", str(tmp_path))
    assert (wrong.code, wrong.err) == (1, f"{tmp_path}: Is a directory.\n")


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_may_be_closed(
    at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path, redirection: str
) -> None:
    topic = fresh("closed")
    at("topics", "create", topic)
    ran = shell(kafka, tmp_path, ("topics", "list", "-f", "name"), redirection)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (topic in ran.stdout.split()) == (">&-" not in redirection.split()[:2])
    assert shell(kafka, tmp_path, ("topics", "--nonsense"), redirection).returncode == 2


def test_a_full_disk_is_said(kafka: Kafka, tmp_path: Path) -> None:
    for words in (("--version",), ("topics", "--help"), ("brokers", "list")):
        ran = shell(kafka, tmp_path, words, ">/dev/full")
        assert (ran.returncode, ran.stderr) == (1, "No space left on device.\n")
