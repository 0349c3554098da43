"""`pk log remote`: what is in a store, from the store alone."""

from itertools import pairwise
from pathlib import Path

import pytest
from commands import run_command
from log.remote.copies import a_log, copy_all

from pk.core.log.remote.object_storage import ObjectStorage


@pytest.fixture
def store(tmp_path: Path) -> Path:
    copy_all(a_log(), ObjectStorage.open(f"file://{tmp_path}/store", {}))
    return tmp_path / "store"


def objects(store: Path) -> list[Path]:
    return sorted(store.rglob("*.segment"))


def test_lists_the_segments(store: Path) -> None:
    done = run_command(["log", "remote", f"file://{store}", "-f", "json"], store.parent)
    assert done.code == 0, done.err
    rows = done.json
    assert len(rows) == len(objects(store)) > 3
    for before, after in pairwise(rows):
        assert before["end_offset"] + 1 == after["start_offset"]
    assert {row["problem"] for row in rows} == {""}


def test_verify_finds_a_damaged_record(store: Path) -> None:
    assert run_command(["log", "remote", f"file://{store}", "--verify"], store.parent).code == 0
    damaged = objects(store)[1]
    content = bytearray(damaged.read_bytes())
    content[100] ^= 1
    damaged.write_bytes(content)
    assert run_command(["log", "remote", f"file://{store}"], store.parent).code == 0, (
        "it reads no records"
    )
    done = run_command(["log", "remote", f"file://{store}", "--verify"], store.parent)
    assert done.code == 1 and "CRC" in done.text
    assert "1 finding" in done.err


def test_part_of_an_object_and_a_stray_one_are_findings(store: Path) -> None:
    cut = objects(store)[0]
    cut.write_bytes(cut.read_bytes()[:-1])
    (store / "stray").write_bytes(b"x")
    done = run_command(["log", "remote", f"file://{store}", "-f", "json"], store.parent)
    assert done.code == 1
    assert sum(bool(row["problem"]) for row in done.json) == 2
    done = run_command(
        ["log", "remote", f"file://{store}", "-t", "absent", "-f", "json"], store.parent
    )
    assert done.code == 0 and done.json == []


def test_other_keys_are_refused(store: Path) -> None:
    done = run_command(["log", "remote", f"file://{store}", "-X", "log.dirs=/x"], store.parent)
    assert done.code != 0 and "pk.remote." in done.err
