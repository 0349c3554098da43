"""What `pk cluster health`, `quorum` and `features` make of what a cluster tells."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pk.cli.cluster.brokers import BrokerSnapshot
from pk.cli.cluster.features import common_range, level_name, release_of
from pk.cli.cluster.throttles import LEADER_RATE, Present
from pk.cli.nouns.cluster.cluster import quorum_rows
from pk.cli.nouns.cluster.features import feature_rows
from pk.cli.nouns.cluster.health import OK, PROBLEM, UNKNOWN, WARNING, Facts, checks, unchecked
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import ZERO_UUID, TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.errors import RequestTimedOut
from pk.net.client.results import (
    ClusterDescription,
    FeatureDescription,
    FinalizedFeature,
    LogDirDescription,
    Node,
    PartitionDescription,
    QuorumDescription,
    QuorumReplica,
    Reassignment,
    SupportedFeature,
    TopicDescription,
)

Run = Callable[..., Any]
PATIENTLY = ("-X", "pk.straggler.timeout.ms=60000")
"""A broker on a busy machine is not to be taken for silent."""
TP = TopicPartition("t", 0)
FEATURES = FeatureDescription((), (), 9)
DIR = LogDirDescription("/d", 0, (), 100, 50)
REFUSED = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def facts(
    *,
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    nodes: dict[int, Node] | None = None,
    features: dict[int, Any] | None = None,
    dirs: dict[int, Any] | None = None,
    **more: Any,
) -> Facts:
    nodes = nodes or {b: Node(b, "h", b) for b in (1, 2, 3)}
    topic = TopicDescription(
        "t", ZERO_UUID, False, (PartitionDescription(0, leader, 0, replicas, isr),)
    )
    look = BrokerSnapshot(
        ClusterDescription("c", 1, tuple(nodes.values())),
        nodes,
        {"t": topic},
        Answers((dirs or dict.fromkeys(nodes, (DIR,))).items()),
        Answers((features or dict.fromkeys(nodes, FEATURES)).items()),
    )
    known: dict[str, Any] = {
        "min_isr": {"t": 2},
        "running": {},
        "throttles": Present({}, {}, {}),
        "quorum": None,
    }
    return Facts(look, **{**known, **more})


def states(given: Facts) -> dict[str, str]:
    """The checks that are not ok."""
    return {c.check: c.state for c in checks(given) if c.state != OK}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (facts(), {}),
        (facts(isr=(1, 2)), {"replicas": PROBLEM, "min ISR": WARNING}),
        (facts(isr=(1,)), {"replicas": PROBLEM, "min ISR": PROBLEM}),
        (
            facts(leader=-1, isr=()),
            {"leaders": PROBLEM, "replicas": PROBLEM, "min ISR": PROBLEM},
        ),
        (facts(leader=2), {"preferred leaders": WARNING}),
        (facts(replicas=(1,), isr=(1,), min_isr={"t": 1}), {"factors": WARNING}),
        (facts(replicas=(1, 2), isr=(1, 2)), {"factors": WARNING}),
        (facts(nodes={1: Node(1, "h", 1), 2: Node(2, "h", 2)}), {"brokers": PROBLEM}),
        (
            facts(nodes={b: Node(b, "h", b, None, b == 3) for b in (1, 2, 3)}),
            {"brokers": PROBLEM},
        ),
        (
            facts(features={1: FEATURES, 2: FEATURES, 3: RequestTimedOut("late")}),
            {"brokers": PROBLEM},
        ),
        (
            facts(dirs={1: (LogDirDescription("/d", 56, ()),), 2: (DIR,), 3: (DIR,)}),
            {"log directories": PROBLEM},
        ),
        (
            facts(dirs={1: (LogDirDescription("/d", 0, (), 100, 5),), 2: (DIR,), 3: (DIR,)}),
            {"log directories": WARNING},
        ),
        (facts(throttles=Present({1: {LEADER_RATE: "5"}}, {}, {})), {"reassignments": WARNING}),
        (
            facts(
                replicas=(1, 2, 4),
                isr=(1, 2),
                nodes={b: Node(b, "h", b) for b in (1, 2, 4)},
                running={TP: Reassignment((1, 2, 4), (4,), ())},
                throttles=Present({1: {LEADER_RATE: "5"}}, {}, {}),
            ),
            {},
        ),
        (facts(quorum=QuorumDescription(-1, 4, 0, (), ())), {"controller": PROBLEM}),
        (facts(running=RequestTimedOut("late")), {"reassignments": UNKNOWN}),
        (
            facts(running=REFUSED, quorum=REFUSED),
            {"controller": UNKNOWN, "reassignments": UNKNOWN, "metadata": UNKNOWN},
        ),
        (facts(quorum=RequestTimedOut("late")), {"controller": PROBLEM, "metadata": UNKNOWN}),
        (facts(dirs={1: (DIR,), 2: REFUSED, 3: (DIR,)}), {"log directories": UNKNOWN}),
        (
            facts(throttles=Present({}, {}, {"topic t": REFUSED})),
            {"min ISR": UNKNOWN, "factors": UNKNOWN, "reassignments": UNKNOWN},
        ),
        (
            facts(throttles=Present({}, {}, {"broker 2": REFUSED})),
            {"reassignments": UNKNOWN},
        ),
        (
            facts(
                quorum=QuorumDescription(
                    1,
                    4,
                    5000,
                    (QuorumReplica(1, ZERO_UUID, 5000, -1, -1),),
                    (QuorumReplica(2, ZERO_UUID, 10, -1, -1),),
                )
            ),
            {"metadata": WARNING},
        ),
        (
            facts(
                quorum=QuorumDescription(
                    0,
                    2,
                    205,
                    (QuorumReplica(0, ZERO_UUID, 205, -1, -1),),
                    (QuorumReplica(1, ZERO_UUID, 265, -1, -1),),
                )
            ),
            {"metadata": PROBLEM},
        ),
    ],
)
def test_what_ails_a_cluster(given: Facts, expected: dict[str, str]) -> None:
    assert states(given) == expected


def test_a_check_says_what_and_which_command_comes_next() -> None:
    found = {c.check: c for c in checks(facts(isr=(1,)))}
    assert found["min ISR"].what == "1 partition below it, acks=all is refused: t/0"
    assert found["replicas"].what == "1 partition under-replicated: t/0; out of sync on 2 and 3"
    assert found["replicas"].next == "pk isr --under-replicated"


def test_the_quorum_with_lag_and_what_each_broker_has_applied() -> None:
    voter = QuorumReplica(1, ZERO_UUID, 100, 5_000, 5_000)
    behind = QuorumReplica(2, ZERO_UUID, 90, 9_000, 8_000)
    silent = QuorumReplica(3, ZERO_UUID, -1, -1, -1)
    quorum = QuorumDescription(1, 7, 95, (voter,), (silent, behind), {1: ("C://h:1",)})
    rows = quorum_rows(quorum, {2: 88}, 10_000)
    assert [(r["node"], r["role"], r["lag"]) for r in rows] == [
        (1, "leader", 0),
        (2, "observer", 10),
        (3, "observer", None),
    ]
    assert [(r["caught_up_ms"], r["fetched_ms"], r["applied_offset"]) for r in rows] == [
        (0, 0, None),
        (2_000, 1_000, 88),
        (None, None, None),
    ]
    assert rows[0]["endpoints"] == ["C://h:1"]


def test_who_is_ahead_of_the_leader_has_a_lag_below_zero() -> None:
    leader, ahead = (QuorumReplica(n, ZERO_UUID, end, 1, 1) for n, end in ((0, 205), (1, 265)))
    rows = quorum_rows(QuorumDescription(0, 2, 205, (leader,), (ahead,)), {}, 10_000)
    assert [row["lag"] for row in rows] == [0, -60]


def test_levels_of_metadata_version_have_names() -> None:
    # As `kafka-features version-mapping` of Apache Kafka 4.3.1 prints them.
    names = {1: "3.0-IV1", 7: "3.3-IV3", 20: "3.8-IV0", 25: "4.0-IV3", 27: "4.1-IV1", 30: "4.3-IV0"}
    assert {level: level_name("metadata.version", level) for level in names} == names
    assert level_name("metadata.version", 31) is None and level_name("group.version", 1) is None


def reported(low: int, high: int, level: int | None = None) -> FeatureDescription:
    finalized = () if level is None else (FinalizedFeature("f", level, level),)
    return FeatureDescription((SupportedFeature("f", low, high),), finalized, 5 if level else 4)


def test_a_feature_may_go_as_far_as_every_broker_supports() -> None:
    assert common_range({1: reported(0, 3), 2: reported(1, 2)}, "f") == (1, 2)
    assert common_range({1: reported(0, 1), 2: reported(2, 3)}, "f") is None
    rows = feature_rows({1: reported(0, 3, 1), 2: reported(0, 2)})
    assert [(r["level"], r["max_supported"], r["note"]) for r in rows] == [
        (1, 2, "can be upgraded")
    ]
    lacking = feature_rows({1: reported(0, 3, 1), 2: FeatureDescription((), (), 3)})
    assert lacking[0]["note"] == "not by broker 2" and lacking[0]["max_supported"] is None
    assert release_of(reported(0, 3)) is None
    new = FeatureDescription((SupportedFeature("metadata.version", 7, 30),), (), 1)
    assert release_of(new) == "4.3-IV0"


def nodes_of(number: int) -> dict[int, Node]:
    return {b: Node(b, "h", b) for b in range(1, number + 1)}


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (facts(), []),
        (facts(quorum=REFUSED, running=REFUSED), ["quorum", "reassignments"]),
        (facts(quorum=RequestTimedOut("late"), running=RequestTimedOut("late")), []),
        (facts(dirs={1: REFUSED, 2: (DIR,), 3: (DIR,)}), ["log directories of broker 1"]),
        (facts(throttles=Present({}, {}, {"topic t": REFUSED})), ["configs of topic t"]),
    ],
)
def test_what_was_not_checked_has_a_name(given: Facts, parts: list[str]) -> None:
    assert list(unchecked(given)) == parts


@pytest.mark.parametrize(
    ("given", "mend"),
    [
        (facts(replicas=(1,), isr=(1,), nodes=nodes_of(2)), "pk reassign plan -t t --rf 2"),
        (facts(replicas=(1,), isr=(1,), nodes=nodes_of(5)), "pk reassign plan -t t --rf 3"),
        (facts(replicas=(1, 2), isr=(1, 2)), "pk reassign plan -t t --rf 3"),
        (
            facts(replicas=(1, 2), isr=(1, 2), nodes=nodes_of(2)),
            "pk configs alter topic t -c min.insync.replicas=1",
        ),
        (facts(min_isr={"t": 3}, nodes=nodes_of(4)), "pk reassign plan -t t --rf 4"),
        (facts(min_isr={"t": 3}), "pk configs alter topic t -c min.insync.replicas=2"),
    ],
)
def test_what_gives_a_topic_a_replica_to_spare_is_within_the_brokers_there_are(
    given: Facts, mend: str
) -> None:
    (check,) = [c for c in checks(given) if c.check == "factors"]
    assert check.next == mend


def test_a_single_partition_is_not_counted_in_the_plural() -> None:
    (check,) = [c for c in checks(facts()) if c.check == "leaders"]
    assert check.what == "the only partition has a leader"


def test_one_plan_gives_several_topics_a_second_replica() -> None:
    one = facts(replicas=(1,), isr=(1,))
    topics = {name: replace(one.snapshot.topics["t"], name=name) for name in ("a", "b", "c", "d")}
    (check,) = [
        c
        for c in checks(one._replace(snapshot=one.snapshot._replace(topics=topics)))
        if c.check == "factors"
    ]
    assert check.what == "4 topics with a single replica: a, b, c and 1 more"
    assert check.next == "pk reassign plan -t a -t b -t c --rf 3"


def test_a_single_broker_is_healthy(at: Run) -> None:
    shown = at("cluster", "health", "-f", "json", *PATIENTLY)
    (answer,) = shown.json
    problems = {c["check"]: c["what"] for c in answer["checks"] if c["state"] == "problem"}
    assert (shown.code, answer["healthy"], problems) == (0, True, {})
    assert "is healthy" in shown.err


def test_brokers_their_directories_and_replicas(at: Run, fresh: Callable[[str], str]) -> None:
    topic = fresh("dirs")
    at("topics", "create", topic, "-p", "2")
    at("produce", topic, "-p", "1", stdin=b"a\nb\n")
    (directory,) = at("brokers", "logdirs", "-f", "json").json
    assert directory["state"] == "ok" and directory["bytes"] > 0
    replicas = at("brokers", "logdirs", "-t", topic, "-f", "json").json
    assert [(row["partition"], row["offset_lag"]) for row in replicas] == [(0, 0), (1, 0)]
    assert replicas[0]["bytes"] == 0 < replicas[1]["bytes"]
    broker = str(directory["broker"])
    (described,) = at("brokers", "describe", broker, "-f", "json", *PATIENTLY).json
    assert described["state"] == "up" and described["log_dirs"][0]["path"] == directory["path"]
    assert {"node.id", "log.dirs"} <= {c["config"] for c in described["configs"]}
    wrong = at("brokers", "describe", "99")
    assert (wrong.code, "Broker 99 does not exist" in wrong.err) == (1, True)
    unknown = at("brokers", "logdirs", "-t", f"{topic}x")
    assert (unknown.code, f"did you mean {topic}" in unknown.err) == (1, True)
