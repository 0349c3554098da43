"""`pk doctor`: every check on a snapshot that has only this problem, and the command on real
clusters."""

import io
import shlex
from collections.abc import Callable
from typing import Any, cast, get_args

import pytest
import trio
from clients.fixtures import Kafka
from diagnosed import NOW, THREE, cluster, snapshot, topic, topics, whole
from each import for_each
from msgspec.structs import replace
from terminal import SIZES, Terminal, size_name

from pk.cli.command_line.output_options import check_output_options
from pk.cli.command_line.parse import parse
from pk.cli.diagnosis.checks import CHECKS, GROUPS, OFFSETS, RECOVERIES, diagnose
from pk.cli.diagnosis.collect import collect
from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    QUORUM,
    SEVERITIES,
    WARNING,
    Broker,
    ClusterSnapshot,
    Commit,
    Directory,
    Finding,
    Follower,
    Group,
    OpenTransaction,
    Topic,
)
from pk.cli.nouns.doctor.commands import CheckName
from pk.cli.nouns.doctor.doctor import cards
from pk.cli.options.option_values import Values
from pk.cli.runtime.context import Context
from pk.cli.runtime.refusals import REFUSALS
from pk.cli.terminal.streams import Streams
from pk.core.auth.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin, open_admin

HOUR = 3_600_000
DAY = 24 * HOUR
Run = Callable[..., Any]
Fresh = Callable[[str], str]


def recovering(found: r.UncleanRecovery) -> ClusterSnapshot:
    """A snapshot with the controller's unclean recovery of orders/0."""
    return snapshot(recoveries={TopicPartition("orders", 0): found})


def test_a_fenced_broker_is_started_and_its_replicas_move_only_if_others_can_hold_them() -> None:
    three = snapshot(brokers=cluster(1, 2, b3=Broker(fenced=True)))
    (found,) = [f for f in diagnose(three) if f.check == "brokers-down"]
    assert found.why.endswith("6 replicas there fall behind. Start it again.")
    assert found.fix == "pk brokers list"
    four = snapshot(
        brokers=cluster(1, 2, 4, b3=Broker(fenced=True)), start_commands={3: "pk node start 3"}
    )
    (found,) = [f for f in diagnose(four) if f.check == "brokers-down"]
    assert "move the replicas away (`pk reassign apply --drain 3`)" in found.why
    assert found.fix == "pk node start 3"


def log(broker: int, **known: Any) -> r.ReplicaLogState:
    return r.ReplicaLogState(broker, True, **known)


def group(offset: int, *, state: str = "Stable", **commit: Any) -> dict[str, Group]:
    return {"billing": Group(state, 1, {TopicPartition("orders", 0): Commit(offset, **commit)})}


def share_group(offset: int, reported_lag: int, *, state: str = "Stable") -> dict[str, Group]:
    commit = Commit(offset, reported_lag=reported_lag)
    return {"jobs": Group(state, 1, {TopicPartition("orders", 0): commit}, is_share=True)}


def holding(start: int, end: int, **configs: Any) -> dict[str, Topic]:
    """orders/0 with the records start..end."""
    first = whole(1, 2, 3, start=start, end=end, stable=end, size_bytes=950)
    return topics(orders=topic(first, *THREE[1:], **configs))


def allow(principal: str, operation: Operation, name: str, *, prefixed: bool = False) -> AclBinding:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return AclBinding(
        ResourceType.TOPIC, name, pattern, principal, "*", operation, Permission.ALLOW
    )


def listening(listeners: str, **more: str) -> dict[int, Broker]:
    configs = {"listeners": listeners, "sasl.enabled.mechanisms": "SCRAM-SHA-512", **more}
    return cluster(2, 3, b1=Broker(configs=configs))


def stored(**changes: Any) -> dict[TopicPartition, r.RemoteState]:
    """orders/0 with ten segments in remote storage."""
    fine = r.RemoteState(10, 1 << 20, 0, 0, 0, copy_disabled=False, restoring=False, why="")
    return {TopicPartition("orders", 0): replace(fine, **changes)}


