"""The tasks' messages to the driver: in the message or in a file, with a limit for all tasks
together."""

from __future__ import annotations

from pathlib import Path

import pytest

from pk.core.record.batch import CorruptBatch
from pk.core.record.build import build_batch
from pk.spark.sink.messages import (
    INLINE_BYTES,
    SealedMessage,
    StagingFailed,
    collect,
    inline_limit,
    remove_staged,
)
from pk.spark.sink.seal import Sealed


@pytest.mark.parametrize("tasks", [1, 10, 300, 20_000])
@pytest.mark.parametrize(
    ("text", "size"),
    [(None, 1 << 30), ("", 1 << 30), ("0", 1 << 30), ("100m", 100 << 20), ("5000000", 5_000_000)],
)
def test_all_messages_together_stay_below_the_drivers_limit(
    tasks: int, text: str | None, size: int
) -> None:
    limits = [inline_limit(task, text) for task in range(tasks)]
    assert max(limits) <= INLINE_BYTES
    assert sum(limits) <= size * 0.6
    assert limits == sorted(limits, reverse=True)


def sealed(partition: int, *values: bytes) -> Sealed:
    data = bytearray()
    for value in values:
        data += build_batch([(5, b"k", value, ())])
    return Sealed("t", partition, len(values), data)


def contents(message: SealedMessage) -> list[bytes]:
    return [bytes(b) for section in message.sections for b in message.batches(section)]


@pytest.mark.parametrize("limit", [0, 150, 10_000])
def test_what_is_staged_is_what_was_sealed(tmp_path: Path, limit: int) -> None:
    parts = [sealed(n % 3, b"%d" % n, b"x" * n) for n in range(10)]
    message = collect(parts, limit=limit, place=str(tmp_path), name="query/7/0-a", query_id="query")
    assert (message.staged is None) == (limit == 10_000)
    assert b"".join(contents(message)) == b"".join(bytes(p.data) for p in parts)
    assert message.records == 20


def test_staged_files_go_with_their_batch_and_those_before(tmp_path: Path) -> None:
    def stage(batch: int, name: str) -> SealedMessage:
        where = f"query/{batch}/{name}"
        return collect(
            [sealed(0, b"x")], limit=0, place=str(tmp_path), name=where, query_id="query"
        )

    lost, mine, later = stage(4, "lost"), stage(5, "mine"), stage(6, "later")
    remove_staged([mine, None], None, 5)
    assert [p.name for p in (tmp_path / "query").iterdir()] == ["6"]
    with pytest.raises(StagingFailed, match="stagingLocation must name a place"):
        contents(lost)
    assert contents(later)
    remove_staged([later], f"{tmp_path}/query")
    assert not (tmp_path / "query").exists()
    remove_staged([later], f"{tmp_path}/query")


def test_a_file_that_is_cut_or_changed_is_found(tmp_path: Path) -> None:
    message = collect(
        [sealed(0, b"x" * 50)], limit=0, place=str(tmp_path), name="q/0/a", query_id="q"
    )
    path = tmp_path / "q" / "0" / "a"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(StagingFailed, match="shorter"):
        contents(message)
    path.write_bytes(whole[:-5] + b"?" + whole[-4:])
    with pytest.raises(CorruptBatch):
        contents(message)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (str(tmp_path / "file"), "nonsense://x"):
        with pytest.raises(StagingFailed, match="stag"):
            collect([sealed(0, b"x")], limit=0, place=place, name="q/0/a", query_id="q")
