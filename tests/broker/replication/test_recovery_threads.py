"""The number of threads that recover logs. Any number of threads recovers all logs."""

import pytest
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.log_opener import FIRST_PART_LOGS
from pk.core.broker.replication.recovery_threads import LARGE_BYTES, RecoveryThreads
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.build import build_batch

SMALL = 16 * 1000


def test_small_logs_that_keep_the_interpreter_busy_are_recovered_by_one_thread() -> None:
    threads = RecoveryThreads(4)
    assert threads.count == 4
    threads.round_took(16, SMALL, busy_s=1.3, elapsed_s=1.0)
    assert threads.count == 1
    threads.round_took(16, SMALL, busy_s=0.9, elapsed_s=1.0)
    assert threads.count == 1


@pytest.mark.parametrize("checked_bytes, busy_s", [(SMALL, 0.3), (17 * LARGE_BYTES, 1.0)])
def test_logs_that_wait_for_the_disk_or_are_large_are_by_all(
    checked_bytes: int, busy_s: float
) -> None:
    threads = RecoveryThreads(4)
    threads.round_took(16, SMALL, busy_s=1.3, elapsed_s=1.0)
    threads.round_took(16, checked_bytes, busy_s, elapsed_s=1.0)
    assert threads.count == 4


def test_between_the_two_it_stays_as_it_is() -> None:
    threads = RecoveryThreads(4)
    threads.round_took(16, SMALL, busy_s=0.6, elapsed_s=1.0)
    assert threads.count == 4
    threads.round_took(16, SMALL, busy_s=1.1, elapsed_s=1.0)
    threads.round_took(16, SMALL, busy_s=0.6, elapsed_s=1.0)
    assert threads.count == 1


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_all_logs_are_recovered_each_to_its_end(threads: str) -> None:
    @trio_test
    async def run() -> None:
        disk = MemoryDisk()
        async with running_node(disk) as node, caller_of(node) as caller:
            await make_topic(caller, "t", partitions=2 * FIRST_PART_LOGS + 3)
            for number in range(2 * FIRST_PART_LOGS + 3):
                partition = node.broker.data.replicas.partition("t", number)
                now_ms = node.broker.clock.now_ms()
                for _ in range(number % 5):
                    partition.append(build_batch([(now_ms, b"k", b"v", ())]), now_ms=now_ms)
        disk.remove("/data/.kafka_cleanshutdown")
        keys = {"num__recovery__threads__per__data__dir": threads}
        async with running_node(disk, **keys) as node:
            for number in range(2 * FIRST_PART_LOGS + 3):
                log = node.broker.data.replicas.partition("t", number).log
                assert log.recovered is not None and log.state.log_end_offset == number % 5

    run()