SICK: dict[str, tuple[ClusterSnapshot, str, str]] = {
    "remote-restore": (
        snapshot(remote=stored(restoring=True, why="the store is away")),
        ERROR,
        "1 partition (orders/0) not restored yet",
    ),
    "remote-restore at work": (
        snapshot(remote=stored(restoring=True)),
        ERROR,
        "1 partition (orders/0) not restored yet",
    ),
    "remote-storage": (
        snapshot(
            remote=stored(why="c/orders-A/0/1.segment: access denied.", lag_segments=2, lag_bytes=9)
        ),
        WARNING,
        "Remote storage fails for 1 partition (orders/0): access denied.",
    ),
    "remote-orphans": (
        snapshot(remote=stored(orphans=2, orphan="c/orders-A/0/1.segment")),
        WARNING,
        "2 objects of 1 partition (orders/0) in remote storage that __remote_log_metadata does",
    ),
    "remote-copy-disabled": (
        snapshot(remote=stored(copy_disabled=True, lag_segments=3, lag_bytes=9)),
        NOTE,
        "1 topic (orders) with remote.log.copy.disable=true",
    ),
    "certificates-end": (
        snapshot(certificate_ends={1: NOW + 90 * DAY, 2: NOW + 3 * DAY}),
        WARNING,
        "certificate of broker 2 expires in 3 d",
    ),
    "certificates-end today": (
        snapshot(certificate_ends={2: NOW - 1}),
        ERROR,
        "certificate of broker 2",
    ),
    "unsigned-tokens": (
        snapshot(
            brokers=listening("A://127.0.0.1:9092", **{"pk.sasl.oauthbearer.unsecured": "true"})
        ),
        WARNING,
        "Unsigned tokens are accepted by broker 1",
    ),
    "public-plaintext": (
        snapshot(
            brokers=listening(
                "A://8.8.8.8:9092", **{"listener.security.protocol.map": "A:SASL_PLAINTEXT"}
            )
        ),
        WARNING,
        "Listener A (SASL_PLAINTEXT) of broker 1",
    ),
    "everyone-may-write": (
        snapshot(acls=[allow("User:*", Operation.WRITE, "orders")]),
        WARNING,
        "1 ACL lets everyone",
    ),
    "acls-without-resource": (
        snapshot(
            acls=[
                allow("User:a", Operation.READ, "order"),
                allow("User:a", Operation.READ, "order", prefixed=True),
                allow("User:a", Operation.READ, "*"),
            ]
        ),
        NOTE,
        "1 ACL matches no topic: allow User:a READ on topic order",
    ),
    "users-without-password": (
        snapshot(
            brokers=listening("SASL_SSL://10.0.0.1:9092"),
            acls=[
                allow("User:a", Operation.READ, "orders"),
                allow("User:b", Operation.READ, "orders"),
            ],
            scram_users=frozenset({"a"}),
        ),
        NOTE,
        "1 user with ACLs cannot log in: b",
    ),
    "controller": (snapshot(controller=-1), ERROR, "no controller"),
    "controller hangs": (
        snapshot(controller=None, unseen={QUORUM: TimeoutError("late")}),
        ERROR,
        "does not answer",
    ),
    "brokers-down": (
        snapshot(brokers=cluster(1, 2)),
        ERROR,
        "Broker 3 is not in the cluster",
    ),
    "brokers-down fenced": (
        snapshot(brokers=cluster(1, 2, b3=Broker(fenced=True))),
        ERROR,
        "Broker 3 is fenced",
    ),
    "brokers-down silent": (
        snapshot(brokers=cluster(1, 2, b3=Broker(silent=True))),
        ERROR,
        "Broker 3 is in the cluster, but does not answer",
    ),
    "offline-partitions": (
        snapshot(topics=topics(orders=topic(whole(1, 2, 3, leader=-1, isr=(1,)), *THREE[1:]))),
        ERROR,
        "orders/0",
    ),
    "awaited-logs": (
        recovering(r.UncleanRecovery(-1, (2, 3), (3,), "they were in sync", ())),
        ERROR,
        "1 partition (orders/0) without a leader until more replicas report their logs",
    ),
    "stopped-replicas": (
        recovering(r.UncleanRecovery(1, (), (), "", (log(2, stopped=True),))),
        ERROR,
        "orders/0: broker 2 has committed records that its leader, broker 1, lacks",
    ),
    "damaged-replicas": (
        recovering(r.UncleanRecovery(1, (), (), "", (log(2, damage=1),))),
        WARNING,
        "Broker 2 found 1 log damaged: a batch before its end is damaged",
    ),
    "damaged-replicas more": (
        recovering(r.UncleanRecovery(1, (), (), "", (log(1), log(2, damaged_segments=3)))),
        WARNING,
        "Broker 2 found 3 closed segments damaged",
    ),
    "damaged-replicas alone": (
        recovering(r.UncleanRecovery(2, (), (), "", (log(2, damaged_segments=1),))),
        ERROR,
        "Broker 2 found 1 closed segment damaged in the only replica",
    ),
    "under-min-isr": (
        snapshot(topics=topics(orders=topic(whole(1, 2, 3, isr=(1,)), *THREE[1:]))),
        ERROR,
        "orders/0",
    ),
    "under-replicated": (
        snapshot(topics=topics(orders=topic(whole(1, 2, 3, isr=(1, 2)), *THREE[1:]))),
        ERROR,
        "out of sync on broker 3",
    ),
    "offline-directories": (
        snapshot(directories=[Directory(2, "/data", "KAFKA_STORAGE_ERROR")]),
        ERROR,
        "/data of broker 2",
    ),
    "full-disks": (snapshot(directories=[Directory(1, "/d", None, 100, 10)]), WARNING, "90% full"),
    "full-disks more": (
        snapshot(directories=[Directory(1, "/d", None, 100, 3)]),
        ERROR,
        "97% full",
    ),
    "stuck-moves": (
        snapshot(topics=topics(orders=topic(whole(1, 2, 4, isr=(1, 2), adding=(4,)), *THREE[1:]))),
        ERROR,
        "moved to broker 4",
    ),
    "orphan-throttles": (
        snapshot(throttled="broker 1", throttles_unowned=True),
        WARNING,
        "left on broker 1",
    ),
    "offset-out-of-range": (
        snapshot(topics=holding(100, 200), groups=group(40)),
        ERROR,
        "60 were deleted",
    ),
    "offset-out-of-range beyond": (
        snapshot(topics=holding(100, 200), groups=group(201)),
        ERROR,
        "beyond the end",
    ),
    "retention-risk": (
        snapshot(
            topics=holding(0, 200, retention_ms=str(7 * DAY)),
            groups=group(20, expiring=True, next_ms=NOW - 7 * DAY + 5 * HOUR),
        ),
        WARNING,
        "in 5 h",
    ),
    "retention-risk now": (
        snapshot(
            topics=holding(0, 200, retention_ms=str(7 * DAY)),
            groups=group(20, expiring=True, next_ms=NOW - 8 * DAY),
        ),
        ERROR,
        "at any moment",
    ),
    "retention-risk size": (
        snapshot(topics=holding(100, 200, retention_bytes="1000"), groups=group(105)),
        WARNING,
        "retention.bytes",
    ),
    "hanging-transactions": (
        snapshot(transactions=[OpenTransaction(TopicPartition("orders", 0), 7, NOW - HOUR, 5)]),
        ERROR,
        "producer 7 has hung for 1 h",
    ),
    "hanging-transactions abandoned": (
        snapshot(
            transactions=[
                OpenTransaction(
                    TopicPartition("orders", 0), 7, NOW - 60_000, 5, NOW - 60_000, abandoned=True
                )
            ]
        ),
        ERROR,
        "producer 7 has hung for 1 min",
    ),
    "old-transactions": (
        snapshot(
            transactions=[
                OpenTransaction(
                    TopicPartition("orders", n),
                    7,
                    NOW,
                    5,
                    NOW - HOUR,
                    "payments-1",
                    abandoned=False,
                )
                for n in (0, 1)
            ]
        ),
        WARNING,
        "transactional id payments-1 is open for 1 h (orders/0 and orders/1)",
    ),
    "no-spare-replica": (
        snapshot(topics=topics(orders=topic(whole(1, 2), whole(2, 3), whole(3, 1)))),
        WARNING,
        "no more replicas than",
    ),
    "no-spare-replica never": (
        snapshot(topics=topics(orders=topic(*THREE, min_insync_replicas="4"))),
        ERROR,
        "fewer replicas than",
    ),
    "single-replica": (
        snapshot(
            topics=topics(
                orders=topic(whole(1), whole(2), whole(3), min_insync_replicas="1"),
            )
        ),
        WARNING,
        "a single replica",
    ),
    "internal-topics": (
        snapshot(
            topics={
                "orders": topic(*THREE),
                "__consumer_offsets": topic(
                    whole(1), whole(2), whole(3), internal=True, min_insync_replicas="1"
                ),
            }
        ),
        ERROR,
        "__consumer_offsets: 1 replica",
    ),
    "one-rack": (
        snapshot(
            brokers=cluster(b1=Broker("a"), b2=Broker("a"), b3=Broker("a"), b4=Broker("b")),
            topics=topics(orders=topic(*THREE, whole(4, 1, 2), whole(4, 2, 3))),
        ),
        WARNING,
        "one rack",
    ),
    "unclean-election": (
        snapshot(topics=topics(orders=topic(*THREE, unclean_leader_election_enable="true"))),
        WARNING,
        "orders",
    ),
    "one-copy-acks": (
        snapshot(topics=topics(orders=topic(*THREE, min_insync_replicas="1"))),
        NOTE,
        "min.insync.replicas=1",
    ),
    "preferred-leaders": (
        snapshot(topics=topics(orders=topic(whole(1, 2, 3, leader=2), *THREE[1:]))),
        WARNING,
        "orders/0",
    ),
    "leader-skew": (
        snapshot(topics=topics(orders=topic(*[whole(1, 2, 3)] * 20))),
        WARNING,
        "Broker 1 leads 21",
    ),
    "replica-skew": (
        snapshot(
            brokers=cluster(1, 2, 3, 4, 5),
            topics=topics(orders=topic(*[whole(1, 2, 3), whole(4, 1, 5), whole(5, 1, 4)] * 8)),
        ),
        WARNING,
        "Broker 1 holds",
    ),
    "disk-skew": (
        snapshot(
            brokers=cluster(1, 2, 3, 4),
            topics=topics(
                orders=topic(whole(1, 2, 3, size_bytes=9 << 30), whole(2, 3, 4), whole(4, 1, 2)),
                small=topic(whole(2, 3, 4, size_bytes=1 << 30), whole(1, 2, size_bytes=40 << 30)),
                tiny=topic(whole(3, 4, 2)),
            ),
        ),
        WARNING,
        "Broker 2 holds 53.7 GB",
    ),
    "empty-brokers": (snapshot(brokers=cluster(1, 2, 3, 4)), NOTE, "without any replica (4)"),
    "groups-without-members": (
        snapshot(topics=holding(0, 200), groups=group(20, state="Empty")),
        WARNING,
        "billing (lag 180)",
    ),
    "dead-groups": (
        snapshot(groups=group(0, state="Empty")),
        NOTE,
        "billing",
    ),
    "unread-topics": (snapshot(topics=holding(0, 200)), NOTE, "no group reads"),
    "mixed-versions": (
        snapshot(brokers=cluster(2, 3, b1=Broker(release="4.2-IV1"), b4=Broker(release="4.3-IV0"))),
        WARNING,
        "4.2-IV1",
    ),
    "features-behind": (
        snapshot(finalized={"metadata.version": 29}),
        NOTE,
        "metadata.version at 29, could be 30",
    ),
    "metadata-lag": (
        snapshot(followers=[Follower(100, 5000, True), Follower(1, 10, False)]),
        WARNING,
        "1 by 4,990 records",
    ),
    "metadata-lag ahead": (
        snapshot(controller=1, followers=[Follower(1, 205, True), Follower(2, 265, False)]),
        ERROR,
        "2 by 60 records",
    ),
    "clock-skew": (snapshot(controller_ahead_ms=-90_000), WARNING, "1 min 30 s behind"),
    "future-records": (
        snapshot(topics=topics(orders=topic(whole(1, 2, 3, newest_ms=NOW + 2 * DAY), *THREE[1:]))),
        WARNING,
        "2 d ahead",
    ),
}


