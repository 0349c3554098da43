"""The progress that a start after a crash reports while it checks the logs."""

import logging

import pytest
from nodes import caller_of, make_topic, running_node, trio_test

from pk.cli.up.logs import log_to_stderr
from pk.core.broker.replication import recovery_progress
from pk.core.broker.replication.recovery_progress import EVERY_MS, RecoveryProgress
from pk.core.log import recovery
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.build import build_batch


@pytest.fixture
def reported(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, recovery_progress.logger.name)
    return caplog


def test_it_is_logged_now_and_then_and_at_the_end(reported: pytest.LogCaptureFixture) -> None:
    now = [5_000]
    progress = RecoveryProgress(3, lambda: now[0])
    progress.due(10_000_000_000)
    now[0] += EVERY_MS - 1
    progress.checked(1_000_000_000)
    progress.log_done()
    assert not reported.messages
    now[0] += 1
    progress.checked(2_000_000_000)
    progress.checked(1)
    assert reported.messages == [
        (
            "recovering logs after an unclean shutdown: 1 of 3 are done; 3.0 GB were checked, and "
            "7.0 GB remain in the logs that are being recovered"
        )
    ]
    now[0] += 8_000
    progress.end()
    assert reported.messages[1:] == ["recovery took 10 s and checked 3.0 GB"]


def test_what_takes_no_time_is_not_logged(reported: pytest.LogCaptureFixture) -> None:
    progress = RecoveryProgress(1, lambda: 0)
    progress.due(10)
    progress.checked(10)
    progress.log_done()
    progress.end()
    assert not reported.messages


@trio_test
async def _start_after_a_crash() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t", partitions=2)
        for number in range(2):
            partition = node.broker.data.replicas.partition("t", number)
            for i in range(10):
                now_ms = node.broker.clock.now_ms()
                partition.append(build_batch([(now_ms, b"k", b"%d" % i * 50, ())]), now_ms=now_ms)
    disk.remove("/data/.kafka_cleanshutdown")
    disk.remove("/data/recovery-point-offset-checkpoint")
    async with running_node(disk):
        pass


def test_a_start_after_a_crash_tells_how_far_it_is(
    reported: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_progress, "EVERY_MS", 0)
    monkeypatch.setattr(recovery_progress, "_GB", 1)
    monkeypatch.setattr(recovery, "PROGRESS_BYTES", 300)
    _start_after_a_crash()
    *lines, end = reported.messages
    assert len([line for line in lines if " 0 of 2 are done" in line]) > 1, "within a log too"
    assert " 2 of 2 are done" in lines[-1] and " 0.0 GB remain" in lines[-1]
    assert end.startswith("recovery took ")


def test_a_broker_in_the_foreground_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_progress.logger, "level", recovery_progress.logger.level)
    log_to_stderr()
    assert recovery_progress.logger.isEnabledFor(logging.INFO)
