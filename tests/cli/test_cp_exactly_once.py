"""`pk cp --exactly-once` copies each record once, however it is killed and however often it is
started."""

import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, pk_environment, start_pk
from clients.topics import wait_until
from group_parts import committed

Run = Callable[..., Any]
Fresh = Callable[[str], str]


@pytest.fixture(autouse=True)
def _interrupts_are_inherited() -> Iterator[None]:
    """A run that a script started in the background ignores SIGINT, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def source(at: Run, fresh: Fresh) -> str:
    """A topic of two partitions with the numbers 0 to 2,999."""
    topic = fresh("source")
    assert at("topics", "create", topic, "-p", "2").code == 0
    produce(at, topic, range(3000))
    return topic


def produce(at: Run, topic: str, numbers: range) -> None:
    lines = b"".join(b"k%d %d\n" % (n % 7, n) for n in numbers)
    assert at("produce", topic, "-f", r"%k %v", stdin=lines).code == 0


def copied(at: Run, topic: str) -> list[int]:
    """The numbers that a reader of committed records finds in the copy."""
    group = f"{topic}-g"
    wait_until(
        "the markers",
        lambda: (
            not any(
                row["state"].startswith("Prepare")
                for row in at("transactions", "list", f"pk-cp-{group}", "-f", "json").json
            )
        ),
    )
    ran = at("consume", topic, "-o", "start..end", "--isolation", "read-committed")
    assert ran.code == 0, ran.err
    return sorted(map(int, ran.lines))


def words(source: str, *more: str) -> tuple[str, ...]:
    return (*endless(source), "--once", *more)


def endless(source: str, *more: str) -> tuple[str, ...]:
    """A copy that waits for more records when it has copied all: it runs until something ends
    it."""
    copy = f"{source}-copy"
    return ("cp", source, copy, "--exactly-once", "-g", f"{copy}-g", "--create", "-y", *more)


def test_a_copy_continues_from_the_groups_offsets(at: Run, source: str) -> None:
    copy = f"{source}-copy"
    first = at(*words(source, "-n", "1000"))
    assert (first.code, "Copied 1,000 records" in first.err) == (0, True), first.err
    second = at(*words(source))
    assert (second.code, "Continuing from the offsets of group" in second.err) == (0, True)
    assert "Copied 2,000 records" in second.err
    third = at(*words(source))
    assert (third.code, "Copied 0 records" in third.err) == (0, True), third.err
    assert copied(at, copy) == list(range(3000))
    ends = at("topics", "offsets", source, "-f", "json").json
    assert committed(at, f"{copy}-g") == {(source, row["partition"]): row["end"] for row in ends}


def test_what_the_filter_leaves_out_counts_as_read(at: Run, source: str) -> None:
    copy = f"{source}-copy"
    assert at(*words(source, "--where", "value = 17")).code == 0
    assert copied(at, copy) == [17]
    again = at(*words(source))
    assert (again.code, "Copied 0 records" in again.err) == (0, True), again.err


def test_what_was_deleted_before_it_was_copied_is_reported_once(at: Run, fresh: Fresh) -> None:
    source = fresh("source")
    assert at("topics", "create", source).code == 0
    produce(at, source, range(6))
    assert at(*words(source, "-n", "2")).code == 0
    assert at("topics", "trim", source, "-o", "4", "-y").code == 0
    ran = at(*words(source))
    assert ran.code == 1
    assert ran.err.count("2 offsets from 2 on were deleted before they were copied.") == 1, ran.err
    assert copied(at, f"{source}-copy") == [0, 1, 4, 5]


def test_kill_9_again_and_again(at: Run, kafka: Kafka, source: str) -> None:
    draw = random.Random(1)
    command = (*endless(source, "--rate", "100"), "-b", kafka.bootstrap)
    for _ in range(4):
        with start_pk(
            *command, env=pk_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.5 + draw.random())  # it commits about once a second
            process.kill()
    ran = at(*words(source))
    assert ran.code == 0, ran.err
    assert copied(at, f"{source}-copy") == list(range(3000))


def test_a_copy_that_was_killed_before_its_commit_is_aborted_by_the_next(
    at: Run, kafka: Kafka, source: str
) -> None:
    copy = f"{source}-copy"
    first = at(*words(source, "-n", "1000"))
    assert first.code == 0, first.err
    done = committed(at, f"{copy}-g")[source, 0]
    brokers = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    killed = confluent_kafka.Producer({**brokers, "transactional.id": f"pk-cp-{copy}-g"})
    group = confluent_kafka.Consumer({**brokers, "group.id": f"{copy}-g"})
    killed.init_transactions(60)
    killed.begin_transaction()
    killed.produce(copy, b"5000")
    offsets = [confluent_kafka.TopicPartition(source, 0, (done or 0) + 1)]
    killed.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), 60)
    assert killed.flush(60) == 0
    tried = at(*words(source, "--dry-run"))
    assert (tried.code, "Would copy up to 2,000 records" in tried.err) == (0, True), tried.err
    ran = at(*words(source))
    assert (ran.code, "Copied 2,000 records" in ran.err) == (0, True), ran.err
    assert copied(at, copy) == list(range(3000))


def test_two_copies_of_one_group_copy_each_record_once(at: Run, kafka: Kafka, source: str) -> None:
    command = (*endless(source, "--rate", "500"), "-b", kafka.bootstrap)
    group = f"{source}-copy-g"
    with start_pk(
        *command, env=pk_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as first:
        wait_until("a first commit", lambda: at("groups", "describe", group).code == 0, timeout=60)
        ran = at(*words(source))
        assert ran.code == 0, ran.err
        produce(at, source, range(3000, 3010))
        _, said = first.communicate(timeout=60)
        assert first.returncode == 1, said
    ran = at(*words(source))
    assert ran.code == 0, ran.err
    assert copied(at, f"{source}-copy") == list(range(3010))


def test_ctrl_c_aborts_what_is_not_committed(at: Run, kafka: Kafka, source: str) -> None:
    command = (*endless(source, "--rate", "100"), "-b", kafka.bootstrap)
    group = f"{source}-copy-g"
    with start_pk(
        *command,
        env=pk_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until("a first commit", lambda: at("groups", "describe", group).code == 0, timeout=60)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT, said
    assert f"continues from the offsets of group {group}" in said
    seen = copied(at, f"{source}-copy")
    done = sum(offset or 0 for offset in committed(at, group).values())
    assert len(seen) == len(set(seen)) == done
    assert f"Copied {done:,} records" in said
    assert at(*words(source)).code == 0
    assert copied(at, f"{source}-copy") == list(range(3000))


def test_what_is_refused(at: Run, kafka: Kafka, source: str, tmp_path: Any) -> None:
    base = ("cp", source, f"{source}-copy", "--create", "--once", "--exactly-once", "-y")
    for more, code, said in (
        ((), 2, "-g GROUP"),
        (("-g", "g", "--state", str(tmp_path / "s")), 2, "--state"),
    ):
        ran = at(*base, *more)
        assert (ran.code, said in ran.err) == (code, True), ran.err
    with PkBroker(memory=True) as other:
        ran = at(*base, "-g", "g", "--to-bootstrap-server", other.bootstrap)
        assert (ran.code, "on one cluster" in ran.err) == (5, True), ran.err
    group = f"{source}-busy"
    member = ("consume", source, "-b", kafka.bootstrap, "-g", group, "-o", "start")
    with start_pk(
        *member, env=pk_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        ran = at(*base, "-g", group)
        process.terminate()
    assert (ran.code, "has 1 member" in ran.err) == (5, True), ran.err


def test_a_dry_run_fences_nothing(at: Run, source: str) -> None:
    ran = at(*words(source)[:-1], "--dry-run")
    assert (ran.code, "nothing was changed" in ran.err) == (0, True), ran.err
    assert at("transactions", "describe", f"pk-cp-{source}-copy-g").code == 1
