"""docs/tiered.md: its commands, on a directory instead of S3, and the tables that it shows."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients.pk_broker import PkBroker

Run = Callable[..., Any]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tiered.md").read_text(encoding="utf-8")
URL = "s3://my-bucket/kafka"
WAIT_S = 60
SOON = {
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
}


def test_from_nothing_to_a_store_and_back(tmp_path: Path, pk: Run) -> None:
    start, create = re.findall(r"^(pk (?:up|topics create) .*)$", PAGE, re.MULTILINE)
    url = f"file://{tmp_path}/store"
    words = shlex.split(start.replace(URL, url))
    given = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    config = given | SOON
    with PkBroker(directory=tmp_path / "data", config=config) as broker:
        at = ("-b", broker.bootstrap)
        small = ("-c", "segment.bytes=1048576", "-p", "1")
        assert pk(*shlex.split(create)[1:], *small, *at).code == 0
        assert pk("produce", "orders", "--fake", "orders", "-n", "20000", *at).code == 0
        until = time.monotonic() + WAIT_S
        while (segments := len(pk("log", "remote", url, "-f", "json").json)) < 2:
            assert time.monotonic() < until, "nothing is copied"
        assert heads(pk("topics", "describe", "orders", *at).text) >= page_heads("REMOTE-START")
    with PkBroker(directory=tmp_path / "new", config=config) as broker:
        at = ("-b", broker.bootstrap)
        assert pk("cluster", "restore", "--dry-run", *at).code == 0
        restored = pk("cluster", "restore", "-y", *at)
        assert restored.code == 0, restored.err
        assert heads(restored.text) >= page_heads("FIRST-OFFSET")
        [row] = pk("topics", "describe", "orders", *at, "-f", "json").json
        assert row["topic"] == "orders" and segments >= 2


def heads(text: str) -> set[str]:
    """The titles of the columns of the tables in a text."""
    return {word for line in text.splitlines() if line.isupper() for word in line.split()}


def page_heads(title: str) -> set[str]:
    """The titles of the page's table that has this one."""
    [line] = [line for line in PAGE.splitlines() if line.isupper() and title in line.split()]
    return set(line.split())
