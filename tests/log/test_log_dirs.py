"""Log directories: whose they are, what they hold, how they were left."""

import errno
import itertools
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log.cutting import CuttingDisk, PowerCut
from log.support import NOW, append, end_transaction, make_batch
from sim.disk import SimDisk

from pk.core.log import checkpoints, closed_logs
from pk.core.log.checkpoints import MetaProperties
from pk.core.log.config import LogConfig
from pk.core.log.disk import Disk, MemoryDisk, RealDisk
from pk.core.log.failures import (
    LogDirBroken,
    LogDirInUse,
    LogDirIsApache,
    LogDirMismatch,
    StorageError,
)
from pk.core.log.files import Entry
from pk.core.log.log_dir import cluster_of
from pk.core.log.log_dirs import LogDirs
from pk.core.log.txnindex_sizes import NOTE
from pk.core.values import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("my-topic", 12)
ID_A, ID_B = b"a" * 16, b"b" * 16
CONFIG = LogConfig()


def open_dirs(
    disk: Disk,
    *paths: str,
    cluster_id: str = "cluster",
    node_id: int = 1,
    holder: str = "process 4711",
) -> LogDirs:
    ids = itertools.count(1)
    return LogDirs.open(
        disk,
        paths or ("/data",),
        cluster_id=cluster_id,
        node_id=node_id,
        holder=holder,
        new_id=lambda: next(ids).to_bytes(16),
    )


