"""Consumer groups as real clients see them, with the classic protocol and with the consumer
protocol (KIP-848).

The members are processes (members.py), so that leaving, dying and coming back are what they are in
life. librdkafka's admin client asks the broker for the group's state.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections import Counter

import confluent_kafka
import pytest

from clients import tools
from clients.fixtures import Kafka, clients_of_others, fresh_name
from clients.members import CONSUMER_PROTOCOL, Kind, Member
from clients.pk_broker import pk_command, pk_environment
from clients.topics import (
    configure_group,
    create_topic,
    members,
    produce,
    wait_for_commit,
    wait_for_shares,
    wait_until,
)

PARTITIONS = 6
SHORT_SESSION_MS = 5_000
CONFLUENT, PYTHON, AIO = Kind("confluent-kafka"), Kind("kafka-python"), Kind("aiokafka")
KCAT, CONSOLE = Kind("kcat"), Kind("apache-console")
BY_COORDINATOR = [
    Kind(client, CONSUMER_PROTOCOL) for client in ("confluent-kafka", "apache-console", "pk")
]
COOPERATIVE = (
    Kind("confluent-kafka", "cooperative-sticky"),
    Kind("kafka-python", "cooperative-sticky"),
    Kind("apache-console", "cooperative-sticky"),
)
TEAMS = [
    *([kind] * 3 for kind in (CONFLUENT, PYTHON, AIO, KCAT, CONSOLE, *COOPERATIVE)),
    [CONFLUENT, PYTHON, AIO],
    [KCAT, CONSOLE, PYTHON],
    *([kind] * 3 for kind in BY_COORDINATOR),
    BY_COORDINATOR,
    [BY_COORDINATOR[0], CONFLUENT, PYTHON],  # both protocols in one group
    [CONFLUENT, BY_COORDINATOR[0], BY_COORDINATOR[2]],
]


def _team_params() -> list[object]:
    params = []
    for team in TEAMS:
        name = str(team[0])
        if len(set(team)) > 1:
            name = "+".join(str(k) if k.by_consumer_protocol else k.client for k in team)
        marks = [pytest.mark.peer] if any(k.client == "apache-console" for k in team) else []
        if team[0] in (KCAT, PYTHON, COOPERATIVE[0]) and len(set(team)) == 1:
            marks.append(pytest.mark.slow)  # the everyday run has each library once
        params.append(pytest.param(team, id=name, marks=marks))
    return params


def _need(*kinds: Kind) -> None:
    for kind in kinds:
        reason = kind.missing()
        if reason is not None:
            pytest.skip(reason)


@pytest.mark.thorough
@clients_of_others
@pytest.mark.parametrize("team", _team_params())
def test_three_members_join_leave_die_and_come_back(kafka: Kafka, team: list[Kind]) -> None:
    _need(*team)
    topic, group = fresh_name("groups"), fresh_name("group")
    create_topic(kafka, topic, PARTITIONS)
    if any(kind.by_consumer_protocol for kind in team):
        configure_group(kafka, group, {"consumer.session.timeout.ms": str(SHORT_SESSION_MS)})
    with contextlib.ExitStack() as stack:

        def join(kind: Kind, session_ms: int = 20_000) -> Member:
            if kind.client == "kcat":
                session_ms = SHORT_SESSION_MS  # it ends on SIGTERM without leaving its group
            member = Member(kind, kafka.bootstrap, topic, group, session_ms=session_ms)
            return stack.enter_context(member)

        produce(kafka, topic, PARTITIONS, 10)
        first = join(team[0])
        wait_for_shares(kafka, group, [6])
        wait_for_commit(kafka, group, PARTITIONS, 10)

        second, third = join(team[1]), join(team[2], SHORT_SESSION_MS)
        wait_for_shares(kafka, group, [2, 2, 2])
        produce(kafka, topic, PARTITIONS, 10)
        wait_for_commit(kafka, group, PARTITIONS, 20)
        seen_by = [each.seen for each in (first, second, third)]
        # They commit before they tell, and one that is killed would tell no more.
        wait_until("words of all", lambda: sum(map(len, seen_by)) >= PARTITIONS * 20)
        assert all(seen_by)

        second.leave()
        wait_for_shares(kafka, group, [3, 3])
        third.kill()
        wait_for_shares(kafka, group, [6])
        produce(kafka, topic, PARTITIONS, 10)
        wait_for_commit(kafka, group, PARTITIONS, 30)
        first.leave()

        produce(kafka, topic, PARTITIONS, 10)
        fourth = join(team[0])
        wait_for_commit(kafka, group, PARTITIONS, 40)
        fourth.leave()

    seen = Counter(pair for each in (first, second, third, fourth) for pair in each.seen)
    everything = {(p, o) for p in range(PARTITIONS) for o in range(40)}
    assert set(seen) == everything
    # Every change of membership came after all was committed, so nothing is read twice.
    assert set(seen.values()) == {1}
    assert {offset for _, offset in fourth.seen} == set(range(30, 40))


@pytest.mark.parametrize(
    "kind", [CONFLUENT, PYTHON, AIO, pytest.param(KCAT, marks=pytest.mark.slow)], ids=str
)
def test_static_member_comes_back_without_a_rebalance(kafka: Kafka, kind: Kind) -> None:
    _need(kind)
    topic, group = fresh_name("static"), fresh_name("group")
    create_topic(kafka, topic, PARTITIONS)

    def join(instance: str) -> Member:
        return Member(kind, kafka.bootstrap, topic, group, session_ms=60_000, instance=instance)

    def described() -> dict[str, tuple[str | None, frozenset[int]]]:
        return wait_until("a stable group", lambda: members(kafka, group))

    with contextlib.ExitStack() as stack:
        # The first is the leader, who alone may have reasons of its own to join again.
        a = stack.enter_context(join("a"))
        wait_for_shares(kafka, group, [6])
        b = stack.enter_context(join("b"))
        wait_for_shares(kafka, group, [3, 3])
        before = described()
        held = dict(before.values())
        assert set(held) == {"a", "b"}
        wait_until("both told", lambda: a.assigned and len(a.assigned[-1]) == 3 or None)
        reported = len(a.assigned), len(a.revoked)

        b.kill()
        with join("b") as again:
            produce(kafka, topic, PARTITIONS, 5)
            wait_for_commit(kafka, group, PARTITIONS, 5)
            after = described()
            assert dict(after.values()) == held
            # It commits before it tells.
            wait_until("what it read", lambda: {p for p, _ in again.seen} >= held["b"])
            assert {p for p, _ in again.seen} == held["b"]
            assert (len(a.assigned), len(a.revoked)) == reported
            # The one that came back is a new member under the old name; the other keeps its member
            # id.
            ids = {name: member_id for member_id, (name, _) in before.items()}
            ids_after = {name: member_id for member_id, (name, _) in after.items()}
            assert ids_after["a"] == ids["a"] and ids_after["b"] != ids["b"]


def test_second_holder_of_an_instance_id_fences_the_first(kafka: Kafka) -> None:
    topic, group = create_topic(kafka, fresh_name("fenced"), 1), fresh_name("group")
    config = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": group,
        "group.instance.id": "only-one",
        "session.timeout.ms": 20_000,
        "heartbeat.interval.ms": 200,
        "log_level": 0,
    }
    first, second = (confluent_kafka.Consumer(dict(config)) for _ in range(2))

    def errors(consumer: confluent_kafka.Consumer) -> list[int]:
        found = [message.error() for message in consumer.consume(10, 0.1)]
        return [error.code() for error in found if error is not None]

    try:
        first.subscribe([topic])
        wait_until("the first", lambda: (not errors(first) and first.assignment()) or None)
        second.subscribe([topic])
        wait_until("the second", lambda: (not errors(second) and second.assignment()) or None)
        # librdkafka reports FENCED_INSTANCE_ID as a fatal error of the client.
        wait_until("the fence", lambda: confluent_kafka.KafkaError._FATAL in errors(first))
        # If it is the leader, it may have rejoined, and then briefly holds nothing.
        wait_until("its share", lambda: not errors(second) and len(second.assignment()) == 1)
    finally:
        second.close()
        with contextlib.suppress(confluent_kafka.KafkaException):
            first.close()


@pytest.mark.peer
def test_apaches_tool_lists_groups_of_each_type(kafka: Kafka) -> None:
    topic = create_topic(kafka, fresh_name("typed"), 1)
    protocols = {"classic": "classic", "consumer": "consumer"}
    groups = {kind: fresh_name(kind) for kind in (*protocols, "share")}
    configure_group(kafka, groups["share"], {"share.auto.offset.reset": "earliest"})
    produce(kafka, topic, 1, 1)
    shared = pk_command("consume", "--share", topic, "-g", groups["share"], "-n", "1")
    subprocess.run(
        [*shared, "-b", kafka.bootstrap],
        env=pk_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=120,
    )
    with contextlib.ExitStack() as stack:
        for kind, protocol in protocols.items():
            config = {"bootstrap.servers": kafka.bootstrap, "group.id": groups[kind]}
            member = confluent_kafka.Consumer({**config, "group.protocol": protocol})
            stack.callback(member.close)
            member.subscribe([topic])
            wait_until(
                kind, lambda member=member: (member.poll(0.1), member.assignment())[1] or None
            )

        def listed(*options: str) -> set[tuple[str, ...]]:
            ended = tools.run(kafka, tools.GROUPS, "--list", *options)
            assert ended.code == 0, ended
            return {tuple(row) for row in ended.rows if row[0] in groups.values()}

        classic = (groups["classic"], "Classic", "consumer")
        consumer = (groups["consumer"], "Consumer", "consumer")
        share = (groups["share"], "Share", "share")
        assert listed() == {classic, consumer, share}
        assert listed("--consumer") == {classic, consumer}
        assert listed("--share") == {share}
        assert listed("--group-type", "classic", "--protocol", "consumer") == {classic}