def test_nothing_ails_a_healthy_cluster() -> None:
    assert diagnose(snapshot()) == []
    assert diagnose(snapshot(remote=stored())) == []
    assert diagnose(snapshot(remote=stored(lag_segments=1))) == [], "it is copied soon"
    assert diagnose(snapshot(remote=stored(copy_disabled=True))) == []


@for_each("case", SICK)
def test_a_check_finds_what_it_looks_for(case: str) -> None:
    ill, severity, words = SICK[case]
    name = case.partition(" ")[0]
    found = [f for f in diagnose(ill) if f.check == name]
    assert len(found) == 1, diagnose(ill)
    assert (found[0].severity, words in found[0].what) == (severity, True), found


@for_each("case", SICK)
def test_what_mends_it_is_a_command_line(case: str) -> None:
    for finding in diagnose(SICK[case][0]):
        assert finding.fix is not None and finding.why.endswith((".", ")."))
        program, *words = shlex.split(finding.fix)
        assert program == "pk"
        parsed = parse(words)
        assert not parsed.wants_help, finding.fix
        check_output_options(parsed)


def test_every_check_is_tried_and_known_to_help() -> None:
    assert {case.partition(" ")[0] for case in SICK} == {check.name for check in CHECKS}
    assert tuple(check.name for check in CHECKS) == get_args(CheckName)