@pytest.mark.parametrize("harm", ["removed", "emptied", "cut", "none"])
def test_an_index_of_aborts_that_goes_while_no_broker_runs_is_missed(harm: str) -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    dirs.open_log(B, ID_B, CONFIG, NOW)
    for i in range(3):
        append(log, make_batch(producer_id=5, sequence=i, transactional=True, producer_epoch=0))
        end_transaction(log, 5, commit=False)
    log.segments.roll(NOW)
    append(log)
    dirs.close({})
    path = f"/data/a-0/{0:020d}.txnindex"
    if harm == "removed":
        disk.remove(path)
    elif harm != "none":
        disk.open(path).truncate(0 if harm == "emptied" else disk.open(path).size() // 3)
    for _ in range(2):  # the rewritten files stay
        dirs = open_dirs(disk)
        assert not disk.exists(f"/data/{NOTE}"), "it is true of logs that are closed"
        log = dirs.open_log(A, ID_A, CONFIG, NOW)
        assert log.state.segments[0].txn_index.lost == (harm != "none")
        found = log.reader.aborted_transactions(
            0, log.reader.read(0, 1 << 20, log.state.log_end_offset)
        )
        assert [(a.first_offset, a.last_offset) for a in found] == [(0, 1), (2, 3), (4, 5)]
        dirs.close({})
        harm = "none"


def test_a_note_of_aborts_that_cannot_be_read_is_none() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    append(dirs.open_log(A, ID_A, CONFIG, NOW))
    dirs.close({})
    assert not disk.exists(f"/data/{NOTE}"), "there is nothing to note"
    disk.write(f"/data/{NOTE}", b"what is this")
    dirs = open_dirs(disk)
    assert (
        dirs.directories[0].clean and dirs.open_log(A, ID_A, CONFIG, NOW).state.log_end_offset == 1
    )


def test_several_threads_that_write_a_checkpoint_take_turns(tmp_path: Path) -> None:
    """Followers of several leaders do this if their logs are truncated at the same time."""
    dirs = open_dirs(RealDisk(), str(tmp_path))
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    log.durability.flush()

    def write(_: int) -> None:
        for _ in range(4):
            dirs.write_recovery_points()
            dirs.write_log_start_offsets()
            dirs.write_high_watermarks({A: 1})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    written = (tmp_path / "recovery-point-offset-checkpoint").read_bytes()
    assert written == b"0\n1\na 0 1\n"
    dirs.close({})


def test_a_clean_restart_finds_everything_again() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    for _ in range(5):
        append(log)
    log.segments.delete_before(2)
    dirs.open_log(B, ID_B, CONFIG, NOW)
    dirs.close({A: 4}, broker_epoch=77)
    assert disk.read("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":77}'
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n2\na 0 5\nmy-topic 12 0\n"
    assert disk.read("/data/log-start-offset-checkpoint") == b"0\n1\na 0 2\n"
    assert disk.read("/data/replication-offset-checkpoint") == b"0\n1\na 0 4\n"
    assert disk.read("/data/a-0/partition.metadata") == (
        b"version: 0\ntopic_id: YWFhYWFhYWFhYWFhYWFhYQ\n"
    )
    dirs = open_dirs(disk)
    assert dirs.clean_broker_epoch == 77
    assert not disk.exists("/data/.kafka_cleanshutdown"), "a crash from now on is one"
    assert dirs.found().keys() == {A, B}
    assert dirs.high_watermark(A) == 4
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    assert (
        log.state.log_start_offset,
        log.state.log_end_offset,
        log.durability.recovery_point,
    ) == (2, 5, 5)
    assert log.recovered is None
    assert dirs.find(A) is log and log.log_dir is dirs.directories[0]


def test_after_a_crash_logs_are_checked_from_the_recovery_point() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    log.durability.flush()
    dirs.write_recovery_points()
    append(log)
    disk.crash(30)
    dirs = open_dirs(disk)
    assert dirs.clean_broker_epoch == -1
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    assert log.state.log_end_offset == 1
    assert log.recovered is not None and log.recovered.bytes_cut == 30


@pytest.mark.parametrize("name", ["recovery-point-offset", "cleaner-offset"])
def test_a_checkpoint_that_could_not_be_written_is_written_later(name: str) -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    log.durability.flush()
    log.segments.first_dirty_offset = 1
    disk.fail_next("write", errno.ENOSPC, suffix=f"{name}-checkpoint.tmp")
    with pytest.raises(StorageError):
        dirs.write_recovery_points()
    said = (dirs.directories[0].recovery_points, dirs.directories[0].cleaner_offsets)
    assert any(A not in offsets for offsets in said), "what is not on the disk is not said to be"
    dirs.write_recovery_points()
    assert said == ({A: 1}, {A: 1})
    assert disk.read(f"/data/{name}-checkpoint") == b"0\n1\na 0 1\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_that_refuses_a_checkpoint_leaves_the_former_one(code: int) -> None:
    """So retention, which makes room, does not take the directory offline for it (seed 963153 of
    the simulator); a disk that fails is another matter."""
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    for _ in range(3):
        append(log)
    log.segments.delete_before(1)
    dirs.write_log_start_offsets()
    before = disk.read("/data/log-start-offset-checkpoint")
    log.segments.delete_before(2)
    disk.fail_next("write", code, suffix="log-start-offset-checkpoint.tmp")
    with pytest.raises(StorageError) as raised:
        dirs.directories[0].write_log_start_offsets()
    assert raised.value.undone == (code == errno.ENOSPC)
    assert disk.read("/data/log-start-offset-checkpoint") == before


@pytest.mark.parametrize("restart", [False, True])
def test_a_log_that_is_made_again_under_its_name_is_not_taken_for_the_former(restart: bool) -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    for _ in range(9):
        append(log)
    log.segments.delete_before(8)
    log.durability.flush()
    log.segments.first_dirty_offset = 8
    dirs.write_recovery_points()
    dirs.write_log_start_offsets()
    dirs.write_high_watermarks({A: 9})
    dirs.delete_log(log)
    if restart:
        disk.crash(names="kept")
        dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_B, CONFIG, NOW)
    append(log)
    log.durability.flush()
    disk.crash(names="kept")
    dirs = open_dirs(disk)
    again = dirs.open_log(A, ID_B, CONFIG, NOW)
    assert (again.state.log_start_offset, again.state.log_end_offset) == (0, 1)
    assert dirs.high_watermark(A) is None and again.segments.first_dirty_offset is None


