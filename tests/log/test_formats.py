"""Apache's own dump tool reads what we write, and finds nothing wrong."""

import re
from pathlib import Path

import pytest
from clients.apache_kafka import run_tool
from log.compaction.support import Write, compact, keyed, records_of
from log.support import NOW, append, end_transaction, make_batch, open_log

from pk.core.log.config import LogConfig
from pk.core.log.disk import RealDisk
from pk.core.log.log import Log
from pk.core.record.compress import Codec

pytestmark = pytest.mark.peer


def fill(log: Log) -> None:
    """Small and large batches, times that go back, an idempotent and a transactional producer,
    several epochs."""
    for i in range(300):
        times = [NOW + (i * 37) % 1000 + k for k in range(1 + i % 4)]
        append(
            log,
            make_batch(
                timestamps=times,
                size=(i * 97) % 900,
                producer_id=11,
                producer_epoch=0,
                sequence=log.state.producers.active()[0].last_sequence + 1 if i else 0,
            ),
            epoch=i // 100,
        )
        if i % 50 == 25:
            append(
                log,
                make_batch(producer_id=12, producer_epoch=0, sequence=i // 50, transactional=True),
                epoch=i // 100,
            )
        if i % 50 == 30:
            end_transaction(log, 12, commit=i % 100 == 30)
    append(
        log, make_batch(producer_id=13, producer_epoch=4, sequence=0, transactional=True), epoch=3
    )


def dump(files: list[Path]) -> dict[str, str]:
    """The tool's output for each file, by name."""
    ran = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--print-data-log",
        "--files",
        ",".join(map(str, files)),
    )
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout + ran.stderr
    for wrong in ("ismatch", "not found", "out of order", "Exception", "corrupt", "unparsed"):
        assert wrong not in said, said[-3000:]
    _, *sections = re.split(r"^Dumping (.+)$", ran.stdout, flags=re.MULTILINE)
    return {
        Path(name.strip()).name: text
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }


def indexed(file: Path, entry_bytes: int) -> int:
    """How many entries an index has, but for the empty ones at the end of one that grows."""
    content = file.read_bytes()
    if file.stat().st_size > 1 << 20:
        content = content.rstrip(b"\0")
    return -(-len(content) // entry_bytes)


@pytest.mark.parametrize("history", ["closed", "recovered", "truncated", "open"])
def test_apaches_dump_tool_reads_our_files(history: str, tmp_path: Path) -> None:
    path = f"{tmp_path}/t-0"
    config = LogConfig(segment_bytes=60_000, index_interval_bytes=1000)
    log = open_log(RealDisk(), path=path, config=config)
    fill(log)
    if history == "recovered":
        log = open_log(RealDisk(), path=path, config=config)
    elif history == "truncated":
        log.segments.truncate_to(log.state.log_end_offset // 2)
    if history == "open":
        log.durability.flush()
        assert log.state.segments[-1].index.file.size() == config.segment_index_bytes
    else:
        log.close()
    assert len(log.state.segments) > 2
    kinds = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    files = sorted(file for file in Path(path).iterdir() if file.suffix in kinds)
    reported = dump(files)
    assert reported.keys() == {file.name for file in files}
    batches: list[tuple[int, int]] = []
    for file in files:
        text, size = reported[file.name], file.stat().st_size
        if file.suffix == ".log":
            found = re.findall(
                r"^baseOffset: (\d+) lastOffset: (\d+) .*isvalid: true", text, re.MULTILINE
            )
            batches += [(int(base), int(last)) for base, last in found]
            assert "isvalid: false" not in text
        elif file.suffix == ".index":
            entries = re.findall(r"^offset: (\d+) position: (\d+)", text, re.MULTILINE)
            assert len(entries) == max(indexed(file, 8), 1), (
                "the tool makes an entry 0 for an empty index"
            )
        elif file.suffix == ".timeindex":
            entries = re.findall(r"^timestamp: (\d+) offset: (\d+)", text, re.MULTILINE)
            assert len(entries) == indexed(file, 12) > 0, (
                "a segment's latest time is its last entry"
            )
        elif file.suffix == ".txnindex":
            assert len(re.findall(r"^version: 0 producerId: 12 ", text, re.MULTILINE)) == size // 34
    assert batches == [
        (h.base_offset, h.last_offset) for s in log.state.segments for _, h in s.headers()
    ]
    if history == "open":
        log.close()
        return
    last = reported[f"{log.state.log_end_offset:020d}.snapshot"]
    producers = re.findall(r"^producerId: (\d+) producerEpoch: (\d+) ", last, re.MULTILINE)
    expected = sorted((p.producer_id, p.producer_epoch) for p in log.state.producers.active())
    assert sorted((int(i), int(e)) for i, e in producers) == expected


def test_apaches_dump_tool_reads_what_compaction_wrote(tmp_path: Path) -> None:
    path, disk = f"{tmp_path}/t-0", RealDisk()
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    log = open_log(disk, path=path, config=config)
    for i in range(600):
        writes = [
            Write(b"key-%d" % ((i * k) % 90), b"v" * 50 if i % 7 else None) for k in (1, 2, 5)
        ]
        append(log, keyed(writes, codec=Codec(i % 5), timestamp=NOW + i))
        if i % 50 == 10:
            who = {"producer_id": 12, "sequence": i // 50, "transactional": True}
            append(log, keyed([Write(b"key-1", b"undone")], timestamp=NOW + i, **who))
            end_transaction(log, 12, commit=i % 100 == 10)
    log.segments.roll(NOW)
    for later in (0, 500, 900):
        append(log, keyed([Write(b"last", b"%d" % later)]))
        log.segments.roll(NOW)
        assert compact(log, disk, now_ms=NOW + later)
    log.segments.remove_deleted()
    log.close()
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    reported = dump(sorted(file for file in Path(path).iterdir() if file.suffix in kinds))
    found = [
        (int(base), int(last))
        for name, text in reported.items()
        if name.endswith(".log")
        for base, last in re.findall(
            r"^baseOffset: (\d+) lastOffset: (\d+) .*isvalid: true", text, re.MULTILINE
        )
    ]
    assert found == [
        (h.base_offset, h.last_offset) for s in log.state.segments for _, h in s.headers()
    ]
    assert not any("isvalid: false" in text for text in reported.values())
    assert any("deleteHorizonMs: OptionalLong[" in text for text in reported.values())
    offsets = [
        int(offset)
        for name, text in reported.items()
        if name.endswith(".log")
        for offset in re.findall(r"^\| offset: (\d+) .* key: key-|last", text, re.MULTILINE)
        if offset
    ]
    log = open_log(
        disk, path=path, config=config, clean=True, recovery_point=log.durability.recovery_point
    )
    ours = [r.offset for r in records_of(log) if (r.key or b"").startswith(b"key-")]
    assert offsets == ours
