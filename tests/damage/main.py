"""Kills all nodes of a cluster at once, damages the files of one or two brokers, and counts the
acknowledged records that are lost.

Each round has a topic of its own: three replicas, min.insync.replicas=2. A producer writes to it
with acks=all until enough records are acknowledged; then every node is killed, some brokers' files
are damaged, and the brokers start again in the round's order. At least one broker is always whole,
so at the end each acknowledged record must be readable and all replicas must be in sync. The rounds
go through every combination of damage, order and number of damaged brokers. Ends with 1 if pk lost
a record or did not return; the losses of Apache Kafka are only counted.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

import confluent_kafka
from clients.cluster_topics import create_replicated, partitions_of, wait_in_sync
from clients.readers import read_all
from damage.damages import DAMAGES
from damage.systems import BROKERS, SYSTEMS, System

PARTITIONS: Final = 3
RECORDS: Final = 1_500
RETURN_S: Final = 60.0
"""How long the topic may take to have all its replicas in sync again."""

ORDERS: Final = ("last", "first", "together")
"""When the damaged brokers start: after the whole ones, before them, or with them."""

DAMAGED: Final = (1, 2)
APACHE: Final = "apache"


class Case(NamedTuple):
    """The actions of a round."""

    damage: str
    order: str
    damaged: int


class Round(NamedTuple):
    """The result of a round."""

    case: Case
    acknowledged: int
    lost: int
    returned: bool
    """Whether all replicas of every partition were in sync in the end."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/check-damage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="of each system (30)")
    parser.add_argument(
        "--systems", default="embedded", help=f"of {', '.join(SYSTEMS)}, separated by commas"
    )
    parser.add_argument("--seed", type=int, default=1, help="which brokers and bytes are damaged")
    given = parser.parse_args()
    names = given.systems.split(",")
    for name in names:
        if name not in SYSTEMS:
            parser.error(f"{name} is not one of {', '.join(SYSTEMS)}")
    done = {name: list(_run(name, given.rounds, given.seed)) for name in names}
    print("\n".join(table(done)))
    pk = [one for name, rounds in done.items() if name != APACHE for one in rounds]
    return int(any(one.lost or not one.returned for one in pk))


def _run(name: str, rounds: int, seed: int) -> Iterator[Round]:
    cases = itertools.cycle(map(Case._make, itertools.product(DAMAGES, ORDERS, DAMAGED)))
    random = Random(seed)
    with SYSTEMS[name]() as system:
        for number, case in enumerate(itertools.islice(cases, rounds), 1):
            started = time.monotonic()
            one = _round(system, f"round-{number}", case, random)
            print(
                f"{name} {number}/{rounds}: {case.damage} on {case.damaged}, started {case.order}:"
                f" {one.lost:,} of {one.acknowledged:,} lost"
                f"{'' if one.returned else ', NOT RETURNED'}"
                f" ({time.monotonic() - started:.0f} s)",
                flush=True,
            )
            yield one
            if not one.returned:
                return  # the next round would meet the same cluster


def _round(system: System, topic: str, case: Case, random: Random) -> Round:
    create_replicated(system.bootstrap, topic, PARTITIONS)
    acknowledged = _produce_and_kill(system, topic)
    brokers = list(range(1, BROKERS + 1))
    damaged = sorted(random.sample(brokers, case.damaged))
    for broker in damaged:
        DAMAGES[case.damage](system.data(broker), topic, random)
    for node in system.others:
        system.start(node)
    whole = [broker for broker in brokers if broker not in damaged]
    waves = {"last": [whole, damaged], "first": [damaged, whole], "together": [brokers]}
    for wave in waves[case.order]:
        for broker in wave:
            system.start(broker)
        system.wait_until_ready()
    returned = _returns(system, topic)
    lost = 0
    for partition in range(PARTITIONS):
        lost += len(acknowledged[partition] - _readable(system, topic, partition))
    return Round(case, sum(map(len, acknowledged.values())), lost, returned)


def _produce_and_kill(system: System, topic: str) -> dict[int, set[int]]:
    """The numbers of the records that were acknowledged before every node was killed, by
    partition."""
    acknowledged: dict[int, set[int]] = defaultdict(set)

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            acknowledged[message.partition() or 0].add(int(message.value() or b""))

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": system.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "batch.num.messages": 50,
            "log_level": 0,
        }
    )
    number = itertools.count()
    while sum(map(len, acknowledged.values())) < RECORDS:
        while len(producer) < 200:
            sent = next(number)
            producer.produce(
                topic, b"%d" % sent, partition=sent % PARTITIONS, on_delivery=delivered
            )
        producer.poll(0.01)
    system.kill_all()
    producer.poll(0)  # acknowledgements that had arrived
    producer.purge()
    return acknowledged


def _returns(system: System, topic: str) -> bool:
    try:
        wait_in_sync(system.bootstrap, topic, PARTITIONS, BROKERS, RETURN_S)
    except AssertionError:
        return False
    return True


def _readable(system: System, topic: str, partition: int) -> set[int]:
    found = partitions_of(system.bootstrap, topic)
    if not found or found[partition].leader < 1:
        return set()
    return {int(value) for _, value in read_all(system.bootstrap, topic, partition)}


def table(done: Mapping[str, Sequence[Round]]) -> Iterator[str]:
    """The records lost of those acknowledged, as a table in Markdown: a row for each damage and
    number of damaged brokers, over all orders, and a column for each system."""
    yield f"| damage | brokers damaged | {' | '.join(done)} |"
    yield "|---" * (2 + len(done)) + "|"
    for damage, damaged in itertools.product(DAMAGES, DAMAGED):
        cells = [
            _cell([r for r in rounds if (r.case.damage, r.case.damaged) == (damage, damaged)])
            for rounds in done.values()
        ]
        if any(cells):
            yield f"| {damage} | {damaged} | {' | '.join(cells)} |"
    totals = [_cell(rounds) for rounds in done.values()]
    yield f"| all | | {' | '.join(totals)} |"


def _cell(rounds: Sequence[Round]) -> str:
    if not rounds:
        return ""
    lost, acknowledged = sum(r.lost for r in rounds), sum(r.acknowledged for r in rounds)
    waiting = sum(not r.returned for r in rounds)
    return f"{lost:,} of {acknowledged:,}" + (f", {waiting} did not return" if waiting else "")


if __name__ == "__main__":
    sys.exit(main())
