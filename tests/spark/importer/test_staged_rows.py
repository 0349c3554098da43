"""Rows of an import that are staged in files, because they are too many for a message."""

from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pk.spark.importer import task
from pk.spark.sink.messages import remove_staged
from pk.spark.sink.options import SinkOptions


def test_what_is_published_takes_only_its_own_file_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction publishes some of the staged rows while others wait."""
    monkeypatch.setattr(task, "ROWS_BYTES", 1)
    options = SinkOptions("127.0.0.1:1", {}, "orders", staging=str(tmp_path))
    portions = task.SealPortions(options, "id", {}, False, False, 1)
    batches = [pa.RecordBatch.from_pydict({"value": [b"x" * 100]}) for _ in range(3)]
    sealed = list(portions.seal(0, iter(batches), 0, lambda _: 1))
    places = [Path(each.message.staged) for each in sealed if each.message.staged is not None]
    assert len(places) == 3 and all(place.exists() for place in places)
    remove_staged([sealed[0].message], None)
    assert [place.exists() for place in places] == [False, True, True]
    remove_staged([each.message for each in sealed[1:]], None)
    assert list(tmp_path.iterdir()) == []
