"""docs/maintenance.md: its commands run, and a broker restored from a copy of its files is the same
broker."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.pk_broker import PkBroker

Run = Callable[..., Any]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "maintenance.md").read_text(encoding="utf-8")
UPGRADE, BACKUP = (
    [line.removeprefix("$ ") for line in block.splitlines()]
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
)


def test_the_commands_run(tmp_path: Path, pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with PkBroker(directory=tmp_path / "data") as broker:
        at = ("-b", broker.bootstrap)
        assert pk("topics", "create", "orders", "-p", "2", *at).code == 0
        assert pk("produce", "orders", "--fake", "orders", "-n", "50", *at).code == 0
        for line in UPGRADE:
            _, *words = shlex.split(line)
            assert pk(*words, *at).code == 0, line
        named = re.search(r"`pk (cp [^`]*)`", PAGE)
        assert named is not None
        copied = pk(*shlex.split(named[1]), "--once", "-y", *at)
        assert copied.code == 0, copied.err
        assert broker.stop() == 0
    copy, verify, up = BACKUP
    assert copy == "cp -a data backup"
    shutil.copytree("data", "backup")
    ran = pk(*shlex.split(verify)[1:])
    assert ran.code == 0, ran.err
    assert up == "pk up --data backup --port 0"
    with PkBroker(directory=tmp_path / "backup") as broker:
        for topic in ("orders", "orders-copy"):
            words = ("topics", "offsets", topic, "-f", "{offsets}\\n", "-b", broker.bootstrap)
            assert sum(map(int, pk(*words).out.split())) == 50, topic