def test_one_more_replica_is_not_advised_where_no_broker_is_up_for_it() -> None:
    alone = topics(orders=topic(whole(1), min_insync_replicas="1"))
    down = snapshot(brokers=cluster(b1=Broker(), b2=Broker(fenced=True)), topics=alone)
    (found,) = [f for f in diagnose(down) if f.check == "single-replica"]
    assert found.fix == "pk brokers list"
    assert found.why.endswith("A second replica needs a second broker that is up.")
    up = snapshot(brokers=cluster(b1=Broker(), b2=Broker()), topics=alone)
    (found,) = [f for f in diagnose(up) if f.check == "single-replica"]
    assert found.fix == "pk reassign apply -t orders --rf 2"


def test_replicas_of_one_rack_are_moved_not_counted() -> None:
    """A goal of as many replicas as there are moves nothing."""
    together, _, _ = SICK["one-rack"]
    (found,) = [f for f in diagnose(together) if f.check == "one-rack"]
    assert found.fix is not None and "--set orders/0=1,2,4 --set orders/1=2,3,4" in found.fix


def test_a_replica_that_is_being_added_is_not_missing() -> None:
    moving = snapshot(topics=topics(orders=topic(whole(1, 2, 3, isr=(1, 2), adding=(3,)), *THREE)))
    assert not [f for f in diagnose(moving) if f.check == "under-replicated"]