def test_a_log_whose_end_is_lost_below_its_start_begins_there() -> None:
    """If the power fails during that correction, the next start completes it."""
    done, left = False, -1
    while not done:
        left += 1
        disk = CuttingDisk()
        disk.make("/data")
        disk.sync_dir("")
        dirs = open_dirs(disk)
        log = dirs.open_log(A, ID_A, CONFIG, NOW)
        append(log, make_batch(producer_id=1, producer_epoch=0, sequence=0))
        log.segments.roll(NOW)
        append(log, epoch=3)
        log.durability.flush()
        for _ in range(4):
            append(log, epoch=4)
        log.segments.delete_before(5)
        dirs.write_recovery_points()
        dirs.write_log_start_offsets()
        disk.crash(names="lost" if left % 2 else "kept")
        dirs = open_dirs(disk)
        disk.left = left
        try:
            dirs.open_log(A, ID_A, CONFIG, NOW)
            done = True
        except PowerCut:
            done = False
        disk.left = None
        disk.crash(names="lost" if left % 3 else "kept")
        dirs = open_dirs(disk)
        log = dirs.open_log(A, ID_A, CONFIG, NOW)
        assert (log.state.log_start_offset, log.state.log_end_offset) == (5, 5)
        assert log.state.epochs.entries in ([], [(3, 5)])  # as retention would leave them
        assert not log.state.producers.active()
        files = [name for name in disk.list(f"/data/{A}") if name[0].isdigit()]
        assert {name[:20] for name in files} == {f"{5:020d}"}
        assert not [name for name in files if name.endswith(".deleted")]
        assert append(log, epoch=7).base_offset == 5
        log.durability.flush()
        dirs.write_recovery_points()
        disk.crash()
        again = open_dirs(disk).open_log(A, ID_A, CONFIG, NOW)
        assert (again.state.log_start_offset, again.state.log_end_offset) == (5, 6)
        assert again.state.epochs.latest == 7
    assert left > 5


def test_a_flushed_log_survives_with_its_name_and_id() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    log.durability.flush()
    disk.crash()
    dirs = open_dirs(disk)
    assert dirs.open_log(A, ID_A, CONFIG, NOW).state.log_end_offset == 1
    assert checkpoints.parse_partition_metadata(disk.read("/data/a-0/partition.metadata")) == ID_A


@pytest.mark.parametrize("kind", ["real", "memory"])
def test_a_second_broker_learns_who_holds_the_directory(kind: str, tmp_path: Path) -> None:
    disk: Disk = RealDisk() if kind == "real" else MemoryDisk()
    root = str(tmp_path) if kind == "real" else "/data"
    dirs = open_dirs(disk, root)
    with pytest.raises(LogDirInUse, match="process 4711 holds .lock in it"):
        open_dirs(disk, f"{root}-other", root, holder="process 2")
    dirs.close({})
    open_dirs(disk, f"{root}-other", root).close({})


@pytest.mark.parametrize("name", ["__cluster_metadata-0/x", "quorum-state"])
def test_apaches_directory_is_refused_with_the_way_in(name: str) -> None:
    disk = MemoryDisk()
    disk.make(f"/data/{name}".rpartition("/")[0])
    disk.write(f"/data/{name}", b"")
    with pytest.raises(LogDirIsApache, match="pk log adopt /data"):
        open_dirs(disk)


def test_the_directory_of_another_is_refused() -> None:
    disk = MemoryDisk()
    open_dirs(disk).close({})
    assert cluster_of(disk, ["/none", "/data"]) == "cluster"
    assert cluster_of(disk, ["/none"]) is None
    with pytest.raises(LogDirMismatch, match="cluster cluster, this is cluster other"):
        open_dirs(disk, cluster_id="other")
    with pytest.raises(LogDirMismatch, match="node 1, this is node 2"):
        open_dirs(disk, node_id=2)
    open_dirs(disk).close({})


