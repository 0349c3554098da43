"""`pk log remote` reads the contents of a store without a broker."""

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


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "segments",
            "'segments' is not the URL of a store, such as s3://BUCKET/PREFIX or file:///",
        ),
        ("s3://", "'s3://' is not the URL of a store"),
        ("file://{}/absent", "{}/absent is not a directory."),
    ],
)
def test_what_is_no_store_is_called_that(tmp_path: Path, url: str, said: str) -> None:
    done = run_command(["log", "remote", url.format(tmp_path)], tmp_path)
    assert done.code == 1 and done.err.startswith(said.format(tmp_path)), done.err


def test_only_configs_of_remote_storage_are_taken(tmp_path: Path) -> None:
    done = run_command(["log", "remote", f"file://{tmp_path}", "-X", "region=eu"], tmp_path)
    assert done.code == 2
    assert done.err.startswith("-X takes only keys pk.remote.*, not region."), done.err


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


def test_cat_shows_the_records_as_from_the_files(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "data"
    log = a_log()
    copied = copy_all(log, ObjectStorage.open(f"file://{store}", {}))
    end = copied[-1].end_offset
    directory = folder / f"{log.state.tp.topic}-{log.state.tp.partition}"
    directory.mkdir(parents=True)
    for segment in log.state.segments:
        name = f"{segment.base_offset:020d}.log"
        (directory / name).write_bytes(segment.file.pread(segment.size, 0))
    url = f"file://{store}"
    for where in (f"start..{end + 1}", "7..30", "45", f"-20..{end + 1}"):
        begin, dots, rest = where.partition("..")
        until = f"{begin}..{rest}" if dots else f"{begin}..{end + 1}"
        if begin.startswith("-"):
            until = f"{end + 1 + int(begin)}..{rest}"
        ours = run_command(["log", "cat", url, "-o", where, "-f", "jsonl"], tmp_path)
        files = run_command(["log", "cat", str(directory), "-o", until, "-f", "jsonl"], tmp_path)
        assert ours.code == files.code == 0, (ours.err, files.err)
        assert ours.out == files.out and ours.lines
    committed = ["-o", f"start..{end + 1}", "--isolation-level", "read_committed", "-f", "jsonl"]
    assert len(run_command(["log", "cat", url, *committed], tmp_path).lines) > 10
    chosen = run_command(
        ["log", "cat", url, "-t", log.state.tp.topic, "-p", str(log.state.tp.partition), "-n", "3",
         "-f", "%o "], tmp_path
    )  # fmt: skip
    assert chosen.text.split() == ["0", "1", "2"]


def test_cat_refuses_what_the_store_has_not(store: Path) -> None:
    url = f"file://{store}"
    for words, why in (
        ([url, "-t", "absent"], "no topic absent"),
        ([url, "-p", "77"], "no partition 77"),
        ([f"{url}-absent"], ""),
        ([str(store), "-t", "t"], "for the URL of a store"),
        ([url, "-X", "log.dirs=/x"], "pk.remote."),
    ):
        done = run_command(["log", "cat", *words], store.parent)
        assert done.code != 0 and why in done.err, (words, done.err)


def test_other_keys_are_refused(store: Path) -> None:
    done = run_command(["log", "remote", f"file://{store}", "-X", "log.dirs=/x"], store.parent)
    assert done.code != 0 and "pk.remote." in done.err