def test_what_a_silent_broker_alone_knows_is_not_taken_for_nothing() -> None:
    unheard = topics(orders=topic(whole(1, 2, 3, start=None, end=None, stable=None)))
    left = snapshot(topics=unheard, groups=group(0, state="Empty"))
    assert not [f for f in diagnose(left) if f.check == "dead-groups"]
    some = snapshot(topics=holding(0, 200), groups_whole=False)
    assert not [f for f in diagnose(some) if f.check == "unread-topics"]


def test_no_group_is_expected_to_read_a_topic_of_the_brokers() -> None:
    held = holding(0, 200)["orders"]
    own = topics(__remote_log_metadata=held, __pk_spark_commits=held)
    assert not [f for f in diagnose(snapshot(topics=own)) if f.check == "unread-topics"]


def test_the_doctor_counts_lag_as_groups_lag_does() -> None:
    """The lag also includes deleted records that the group had not read."""
    behind = snapshot(topics=holding(100, 200), groups=group(40, state="Empty"))
    (found,) = [f for f in diagnose(behind) if f.check == "groups-without-members"]
    assert "billing (lag 160)" in found.what


def test_a_group_whose_unread_records_were_all_deleted_has_missed_them() -> None:
    """`pk groups lag` and Apache's tool report lag for it, so doctor does not propose its
    deletion."""
    gone = snapshot(topics=holding(200, 200), groups=group(40, state="Empty"))
    (found,) = diagnose(gone)
    assert (found.check, found.fix) == (
        "offset-out-of-range",
        "pk groups reset-offsets billing -t orders --to start",
    )
    assert "160 were deleted before it read them" in found.what
    assert "`pk groups delete billing` removes it" in found.why
    read = snapshot(topics=holding(200, 200), groups=group(200, state="Empty"))
    assert [f.check for f in diagnose(read)] == ["dead-groups"]