@pytest.mark.parametrize(
    "content", [b"", b"version=0\nbroker.id=1\ncluster.id=x\n", b"version=1\nnode.id=1\n"]
)
def test_meta_properties_that_are_not_understood_are_refused(content: bytes) -> None:
    disk = MemoryDisk()
    disk.make("/data")
    disk.write("/data/meta.properties", content)
    with pytest.raises(LogDirBroken, match="meta.properties cannot be understood"):
        open_dirs(disk)


def test_meta_properties_as_apache_writes_them() -> None:
    text = (
        b"#\n#Fri Nov 21 02:00:00 UTC 2026\ncluster.id=kMzUzWQvS3aM6CbpZmpdcA\nversion=1\n"
        b"directory.id=SQ8FEGwFTnOMcqeZJJRo1g\nnode.id=3\n"
    )
    meta = MetaProperties.parse(text)
    assert (meta.cluster_id, meta.node_id) == ("kMzUzWQvS3aM6CbpZmpdcA", 3)
    assert MetaProperties.parse(meta.format()) == meta
    odd = meta._replace(cluster_id="a:b=c\\d#e")
    assert MetaProperties.parse(odd.format()) == odd


def test_a_deleted_log_is_renamed_then_removed() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    dirs.write_recovery_points()
    in_flight = log.state.segments[0].file
    path = dirs.delete_log(log)
    assert path.startswith("/data/a-0.") and path.endswith("-delete")
    assert dirs.find(A) is None
    assert in_flight.pread(10, 0), "a reader in flight goes on"
    log.durability.flush()
    dirs.write_recovery_points()
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n0\n"
    again = dirs.open_log(A, ID_B, CONFIG, NOW)
    assert again.state.log_end_offset == 0
    dirs.remove_deleted(path)
    assert not disk.exists(path)


def test_deletions_that_a_crash_left_are_known() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    path = dirs.delete_log(dirs.open_log(A, ID_A, CONFIG, NOW))
    disk.crash(names="kept")
    dirs = open_dirs(disk)
    assert dirs.directories[0].deleted == [path]
    assert dirs.found() == {}
    dirs.remove_deleted(path)
    assert not disk.exists(path)


def test_a_topic_that_was_made_again_does_not_get_the_old_log() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    append(dirs.open_log(A, ID_A, CONFIG, NOW))
    dirs.close({A: 1})
    dirs = open_dirs(disk)
    log = dirs.open_log(A, ID_B, CONFIG, NOW)
    assert (log.state.log_end_offset, log.durability.recovery_point) == (0, 0)
    assert [n for n in disk.list("/data") if n.endswith("-stray")]


class UnevenDisk(MemoryDisk):
    """The names in /old reach the disk when they change, those in /new when they are synced. The
    power is cut after the change of a name with `cut_at` in it, if that is given."""

    cut_at = ""

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        if new.startswith("/old/"):
            self.sync_dir("/old")
        if self.cut_at and new.endswith(self.cut_at):
            self.crash()
            raise PowerCut


@pytest.mark.parametrize("cut_at", ["/new/a-0", "-delete", "/new/recovery-point-offset-checkpoint"])
def test_a_power_cut_while_a_log_takes_anothers_place_leaves_one_of_them(cut_at: str) -> None:
    disk = UnevenDisk()
    disk.make("/old")
    disk.make("/new")
    disk.sync_dir("")
    dirs = open_dirs(disk, "/old", "/new")
    dirs.set_preferred_dir(A, dirs.directories[0])
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    for _ in range(10):
        append(log)
    log.durability.flush()
    future = dirs.open_future(log, dirs.directories[1], NOW)
    future.appender.append_as_follower(log.reader.read_bytes(0, 1 << 20, 10), NOW)
    future.durability.flush()
    disk.cut_at = cut_at
    with pytest.raises(PowerCut):
        dirs.promote(future, log)
        dirs.finish_promotion(future, log)
        dirs.rename_replaced(log)
    disk.cut_at = ""
    dirs = open_dirs(disk, "/old", "/new")
    assert dirs.open_log(A, ID_A, CONFIG, NOW).state.log_end_offset == 10


