"""MirrorMaker 2 translates the offsets of groups: a stopped group resumes in the other cluster,
misses no record, and reads few of them again. The same on pk and between two Apache Kafkas.

Slow: `scripts/test -m "slow and peer" tests/clients/test_mirror_offsets.py`.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from clients.apache_kafka import ApacheKafka
from clients.cluster_topics import create_replicated
from clients.mirror import LAG_MAX, MirrorMaker, translated_offsets
from clients.pk_broker import PkBroker
from clients.readers import CommittedReader, consumer_of
from clients.topics import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.peer]

TOPIC: Final = "orders"
BEHIND: Final = 300
END: Final = 500
LATER: Final = 1000
READY_S: Final = 900.0


def produce(bootstrap: str, numbers: range) -> None:
    """Write numbers to the topic."""
    failed: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for n in numbers:
        producer.produce(
            TOPIC,
            b"%d" % n,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(READY_S) == 0
    assert not failed, failed


def read(bootstrap: str, topic: str, group: str, last: int) -> list[int]:
    """The records that a group reads from its position to the number `last`; it commits them."""
    found: list[int] = []
    with consumer_of(bootstrap, group) as consumer:
        consumer.subscribe([topic])

        def read_some() -> bool:
            while last not in found[-1:] and (message := consumer.poll(0.2)) is not None:
                if message.error() is None:
                    found.append(int(message.value() or b""))
            return last in found[-1:]

        wait_until(f"number {last} in {topic}", read_some, READY_S)
        consumer.commit(asynchronous=False)
    return found


def committed(bootstrap: str, topic: str, group: str) -> int:
    """A group's offset in partition 0, or a negative number."""
    with consumer_of(bootstrap, group) as consumer:
        return consumer.committed([TopicPartition(topic, 0)], timeout=READY_S)[0].offset


@pytest.mark.parametrize("first", [PkBroker, ApacheKafka])
def test_a_group_goes_on_in_the_other_cluster(
    first: type[PkBroker | ApacheKafka], tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(first()).bootstrap
        two = stack.enter_context(ApacheKafka(heap="384m")).bootstrap
        for bootstrap in (one, two):
            create_replicated(bootstrap, TOPIC, 1, replicas=1, config={"min.insync.replicas": "1"})
        stack.enter_context(MirrorMaker({"one": one, "two": two}, tmp_path))
        goes_on("one", one, two)
        goes_on("two", two, one)


def goes_on(alias: str, source: str, target: str) -> None:
    """Groups stop in the source and go on in the target; `alias` is the source's."""
    copied, end, behind = f"{alias}.{TOPIC}", f"{alias}-end", f"{alias}-behind"
    groups = (end, behind)

    def synced() -> dict[str, int]:
        return {group: committed(target, copied, group) for group in groups}

    with CommittedReader(target, copied) as copies:
        # MirrorMaker knows the groups before it copies what they read.
        produce(source, range(1))
        copies.wait_for(1, READY_S)
        for group in groups:
            read(source, TOPIC, group, 0)
        wait_until("synced groups", lambda: min(synced().values()) > 0, READY_S)

        produce(source, range(1, END))
        copies.wait_for(END, READY_S)
        read(source, TOPIC, behind, BEHIND - 1)
        read(source, TOPIC, end, END - 1)
        assert [int(value) for value in copies.values] == list(range(END))

        def near_its_end() -> bool:
            # Marks of transactions have offsets too. A number's place among the records is itself.
            return bisect_left(copies.offsets, synced()[end]) >= END - LAG_MAX

        wait_until(f"the offset of {end}", near_its_end, READY_S)
        wait_until(
            "the checkpoints of the synced offsets",
            lambda: translated_offsets(target, alias, copied, *groups) == synced(),
            READY_S,
        )

        produce(source, range(END, LATER))
        copies.wait_for(LATER, READY_S)
        kept = synced()
        for group, stopped in ((end, END), (behind, BEHIND)):
            numbers = read(target, copied, group, LATER - 1)
            assert 0 < numbers[0] <= stopped, (group, kept)
            assert numbers == list(range(numbers[0], LATER)), group
            assert group == behind or numbers[0] >= END - LAG_MAX, (group, kept)