def test_the_doctor_counts_the_lag_of_a_share_group_as_its_coordinator_does() -> None:
    """Acknowledged records beyond the start offset are not lag."""
    behind = snapshot(topics=holding(100, 200), groups=share_group(140, 7, state="Empty"))
    (found,) = [f for f in diagnose(behind) if f.check == "groups-without-members"]
    assert "jobs (lag 7)" in found.what
    done = snapshot(topics=holding(100, 200), groups=share_group(140, 0, state="Empty"))
    assert diagnose(done) == []


def test_a_share_group_continues_at_the_oldest_record() -> None:
    late = snapshot(topics=holding(100, 200), groups=share_group(40, 100))
    (lost,) = [f for f in diagnose(late) if f.check == "offset-out-of-range"]
    assert "60 were deleted" in lost.what and "auto.offset.reset" not in lost.why
    ahead = snapshot(topics=holding(100, 200), groups=share_group(300, 0))
    (beyond,) = [f for f in diagnose(ahead) if f.check == "offset-out-of-range"]
    assert "start offsets beyond the end" in beyond.what and "gets no records" in beyond.why


def test_compacted_topics_lose_nothing_to_time() -> None:
    kept = snapshot(
        topics=holding(0, 200, retention_ms="1000", cleanup_policy="compact"),
        groups=group(20, expiring=True, next_ms=NOW - DAY),
    )
    assert not [f for f in diagnose(kept) if f.check == "retention-risk"]


@pytest.mark.parametrize(
    ("elsewhere", "fix"),
    [("604800000", "retention.ms=604800000"), ("1500", "retention.ms=2000"), ("-1", "=-1")],
)
def test_no_fix_shortens_what_another_leader_keeps(elsewhere: str, fix: str) -> None:
    orders = holding(0, 200)["orders"]
    leaders = {1: {"retention.ms": "1000"}} | {b: {"retention.ms": elsewhere} for b in (2, 3)}
    at_risk = snapshot(
        topics=topics(orders=orders._replace(by_leader=leaders)),
        groups=group(20, expiring=True, next_ms=NOW),
    )
    (found,) = [f for f in diagnose(at_risk) if f.check == "retention-risk"]
    assert "orders/0, retention 1 s" in found.what
    assert found.fix == f"pk configs alter topic orders -c retention.ms={fix.rpartition('=')[2]}"


def test_a_topic_that_members_are_assigned_is_read() -> None:
    read = snapshot(
        topics=holding(0, 200),
        groups={"new": Group("Stable", 1, {}, frozenset({"orders"}))},
    )
    assert diagnose(read) == []


def test_the_gravest_come_first_and_fit_the_terminal() -> None:
    findings = [
        Finding(name, severity, "w " * 60, "y " * 60, "pk topics list", ())
        for severity, name in ((NOTE, "a"), (ERROR, "b"), (WARNING, "c"))
    ]
    found = sorted(findings, key=lambda f: SEVERITIES.index(f.severity))
    text = cards(found, 80, color=False)
    assert text.index("ERROR") < text.index("WARNING") < text.index("NOTE")
    assert max(map(len, text.splitlines())) <= 80


# On real clusters