def test_what_is_synced_in_a_log_that_took_anothers_place_survives_a_power_cut() -> None:
    disk = MemoryDisk()
    disk.make("/old")
    disk.make("/new")
    disk.sync_dir("")
    dirs = open_dirs(disk, "/old", "/new")
    dirs.set_preferred_dir(A, dirs.directories[0])
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    log.durability.created = True
    log.durability.flush()
    future = dirs.open_future(log, dirs.directories[1], NOW)
    future.appender.append_as_follower(log.reader.read_bytes(0, 1 << 20, 1), NOW)
    future.durability.flush()
    dirs.promote(future, log)
    append(future)
    future.durability.flush()
    disk.crash()
    dirs = open_dirs(disk, "/old", "/new")
    assert dirs.open_log(A, ID_A, CONFIG, NOW).state.log_end_offset == 2


def test_a_new_log_is_not_made_of_one_that_moved_and_still_lies_there() -> None:
    dirs = open_dirs(MemoryDisk(), "/old", "/new")
    old, new = dirs.directories
    dirs.set_preferred_dir(A, old)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    future = dirs.open_future(log, new, NOW)
    future.appender.append_as_follower(log.reader.read_bytes(0, 1 << 20, 1), NOW)
    dirs.promote(future, log)
    dirs.delete_log(future)
    dirs.set_preferred_dir(A, old)
    again = dirs.open_log(A, ID_B, CONFIG, NOW)
    assert (again.log_dir, again.state.log_end_offset) == (new, 0)


def test_logs_of_no_topic_are_renamed_to_stray() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    for tp, topic_id in ((A, ID_A), (B, ID_B)):
        dirs.open_log(tp, topic_id, CONFIG, NOW)
    dirs.close({})
    dirs = open_dirs(disk)
    renamed = dirs.rename_strays({A})
    assert len(renamed) == 1 and renamed[0].startswith("/data/my-topic-12.")
    assert dirs.found().keys() == {A}


def test_a_long_topic_name_is_cut_when_its_log_is_renamed() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    tp = TopicPartition("x" * 249, 7)
    path = dirs.delete_log(dirs.open_log(tp, ID_A, CONFIG, NOW))
    assert len(path.rpartition("/")[2]) == 255


def test_new_logs_go_where_there_are_fewest() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk, "/one", "/two")
    for i in range(6):
        dirs.open_log(TopicPartition("t", i), ID_A, CONFIG, NOW)
    assert [len(d.logs) for d in dirs.directories] == [3, 3]
    ids = {d.directory_id for d in dirs.directories}
    dirs.close({})
    assert {d.directory_id for d in open_dirs(disk, "/one", "/two").directories} == ids


def test_one_directory_may_fail_at_start_but_not_all() -> None:
    disk = MemoryDisk()
    disk.fail_next("make", errno.EIO, suffix="/bad")
    dirs = open_dirs(disk, "/bad", "/good")
    assert [d.failed for d in dirs.directories] == [True, False]
    assert dirs.open_log(A, ID_A, CONFIG, NOW).state.directory == "/good/a-0"
    dirs.close({})
    disk.fail_next("make", errno.EIO, times=2)
    with pytest.raises(LogDirBroken, match="No log directory can be used"):
        open_dirs(disk, "/bad", "/good")


