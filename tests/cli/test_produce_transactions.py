"""`pk produce --transactional-id`: a transaction is committed at the end of the input or every N
records, and aborted on an error or Ctrl-C."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import pk_environment, start_pk
from clients.topics import wait_until

Run = Callable[..., Any]
Fresh = Callable[[str], str]
LINES = b"".join(b"%d\n" % i for i in range(10))


@pytest.fixture(autouse=True)
def _interrupts_are_inherited() -> Iterator[None]:
    """A run that a script started in the background ignores SIGINT, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    name = fresh("exactly")
    assert at("topics", "create", name, "-p", "2").code == 0
    return name


def read(at: Run, topic: str) -> list[str]:
    """The values that a reader of committed records sees, once the transaction of the id `topic`
    has its markers."""
    wait_until("the markers", lambda: state(at, topic).startswith("Complete"))
    ran = at("consume", topic, "-o", "start..end", "--isolation", "read-committed")
    assert ran.code == 0, ran.err
    return sorted(ran.lines)


def state(at: Run, name: str) -> str:
    (row,) = at("transactions", "describe", name, "-f", "json").json
    return row["state"]


@pytest.mark.parametrize(
    ("words", "transactions"),
    [
        ((), 1),
        (("--records-per-transaction", "4"), 3),
        (("--records-per-transaction", "5"), 2),
        (("--records-per-transaction", "4", "--rate", "1000"), 3),
        (("--records-per-transaction", "4", "-H", "a=b"), 3),
        (("--sync",), 1),
        (("-n", "10", "--records-per-transaction", "1"), 10),
    ],
)
def test_all_of_the_input_is_committed(
    at: Run, topic: str, words: tuple[str, ...], transactions: int
) -> None:
    ran = at("produce", topic, "--transactional-id", topic, "--print-offsets", *words, stdin=LINES)
    assert ran.code == 0, ran.err
    each = "transaction" if transactions == 1 else "transactions"
    assert f"10 records written in {transactions} {each}" in ran.err
    assert read(at, topic) == [str(i) for i in range(10)]
    assert state(at, topic) == "CompleteCommit"


def test_made_up_records_and_the_key_of_x(at: Run, topic: str) -> None:
    words = ("--fake", "{{seq}}", "-n", "7", "-X", f"transactional.id={topic}")
    ran = at("produce", topic, *words, "--records-per-transaction", "3", "--print-offsets")
    assert (ran.code, "7 records written in 3 transactions" in ran.err) == (0, True), ran.err
    assert len(read(at, topic)) == 7


def test_a_bad_line_aborts_the_open_transaction_only(at: Run, topic: str) -> None:
    lines = b"a:1\nb:2\nc:3\nd:4\ne:5\nnone\nf:6\n"
    words = ("-f", r"%k:%v", "--records-per-transaction", "2")
    ran = at("produce", topic, "--transactional-id", topic, *words, stdin=lines)
    assert (ran.code, "Line 6" in ran.err) == (1, True), ran.err
    assert "4 records written in 2 transactions; 1 of an open transaction aborted" in ran.err
    assert read(at, topic) == ["1", "2", "3", "4"]


def test_documents_before_a_bad_one_are_committed_by_the_transaction(at: Run, topic: str) -> None:
    text = b'{"n": 1}\n{"n": 2}\n{"n": 3}\n{"n" 4}\n'
    words = ("--json", "--records-per-transaction", "2")
    ran = at("produce", topic, "--transactional-id", topic, *words, stdin=text)
    assert ran.code == 1, ran.err
    assert "2 records written in 1 transaction; 1 of an open transaction aborted" in ran.err
    assert read(at, topic) == ['{"n": 1}', '{"n": 2}']


def test_a_record_that_the_broker_refuses_aborts(at: Run, fresh: Fresh) -> None:
    topic = fresh("small")
    at("topics", "create", topic, "-p", "1", "-c", "max.message.bytes=200")
    ran = at("produce", topic, "--transactional-id", topic, stdin=b"a\n" + b"y" * 300 + b"\nb\n")
    assert (ran.code, "3 of 3 records were not written" in ran.err) == (1, True), ran.err
    assert read(at, topic) == []
    again = at("produce", topic, "--transactional-id", topic, stdin=b"c\n")
    assert again.code == 0, again.err
    assert read(at, topic) == ["c"]


def test_ctrl_c_aborts(at: Run, kafka: Kafka, topic: str) -> None:
    words = ("produce", topic, "-b", kafka.bootstrap, "--transactional-id", topic)
    with start_pk(
        *(*words, "--print-offsets"),
        env=pk_environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write("one\ntwo\n")
        process.stdin.flush()
        assert "@" in process.stderr.readline()  # acknowledged, in the open transaction
        assert state(at, topic) == "Ongoing"
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) == -signal.SIGINT
    assert "Interrupted: 0 records written in 0 transactions; 2 of an open transaction" in rest
    assert read(at, topic) == []
    assert state(at, topic) == "CompleteAbort"


def test_another_with_the_same_id_fences(at: Run, kafka: Kafka, topic: str) -> None:
    words = ("produce", topic, "-b", kafka.bootstrap, "--transactional-id", topic)
    with start_pk(
        *(*words, "--print-offsets"),
        env=pk_environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write("old\n")
        process.stdin.flush()
        assert "@" in process.stderr.readline()
        assert at("produce", topic, "--transactional-id", topic, stdin=b"new\n").code == 0
        _, rest = process.communicate("late\n", timeout=60)
        assert process.returncode == 1
    assert "INVALID_PRODUCER_EPOCH" in rest or "PRODUCER_FENCED" in rest, rest
    assert read(at, topic) == ["new"]


def test_what_does_not_go_together(at: Run, topic: str) -> None:
    ran = at("produce", topic, "--records-per-transaction", "3", stdin=b"a\n")
    assert (ran.code, "needs --transactional-id" in ran.err) == (2, True)
    ran = at("produce", topic, "--transactional-id", "x", "--acks", "1", stdin=b"a\n")
    assert (ran.code, "transactional.id" in ran.err) == (2, True), ran.err
    ran = at("consume", topic, "-e", "-X", "transactional.id=x")
    assert (ran.code, "only `pk produce`" in ran.err) == (2, True), ran.err
    assert at("consume", topic, "-o", "start..end").out == b""


def test_dry_run_says_how_many_transactions(at: Run, topic: str) -> None:
    words = ("--transactional-id", topic, "--records-per-transaction", "4", "--dry-run")
    ran = at("produce", topic, *words, stdin=LINES)
    assert (ran.code, "in 3 transactions; nothing was written" in ran.err) == (0, True), ran.err
    assert at("transactions", "describe", topic).code == 1
