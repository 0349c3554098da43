"""The checker finds each anomaly in a history that has it, and none in one that has none."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from each import for_each
from list_append import checker
from list_append.checker import check
from list_append.history import History, Outcome, Place, Read, Transaction


def transaction(
    name: str, *appends: tuple[str, int, str], outcome: Outcome = Outcome.COMMITTED
) -> Transaction:
    """One with appends (partition, offset, value), of the process that its name begins with."""
    made = Transaction(name, name[0], outcome=outcome)
    made.appends = {value: Place(partition, offset) for partition, offset, value in appends}
    return made


def final(partition: str, *seen: tuple[int, str]) -> Read:
    return Read("end", partition, list(seen), final=True)


def kinds(history: History, inputs: str | None = None) -> set[str]:
    return {one.kind for one in check(history, inputs).anomalies}


def good() -> History:
    """Two writers; one aborted, one of unknown end that is there; a reader that stopped
    half-way."""
    return History(
        [
            transaction("a1", ("in/0", 0, "a1.0"), ("in/1", 0, "a1.1")),
            transaction("b1", ("in/0", 1, "b1.0"), outcome=Outcome.ABORTED),
            transaction("a2", ("in/0", 3, "a2.0"), ("in/1", 2, "a2.1"), outcome=Outcome.UNKNOWN),
        ],
        [
            Read("r", "in/0", [(0, "a1.0")]),
            final("in/0", (0, "a1.0"), (3, "a2.0")),
            final("in/1", (0, "a1.1"), (2, "a2.1")),
        ],
    )


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    verdict = check(good())
    assert verdict.anomalies == []
    assert (verdict.committed, verdict.aborted, verdict.unknown, verdict.appends) == (1, 1, 1, 4)


def test_a_transaction_of_unknown_end_may_be_missing_whole() -> None:
    history = good()
    history.reads[1:] = [final("in/0", (0, "a1.0")), final("in/1", (0, "a1.1"))]
    assert kinds(history) == set()


@pytest.mark.parametrize(
    ("reads", "kind"),
    [
        ([final("in/0", (3, "a2.0")), final("in/1", (2, "a2.1"))], checker.LOST),
        ([final("in/0", (0, "a1.0"), (3, "a2.0")), final("in/1", (2, "a2.1"))], checker.TORN),
        ([Read("r", "in/0", [(1, "b1.0")])], checker.ABORTED_READ),
        ([Read("r", "in/0", [(0, "a1.0"), (7, "a1.0")])], checker.DUPLICATE),
        ([Read("r", "in/1", [(5, "a1.0")])], checker.DIVERGENCE),
        ([Read("r", "in/0", [(3, "a2.0"), (0, "a1.0")])], checker.ORDER),
        ([Read("r", "in/0", [(0, "other")])], checker.DIVERGENCE),
        ([Read("r", "in/0", [(9, "nobody's")])], checker.PHANTOM),
    ],
)
def test_each_anomaly_of_reads_is_found(reads: list[Read], kind: str) -> None:
    history = good()
    ends = {read.partition for read in reads if read.final}
    history.reads = [r for r in history.reads if r.partition not in ends] + reads
    assert kind in kinds(history)


def test_two_transactions_of_a_process_the_wrong_way_round() -> None:
    history = History(
        [transaction("a1", ("in/0", -1, "a1.0")), transaction("a2", ("in/0", -1, "a2.0"))],
        [final("in/0", (0, "a2.0"), (2, "a1.0"))],
    )
    assert kinds(history) == {checker.ORDER}


def chain(*reads: str, name: str, offset: int, outcome: Outcome = Outcome.COMMITTED) -> Transaction:
    made = transaction(name, ("out/0", offset, f"{name}.0"), outcome=outcome)
    made.reads = dict.fromkeys(reads, Place("in/0", -1))
    return made


def processed(*chains: Transaction) -> History:
    history = History(
        [transaction("a1", ("in/0", 0, "a1.0")), transaction("a2", ("in/0", 2, "a2.0")), *chains],
        [final("in/0", (0, "a1.0"), (2, "a2.0"))],
    )
    seen = [
        (place.offset, value)
        for t in chains
        if t.outcome is not Outcome.ABORTED
        for value, place in t.appends.items()
    ]
    history.reads.append(final("out/0", *seen))
    return history


def test_inputs_are_processed_once() -> None:
    first, second = chain("a1.0", name="c1", offset=0), chain("a2.0", name="c2", offset=2)
    assert kinds(processed(first, second), "in") == set()
    aborted = chain("a2.0", name="d1", offset=9, outcome=Outcome.ABORTED)
    assert kinds(processed(first, aborted, second), "in") == set()
    assert kinds(processed(first), "in") == {checker.NOT_PROCESSED}
    again = chain("a2.0", name="d1", offset=4)
    assert kinds(processed(first, second, again), "in") == {checker.PROCESSED_TWICE}


def test_what_was_read_before_it_was_written() -> None:
    """c read from a, and a's next append stands behind c's in the partition that both write."""
    a = transaction("a1", ("in/0", 0, "a1.0"), ("out/0", 5, "a1.1"))
    c = transaction("c1", ("out/0", 1, "c1.0"))
    c.reads = {"a1.0": Place("in/0", 0)}
    history = History(
        [a, c], [final("in/0", (0, "a1.0")), final("out/0", (1, "c1.0"), (5, "a1.1"))]
    )
    verdict = check(history)
    assert [one.kind for one in verdict.anomalies] == [checker.CIRCULAR]
    assert verdict.anomalies[0].what == (
        "c1 reads → c1.0 is appended → a1.1 is appended → a1 commits → c1 reads"
    )


def test_a_writer_that_is_slow_in_one_partition_is_no_anomaly() -> None:
    """a's record of out/0 waits for a broker that is down, while b commits behind a's record of
    in/0, and c reads what b wrote and writes to out/0 before a does."""
    a = transaction("a1", ("in/0", 0, "a1.0"), ("out/0", 1, "a1.1"))
    b = transaction("b1", ("in/0", 1, "b1.0"), ("in/1", 0, "b1.1"))
    c = transaction("c1", ("out/0", 0, "c1.0"))
    c.reads = {"b1.1": Place("in/1", 0)}
    history = History(
        [a, b, c],
        [
            final("in/0", (0, "a1.0"), (1, "b1.0")),
            final("in/1", (0, "b1.1")),
            final("out/0", (0, "c1.0"), (1, "a1.1")),
        ],
    )
    assert check(history).anomalies == []


def test_writers_that_overtake_each_other_are_no_anomaly() -> None:
    a = transaction("a1", ("in/0", 0, "a1.0"), ("in/1", 1, "a1.1"))
    b = transaction("b1", ("in/0", 1, "b1.0"), ("in/1", 0, "b1.1"))
    history = History(
        [a, b], [final("in/0", (0, "a1.0"), (1, "b1.0")), final("in/1", (0, "b1.1"), (1, "a1.1"))]
    )
    verdict = check(history)
    assert (verdict.anomalies, verdict.write_cycles) == ([], 1)


def test_a_history_is_the_same_from_a_file(tmp_path: Path) -> None:
    history = processed(chain("a1.0", name="c1", offset=0))
    history.save(tmp_path / "history.jsonl")
    assert History.load(tmp_path / "history.jsonl") == history


@for_each("seed", range(20))
def test_a_random_history_of_one_writer_at_a_time(seed: int) -> None:
    """Without a fault nothing is found; with one record taken away, doubled or moved something
    is."""
    draw = Random(seed)
    logs: dict[str, list[str]] = {"in/0": [], "in/1": [], "in/2": []}
    history = History()
    for number in range(50):
        process = draw.choice("abc")
        made = Transaction(f"{process}{number}", process, outcome=Outcome.COMMITTED)
        for i in range(draw.randint(2, 4)):
            partition, value = draw.choice(sorted(logs)), f"{process}{number}.{i}"
            made.appends[value] = Place(partition, len(logs[partition]))
            logs[partition].append(value)
        history.transactions.append(made)
    history.reads = [final(p, *enumerate(values)) for p, values in logs.items()]
    assert check(history).anomalies == []
    read = draw.choice(history.reads)
    at = draw.randrange(1, len(read.seen))
    offset, value = read.seen[at]
    match draw.choice(("lose", "double", "swap")):
        case "lose":
            del read.seen[at]
            assert kinds(history) & {checker.LOST, checker.TORN}
        case "double":
            read.seen.append((len(read.seen), value))
            assert checker.DUPLICATE in kinds(history)
        case _:
            before = read.seen[at - 1][1]
            read.seen[at - 1 : at + 1] = [(offset - 1, value), (offset, before)]
            assert checker.DIVERGENCE in kinds(history)