def test_a_directory_that_failed_is_not_marked_clean() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk, "/one", "/two")
    one = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(dirs.open_log(B, ID_B, CONFIG, NOW))
    append(one)
    disk.fail_next("sync", errno.EIO, suffix="/a-0/00000000000000000000.log")
    dirs.close({})
    assert not disk.exists("/one/.kafka_cleanshutdown")
    assert disk.exists("/two/.kafka_cleanshutdown")
    again = open_dirs(disk, "/one", "/two")
    assert again.clean_broker_epoch == -1
    assert [d.clean for d in again.directories] == [False, True]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_log_that_cannot_be_closed_leaves_its_directory_unclean(code: int) -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk, "/one", "/two")
    append(dirs.open_log(A, ID_A, CONFIG, NOW))
    append(dirs.open_log(B, ID_B, CONFIG, NOW))
    disk.fail_next("write", code, suffix=f"/a-0/{1:020d}.snapshot.tmp")
    dirs.close({})
    assert not disk.exists("/one/.kafka_cleanshutdown")
    assert disk.exists("/two/.kafka_cleanshutdown")


def open_with_records(disk: MemoryDisk) -> LogDirs:
    """Two directories, with two logs in the first: one with records in two segments, one with a
    single record."""
    dirs = open_dirs(disk, "/one", "/two")
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    append(log)
    append(log)
    log.segments.roll(NOW)
    append(log)
    dirs.set_preferred_dir(B, dirs.directories[0])
    append(dirs.open_log(B, ID_B, CONFIG, NOW))
    return dirs


def contents(disk: MemoryDisk, path: str = "") -> dict[str, bytes]:
    """All files except the note of closed logs, which contains times."""
    found: dict[str, bytes] = {}
    for name, entry in disk.list(path).items():
        if name == closed_logs.NOTE:
            continue
        below = f"{path}/{name}"
        found |= contents(disk, below) if entry.is_directory else {below: disk.read(below)}
    return found


def test_logs_that_are_synced_together_are_closed_as_one_by_one() -> None:
    alone, together = MemoryDisk(), MemoryDisk()
    open_with_records(alone).close({A: 3}, 7)
    dirs = open_with_records(together)
    together.fail_next("sync", suffix=".log")
    together.fail_next("sync", suffix=".snapshot")
    dirs.close({A: 3}, 7, sync_all_from=2)
    assert len(together.faults) == 2, "no log was synced by itself"
    together.heal()
    together.crash(names="lost")
    assert contents(together) == contents(alone)
    again = open_dirs(together, "/one", "/two")
    assert [d.clean for d in again.directories] == [True, True]
    log = again.open_log(A, ID_A, CONFIG, NOW)
    assert (log.state.log_end_offset, log.durability.recovery_point) == (3, 3)


def test_fewer_logs_are_synced_by_themselves() -> None:
    disk = MemoryDisk()
    dirs = open_with_records(disk)
    disk.fail_next("sync_all")
    dirs.close({}, sync_all_from=3)
    assert len(disk.faults) == 1
    disk.crash(names="lost")
    assert open_dirs(disk, "/one", "/two").directories[0].clean