def test_on_a_cluster(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name, reader = fresh("examined"), fresh("behind")
    at("topics", "create", name, "-c", "retention.ms=3600000")
    old = f'{{"value": "old", "timestamp": 1500000000000, "topic": "{name}"}}\n'
    # One of now keeps those before it from being deleted in the middle of the test.
    now = f'{{"value": "new", "topic": "{name}"}}\n'
    made = at("produce", name, "-f", "jsonl", stdin=(old * 3 + now).encode())
    assert made.code == 0, made.err
    moved = at("groups", "reset-offsets", reader, "-t", name, "--to", "start", "-y")
    assert moved.code == 0, moved.err
    ran = at("doctor", "--check", "retention-risk", "--check", "unread-topics", "-f", "json")
    mine = [f for f in ran.json if reader in f["subjects"]]
    assert [(f["check"], f["severity"]) for f in mine] == [("retention-risk", "error")]
    assert "at any moment" in mine[0]["what"]
    assert not any(name in f["subjects"] for f in ran.json if f["check"] == "unread-topics")
    assert ran.code == 1
    quiet = at("doctor", "--check", "retention-risk", "--fail-on", "never", "-f", "json")
    assert quiet.code == 0
    orphan = at("doctor", "--check", "groups-without-members", "--fail-on", "warning")
    assert orphan.code == 1 and "groups-without-members" in orphan.text
    assert "of 1 check found nothing" in orphan.err


def test_share_groups_of_a_cluster(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("examined-jobs")
    assert at("topics", "create", name, "-p", "1").code == 0
    key = "share.auto.offset.reset=earliest"
    assert at("configs", "alter", "group", name, "-c", key, "-y").code == 0
    at("produce", name, stdin=b"a\nb\nc\n")
    taken = at("consume", name, "-g", name, "--share", "-n", "2", "--timeout-ms", "60000")
    assert len(taken.lines) == 2
    asked = ("--check", "groups-without-members", "--check", "unread-topics", "-f", "json")
    found = at("doctor", *asked).json
    assert [f["check"] for f in found if name in f["subjects"]] == ["groups-without-members"]
    deleting = at("topics", "delete", name, stdin=b"n\n")
    assert f"Group {name} has commits there" in deleting.err


def test_every_check_runs_on_a_cluster(at: Run, kafka: Kafka) -> None:
    ran = at("doctor", "--fail-on", "never", "-f", "json")
    assert ran.code == 0, ran.err
    assert f"{len(CHECKS)} checks found nothing" in ran.err
    assert all(set(f) == {"severity", "check", "what", "why", "fix", "subjects"} for f in ran.json)


class Meanwhile:
    """An administrator of a cluster where a topic and a group are deleted right after they were
    listed."""

    def __init__(self, admin: Admin, topic: str, group: str) -> None:
        self._admin = admin
        self._topic = topic
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)

    async def describe_topics(self) -> Any:
        found = await self._admin.describe_topics()
        assert self._topic in found
        assert (await self._admin.delete_topics([self._topic])).ok == {self._topic: None}
        return found

    async def list_groups(self) -> Any:
        found = await self._admin.list_groups()
        assert self._group in {g.group_id for g in found.groups}
        assert (await self._admin.delete_groups([self._group])).ok == {self._group: None}
        return found


def test_what_is_deleted_while_it_is_looked_at_is_nothing_unseen(
    pk: Run, pk_kafka: Kafka, fresh: Fresh
) -> None:
    topic, group = fresh("brief"), fresh("brief")
    at = ("-b", pk_kafka.bootstrap)
    pk("topics", "create", topic, "-p", "3", *at)
    pk("produce", topic, "x", *at)
    pk("groups", "reset-offsets", group, "-t", topic, "--to", "start", "-y", *at)

    async def look() -> ClusterSnapshot:
        async with open_admin(pk_kafka.bootstrap) as admin:
            needs = frozenset(need for check in CHECKS for need in check.needs)
            return await collect(cast("Admin", Meanwhile(admin, topic, group)), needs)

    seen = trio.run(look)
    assert (dict(seen.unseen), seen.groups_whole) == ({}, True)
    assert topic not in seen.topics and group not in seen.groups


def test_groups_that_the_user_may_not_see_are_not_taken_for_absent(
    pk: Run, pk_kafka: Kafka, fresh: Fresh
) -> None:
    """ListGroups leaves out what a user without DESCRIBE on the cluster may not describe."""
    topic = fresh("hidden")
    pk("topics", "create", topic, "-b", pk_kafka.bootstrap)
    pk("produce", topic, "x", "-b", pk_kafka.bootstrap)

    class Limited:
        def __init__(self, admin: Admin) -> None:
            self._admin = admin

        def __getattr__(self, name: str) -> Any:
            return getattr(self._admin, name)

        async def describe_cluster(self, **given: Any) -> Any:
            found = await self._admin.describe_cluster(**given)
            return replace(found, authorized_operations=0)

    async def look() -> ClusterSnapshot:
        async with open_admin(pk_kafka.bootstrap) as admin:
            return await collect(cast("Admin", Limited(admin)), frozenset({GROUPS, OFFSETS}))

    seen = trio.run(look)
    assert list(seen.unseen) == ["groups that you may not describe"]
    assert not [f for f in diagnose(seen) if f.check == "unread-topics"]


def test_the_checks_are_listed_without_a_cluster(pk: Run) -> None:
    ran = pk("doctor", "--list", "-b", "127.0.0.1:1", "-f", "name")
    assert (ran.code, tuple(ran.lines)) == (0, get_args(CheckName))


def test_a_command_to_copy_names_the_cluster_it_was_found_on(pk: Run, kafka: Kafka) -> None:
    ran = pk("doctor", "--fail-on", "never", "-f", "json", "-b", kafka.bootstrap)
    assert all(f["fix"].endswith(f" -b {kafka.bootstrap}") for f in ran.json)


def test_an_unknown_check_is_refused(pk: Run) -> None:
    ran = pk("doctor", "--check", "retention-risks")
    assert ran.code == 2 and "did you mean retention-risk" in ran.err


@pytest.mark.parametrize(
    "size", [SIZES[0], pytest.param(SIZES[1], marks=pytest.mark.slow)], ids=size_name
)
def test_on_a_terminal(
    terminal: Callable[..., Terminal], at: Run, kafka: Kafka, fresh: Fresh, size: tuple[int, int]
) -> None:
    name, reader = fresh("examined"), fresh("behind")
    at("topics", "create", name)
    at("produce", name, stdin=b"x\n")
    at("groups", "reset-offsets", reader, "-t", name, "--to", "start", "-y")
    one = terminal(
        "doctor",
        "-b",
        kafka.bootstrap,
        "--check",
        "groups-without-members",
        columns=size[0],
        lines=size[1],
    )
    assert one.end() == 0
    text = one.screen()
    assert "WARNING  groups-without-members" in text and "$ pk why lag" in text
    assert one.color_of("WARNING").fg == "brown"
    assert one.traces() == []


def test_what_could_not_be_looked_at_is_not_well() -> None:
    from pk.cli.nouns.doctor.doctor import verdict

    assert verdict("prod", (), CHECKS) == f"prod is healthy: {len(CHECKS)} checks found nothing."
    assert verdict("prod", (), CHECKS, 2).endswith("found nothing. 2 parts were not checked.")
    found = [Finding(CHECKS[0].name, "error", "a", "b", None)]
    assert verdict("prod", found, CHECKS, 1) == (
        f"prod: 1 error; {len(CHECKS) - 1} of {len(CHECKS)} checks found nothing. 1 part was "
        "not checked."
    )


def test_logs_that_may_not_be_compared_are_not_checked(kafka: Kafka) -> None:
    """Doctor has checks for them, which would otherwise find nothing."""
    refused = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    class Refused(Admin):
        async def unclean_recovery(self, *_: object, **__: object) -> Any:
            raise refused

    async def look() -> ClusterSnapshot:
        async with open_admin(kafka.bootstrap) as admin:
            return await collect(Refused(admin.cluster, admin.config), frozenset((RECOVERIES,)))

    assert dict(trio.run(look).unseen) == {RECOVERIES: refused}


def test_each_reason_why_parts_were_not_checked_is_said_once() -> None:
    from pk.cli.diagnosis.unchecked import say_unchecked

    REFUSALS.begin(None)  # nothing is known of what another test asked
    text = io.StringIO()
    context = Context(Values(), (), Streams(io.BytesIO(), text))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    parts = {
        "quorum": KafkaError(refused, "Cluster authorization failed."),
        "ACLs": KafkaError(refused, "it needs DESCRIBE permission"),
        "configs of topic a": KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "a"),
    }
    say_unchecked(context, parts)
    said = text.getvalue().splitlines()
    assert [line.partition(": The broker")[0] for line in said] == [
        "not checked: quorum and ACLs",
        "not checked: configs of topic a",
    ]
    assert context.failures == [parts["quorum"], parts["ACLs"], parts["configs of topic a"]]
