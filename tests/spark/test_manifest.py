"""The files that count in an export's directory, regardless of earlier runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pk.spark.errors import DirectoryRefused
from pk.spark.export.manifest import (
    LOCK,
    MANIFEST,
    UNFINISHED,
    ExportedRange,
    Manifest,
    Run,
    name_of_range,
    open_directory,
)


def a_manifest(*names: str) -> Manifest:
    ranges = tuple(ExportedRange(0, i, i + 1, 1, name, 4) for i, name in enumerate(names))
    return Manifest(
        topic="orders",
        topic_id="4S-K2a9bTDeJy7Pg-rvZcw",
        key="bytes",
        value="json",
        columns={"type": "struct", "fields": []},
        partitions={0: (0, len(names)), 12: (7, 7)},
        runs=(Run("00000001", 1_700_000_000_000, ranges),),
    )


def a_name(index: int, run_id: str = "00000001") -> str:
    return f"{name_of_range('orders', 0, index, index + 1, run_id)}-3-0.parquet"


def commit(path: Path, *names: str) -> None:
    with open_directory(path) as directory, directory.unfinished("00000001") as run:
        for name in names:
            run.files.write(name, b"data")
        run.commit(a_manifest(*names), dict.fromkeys(names, 4))


def contents(path: Path) -> set[str]:
    return set(os.listdir(path)) - {LOCK}


def test_a_manifest_reads_as_it_was_written() -> None:
    manifest = a_manifest(a_name(0), a_name(1))
    assert Manifest.load(manifest.dump()) == manifest
    assert manifest.records == 2


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 2}', '{"format": 1}', "[]", '{"format":1,"runs":3}']
)
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(DirectoryRefused, match="cannot be read"), open_directory(tmp_path):
        pass
    assert (tmp_path / MANIFEST).read_text() == text


def test_commit_moves_files_in_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "not" / "yet"
    commit(path, a_name(0), a_name(1))
    assert contents(path) == {MANIFEST, a_name(0), a_name(1)}
    with open_directory(path) as directory:
        assert directory.manifest == a_manifest(a_name(0), a_name(1))


def test_what_died_before_the_manifest_does_not_count_and_is_removed(tmp_path: Path) -> None:
    commit(tmp_path, a_name(0))
    (tmp_path / f"{UNFINISHED}00000002" / "data").mkdir(parents=True)
    (tmp_path / f"{UNFINISHED}00000002" / "data" / "part-0").write_text("half")
    (tmp_path / a_name(1, "00000002")).write_text("moved, but not in the manifest")
    (tmp_path / f"{MANIFEST}.new").write_text("half a man")
    with open_directory(tmp_path) as directory:
        directory.clean()
        assert directory.manifest == a_manifest(a_name(0))
    assert contents(tmp_path) == {MANIFEST, a_name(0), f"{MANIFEST}.new"}
    commit(tmp_path, a_name(0))
    assert contents(tmp_path) == {MANIFEST, a_name(0)}


def test_a_manifest_that_lists_less_removes_the_rest(tmp_path: Path) -> None:
    commit(tmp_path, a_name(0), a_name(1))
    commit(tmp_path, a_name(5))
    assert contents(tmp_path) == {MANIFEST, a_name(5)}


def test_strangers_are_refused_and_left_alone(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv", "d.csv", "part-00000.parquet"):
        (tmp_path / name).write_text(name)
    before = set(os.listdir(tmp_path))
    refusal = "a.csv, b.csv, c.csv and 2 more"
    with pytest.raises(DirectoryRefused, match=refusal), open_directory(tmp_path):
        pass
    assert set(os.listdir(tmp_path)) == before


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(DirectoryRefused, match="is a file"), open_directory(tmp_path / "f"):
        pass


def test_a_run_that_fails_leaves_no_directory_behind(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with (
        pytest.raises(KeyError),
        open_directory(path) as directory,
        directory.unfinished("00000001") as run,
    ):
        run.files.write(a_name(0), b"data")
        raise KeyError
    assert not (tmp_path / "a").exists()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from pk.spark.export.manifest import open_directory\n"
        "with open_directory(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(DirectoryRefused, match="is running"), open_directory(tmp_path, 0.1):
            pass
        holder.kill()
    with open_directory(tmp_path) as directory:
        assert directory.manifest is None


def test_a_manifest_of_an_earlier_format_is_read() -> None:
    said = json.loads(a_manifest(a_name(0)).dump())
    for name in ("export_id", "partition_by", "table", "table_name"):
        del said[name]
    second = Manifest.load(json.dumps(said | {"format": 2}))
    assert second == a_manifest(a_name(0))
    for name in ("isolation", "cluster_id", "leader_epochs"):
        del said[name]
    assert Manifest.load(json.dumps(said | {"format": 1})) == second
    with pytest.raises(ValueError, match="it has format 4; this version reads 1 to 3"):
        Manifest.load(json.dumps(said | {"format": 4}))


def test_files_in_directories_by_value_are_part_of_the_export(tmp_path: Path) -> None:
    first, second = f"date=2026-01-01/{a_name(0)}", f"date=2026-01-02/hour=7/{a_name(1)}"
    commit(tmp_path, first, second)
    assert (tmp_path / first).exists() and (tmp_path / second).exists()
    left = tmp_path / f"date=2026-01-03/hour=0/{a_name(2, '00000002')}"
    left.parent.mkdir(parents=True)
    left.touch()
    with open_directory(tmp_path) as directory:
        directory.clean()
    assert contents(tmp_path) == {MANIFEST, "date=2026-01-01", "date=2026-01-02"}
    commit(tmp_path, first)
    assert contents(tmp_path) == {MANIFEST, "date=2026-01-01"}
    (tmp_path / "date=2026-01-01" / "notes.txt").touch()
    refusal = r"date=2026-01-01/notes\.txt"
    with pytest.raises(DirectoryRefused, match=refusal), open_directory(tmp_path):
        pass