@pytest.mark.parametrize("failed", ["first", "second", "both", "cannot"])
def test_where_not_all_can_be_synced_together_each_log_is_synced(
    failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, disk = MemoryDisk(), MemoryDisk()
    open_with_records(alone).close({A: 3}, 7)
    dirs = open_with_records(disk)
    if failed == "cannot":

        def cannot(paths: object) -> bool:
            return False

        monkeypatch.setattr(disk, "sync_all", cannot)
    elif failed == "second":
        sync_all = disk.sync_all

        def once(paths: Sequence[str]) -> bool:
            disk.fail_next("sync_all", errno.EIO)
            monkeypatch.setattr(disk, "sync_all", sync_all)
            disk.faults, due = [], disk.faults
            done = sync_all(paths)
            disk.faults = due
            return done

        monkeypatch.setattr(disk, "sync_all", once)
    else:
        disk.fail_next("sync_all", errno.EIO, times=1 if failed == "first" else 2)
    dirs.close({A: 3}, 7, threads=2, sync_all_from=2)
    disk.heal()
    disk.crash(names="lost")
    assert contents(disk) == contents(alone)
    assert open_dirs(disk, "/one", "/two").directories[0].clean


def test_few_logs_to_sync_among_many_are_synced_by_themselves() -> None:
    alone, disk = MemoryDisk(), MemoryDisk()
    third = TopicPartition("third", 0)
    for each, sync_all_from in ((alone, 99), (disk, 3)):
        dirs = open_dirs(each, "/one", "/two")
        dirs.set_preferred_dir(third, dirs.directories[0])
        dirs.open_log(third, ID_A, CONFIG, NOW)
        dirs.close({})
        dirs = open_dirs(each, "/one", "/two")
        for tp, topic_id in ((A, ID_A), (B, ID_B), (third, ID_A)):
            dirs.set_preferred_dir(tp, dirs.directories[0])
            log = dirs.open_log(tp, topic_id, CONFIG, NOW)
            if tp != third:
                append(log)
        dirs.close({}, sync_all_from=sync_all_from)
        each.crash(names="lost")
    assert contents(disk) == contents(alone)


@pytest.mark.parametrize("syncs", [0, 1])
def test_a_crash_while_logs_are_closed_together_finds_the_old_epochs_or_the_new(
    syncs: int,
) -> None:
    disk = MemoryDisk()
    open_with_records(disk).close({})
    before = contents(disk)["/one/a-0/leader-epoch-checkpoint"]
    dirs = open_dirs(disk, "/one", "/two")
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    dirs.open_log(B, ID_B, CONFIG, NOW)
    append(log, epoch=9)
    log.prepare_close()
    for _ in range(syncs):
        disk.sync_all(["/one"])
        log.durability.rename_epochs()
    disk.crash(names="kept")
    found = contents(disk)["/one/a-0/leader-epoch-checkpoint"]
    assert (found != before) == (syncs == 1)
    assert found.count(b"\n") == (4 if syncs else 3)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_log_that_cannot_be_written_is_not_clean_by_a_sync_of_all(code: int) -> None:
    disk = MemoryDisk()
    dirs = open_with_records(disk)
    disk.fail_next("write", code, suffix=f"/a-0/{3:020d}.snapshot.tmp", times=2)
    dirs.close({}, sync_all_from=1)
    assert not disk.exists("/one/.kafka_cleanshutdown")
    disk.crash(names="lost")
    again = open_dirs(disk, "/one", "/two")
    assert again.open_log(B, ID_B, CONFIG, NOW).state.log_end_offset == 1, "synced with the others"


@pytest.mark.skipif(sys.platform != "linux", reason="syncfs is Linux's")
def test_the_real_disk_syncs_its_file_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    known = subprocess.run(
        ["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True
    ).stdout.strip()
    synced = RealDisk().sync_all([str(tmp_path), str(tmp_path)])
    assert synced == (known in {"ext2/ext3", "xfs", "btrfs"})
    with pytest.raises(FileNotFoundError):
        RealDisk().sync_all([str(tmp_path / "missing")])


def test_a_checkpoint_that_cannot_be_written_is_an_error_but_the_others_are_written() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk, "/one", "/two")
    append(dirs.open_log(A, ID_A, CONFIG, NOW))
    append(dirs.open_log(B, ID_B, CONFIG, NOW))
    disk.fail_next("write", errno.EIO, suffix="/one/recovery-point-offset-checkpoint.tmp")
    with pytest.raises(StorageError):
        dirs.write_recovery_points()
    assert disk.read("/two/recovery-point-offset-checkpoint") == b"0\n1\nmy-topic 12 0\n"


def test_what_a_killed_process_left_in_memory_is_durable_with_the_next_flush() -> None:
    disk = SimDisk()
    log = open_dirs(disk).open_log(A, ID_A, CONFIG, NOW)
    append(log)
    disk.process_killed()
    log = open_dirs(disk).open_log(A, ID_A, CONFIG, NOW)
    append(log)
    log.durability.flush()
    disk.crash(names="lost")
    log = open_dirs(disk).open_log(A, ID_A, CONFIG, NOW)
    assert log.state.log_end_offset == 2


def test_a_log_that_was_not_opened_is_not_clean_by_being_closed() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    append(dirs.open_log(A, ID_A, CONFIG, NOW))
    disk.crash(5, names="kept")
    open_dirs(disk).close({})
    log = open_dirs(disk).open_log(A, ID_A, CONFIG, NOW)
    assert log.state.log_end_offset == 0


@pytest.mark.parametrize("content", [b"garbage", b"1\n0\n", b"0\n5\na 0 1\n", b""])
def test_a_checkpoint_that_cannot_be_read_means_recovery_from_the_start(content: bytes) -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    append(dirs.open_log(A, ID_A, CONFIG, NOW))
    dirs.close({})
    disk.remove("/data/.kafka_cleanshutdown")
    disk.write("/data/recovery-point-offset-checkpoint", content)
    log = open_dirs(disk).open_log(A, ID_A, CONFIG, NOW)
    assert (log.durability.recovery_point, log.state.log_end_offset) == (0, 1)


TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=30)


