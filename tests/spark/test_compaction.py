"""Tables of Delta that are compacted: no row is lost or doubled, and no batch can come twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from pyarrow import parquet

from pk.spark.files.store import LocalStore
from pk.spark.pipeline.definition import DeltaSink, WrongPipeline, parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.tables import compaction
from pk.spark.tables.compaction import Compaction, compact_delta
from pk.spark.tables.lake_commit import LakeFile, delta_add, delta_last, read_footer
from pk.spark.tables.small_files import delta_small_files

ROWS = 100
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}],
    }
)
FILE = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
delta = "table"
compact = "1h"
"""


def add(folder: Path, batch: int, writer: str = "w", first: int | None = None) -> bool:
    """Adds a batch of a hundred numbers, in a folder of its own."""
    store, name = LocalStore(folder), f"pk-{writer}-{batch:010d}/a-{batch}.parquet"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    begin = batch * ROWS if first is None else first
    parquet.write_table(pa.table({"n": list(range(begin, begin + ROWS))}), folder / name)
    file = LakeFile(name, (folder / name).stat().st_size, read_footer(store, name))
    return delta_add(store, [file], SCHEMA, writer, batch)


def numbers(folder: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(folder).to_pyarrow_table()["n"].to_pylist())


def batches(count: int) -> list[int]:
    return list(range(count * ROWS))


def test_small_files_become_one_and_the_number_of_the_batch_stays(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "table")
    assert compact_delta(store) == (0, 0), "there is no table"
    assert delta_small_files(store) == 0
    for batch in range(6):
        assert add(tmp_path / "table", batch)
    assert delta_small_files(store) == 6
    assert compact_delta(store) == (6, 1)
    assert delta_small_files(store) == 1 and numbers(tmp_path / "table") == batches(6)
    assert delta_last(store, "w") == 5
    assert not add(tmp_path / "table", 5), "the batch came again"
    assert add(tmp_path / "table", 6) and numbers(tmp_path / "table") == batches(7)
    assert compact_delta(store) == (2, 1) and compact_delta(store) == (0, 0)


def test_files_that_no_reader_can_need_are_removed(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for batch in range(2):
        add(table, batch)
    stray, young = table / "pk-w-0000000009" / "stray.parquet", table / "young.parquet"
    stray.parent.mkdir()
    for file in (stray, young):
        file.write_bytes(b"of an attempt that was killed")
    week = time.time() - 8 * 86_400
    os.utime(stray, (week, week))
    before = numbers(table)
    assert compact_delta(LocalStore(table)).removed == 2
    assert not stray.exists() and young.exists()
    # The old files stay for readers of the version before.
    assert deltalake.DeltaTable(table, version=2).to_pyarrow_table().num_rows == len(before)
    assert numbers(table) == before


@pytest.mark.thorough
def test_another_writer_appends_while_it_is_compacted(tmp_path: Path) -> None:
    table, count = tmp_path / "table", 20
    add(table, 0)
    done = threading.Event()
    failed: list[BaseException] = []

    def append(numbers: Iterable[int]) -> None:
        try:
            for number in numbers:
                add(table, number, "other", first=number * ROWS)
        except BaseException as e:  # noqa: BLE001 (the test's own thread shows it)
            failed.append(e)
        finally:
            done.set()

    thread = threading.Thread(target=append, args=(range(1, count),))
    thread.start()
    while not done.is_set():
        compact_delta(LocalStore(table))
    thread.join()
    assert not failed
    assert numbers(table) == batches(count)
    assert delta_last(LocalStore(table), "other") == count - 1


def test_a_compaction_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table"
    code = (
        "import sys; from pk.spark.files.store import LocalStore;"
        " from pk.spark.tables.compaction import compact_delta; from pathlib import Path;"
        " store = LocalStore(Path(sys.argv[1])); print('ready', flush=True);"
        " compact_delta(store); print('done', flush=True)"
    )
    for attempt in range(4):
        add(table, attempt)
        words = [sys.executable, "-c", code, str(table)]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=environ) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            time.sleep(attempt * 0.01)  # somewhere in its work
            process.send_signal(signal.SIGKILL)
        assert numbers(table) == batches(attempt + 1)
    compact_delta(LocalStore(table))
    assert numbers(table) == batches(4) and delta_small_files(LocalStore(table)) == 1


def test_a_sink_compacts_once_a_period_over_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = parse_pipeline(FILE, str(tmp_path / "p.toml"))
    places, said = Places(pipeline), list[str]()
    [sink] = pipeline.sinks
    assert isinstance(sink, DeltaSink) and sink.compact_s == 3600
    remembered = places.compacted(sink.name)
    now = 1_000_000.0
    monkeypatch.setattr(compaction.time, "time", lambda: now)
    table = tmp_path / "table"

    def after_batches(*numbers: int) -> list[str]:
        said.clear()
        store = places.store(sink.delta)
        started = Compaction(sink.name, store, remembered, 3_600, said.append)
        for number in numbers:
            add(table, number)
            started.after_batch()
        return said.copy()

    assert after_batches(0, 1) == []
    now += 3_599
    assert after_batches(2) == []
    now += 1
    assert after_batches(3, 4) == ["orders: 4 files of the table were compacted to 1."]
    now += 3_599
    assert after_batches(5) == []
    # A failure is said, and does not end the pipeline.
    now += 1

    def refuse(store: object) -> None:
        raise OSError("the disk\nis full")

    monkeypatch.setattr(compaction, "compact_delta", refuse)
    assert after_batches(6, 7) == [
        "orders: the table was not compacted: the disk is full. Writing continues."
    ]


@pytest.mark.parametrize(
    ("sink", "compact", "said"),
    [
        ('delta = "t"', "soon", "compact must look like 500ms, 10s or 5m, not 'soon'"),
        ('delta = "t"', "0s", "compact must look like 500ms, 10s or 5m, not '0s'"),
        ('parquet = "t"', "1h", "compact is for delta sinks: a directory has no step"),
        (
            'iceberg = "a.b"\ncatalog = { uri = "sqlite:///c.db", warehouse = "w" }',
            "1h",
            "compact is for delta sinks: pyiceberg cannot rewrite files",
        ),
    ],
)
def test_what_cannot_be_compacted_is_refused(sink: str, compact: str, said: str) -> None:
    text = FILE.replace('delta = "table"', sink).replace('"1h"', f'"{compact}"')
    with pytest.raises(WrongPipeline, match=said):
        parse_pipeline(text, "p.toml")