@given(
    st.dictionaries(
        st.builds(TopicPartition, TOPICS, st.integers(0, 10**6)), st.integers(-1, 2**63 - 1)
    )
)
def test_offset_checkpoints_come_back(offsets: dict[TopicPartition, int]) -> None:
    assert checkpoints.parse_offsets(checkpoints.format_offsets(offsets)) == offsets


def test_all_of_it_on_a_real_disk(tmp_path: Path) -> None:
    root = f"{tmp_path}/data"
    dirs = open_dirs(RealDisk(), root)
    log = dirs.open_log(A, ID_A, LogConfig(segment_bytes=500), NOW)
    for i in range(20):
        append(log, make_batch(timestamp=NOW + i))
    dirs.open_log(B, ID_B, CONFIG, NOW)
    dirs.close({A: 20}, 5, threads=4)
    dirs = open_dirs(RealDisk(), root)
    log = dirs.open_log(A, ID_A, CONFIG, NOW)
    assert log.state.log_end_offset == 20
    assert log.reader.offset_for_time(NOW + 7) == (7, NOW + 7, 0)
    total, free = dirs.directories[0].free_bytes()
    assert 0 < free <= total
    path = dirs.delete_log(log)
    dirs.remove_deleted(path)
    dirs.close({})
    assert sorted(p.name for p in Path(root).iterdir() if p.is_file()) == [
        ".kafka_cleanshutdown",
        ".lock",
        ".pk_closed",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]


def test_logs_that_were_not_closed_are_recovered_by_several_threads_at_once() -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk, "/one", "/two")
    tps = [TopicPartition("t", i) for i in range(8)]
    for tp in tps:
        log = dirs.open_log(tp, ID_A, CONFIG, NOW)
        for _ in range(3):
            append(log)
    dirs.release()
    again = open_dirs(disk, "/one", "/two")
    assert again.to_recover == 8
    meet = threading.Barrier(2, timeout=60)
    at_once = LockedOut(disk, meet)
    for directory in again.directories:
        directory.disk = cast(Disk, at_once)
    with ThreadPoolExecutor(2) as pool:
        logs = list(pool.map(lambda tp: again.open_log(tp, ID_A, CONFIG, NOW), tps))
    assert [log.state.log_end_offset for log in logs] == [3] * 8
    assert again.to_recover == 0 and again.found() == {}


class LockedOut:
    """A disk on which listing a log's directory waits for another thread that does the same."""

    def __init__(self, disk: MemoryDisk, meet: threading.Barrier) -> None:
        self._disk = disk
        self._meet = meet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        self._meet.wait()
        return self._disk.list(path, unmeasured)


def test_a_relative_directory_becomes_a_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dirs = LogDirs.open(
        RealDisk(), ["data"], cluster_id="c", node_id=1, holder="test", new_id=lambda: bytes(16)
    )
    assert not dirs.directories[0].failed
    dirs.release()
    assert (tmp_path / "data" / "meta.properties").exists()
