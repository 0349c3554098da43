"""How `pk cluster health`, `quorum` and `features` interpret the cluster's answers."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from diagnosed import cluster, snapshot, topic, topics, whole

from pk.cli.cluster.features import common_range, level_name, release_of
from pk.cli.diagnosis.checks import CHECKS, CONFIGS, DIRS, REASSIGNMENTS, THROTTLES, diagnose
from pk.cli.diagnosis.snapshot import ERROR, QUORUM, Broker, ClusterSnapshot
from pk.cli.nouns.cluster.cluster import quorum_rows
from pk.cli.nouns.cluster.features import feature_rows
from pk.cli.nouns.cluster.health import OK, UNKNOWN, check_rows
from pk.cli.nouns.cluster.rows import CheckRow
from pk.cli.options.option_values import Values
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import ZERO_UUID
from pk.net.client.errors import ControllerDown, RequestTimedOut
from pk.net.client.results import (
    FeatureDescription,
    FinalizedFeature,
    QuorumDescription,
    QuorumReplica,
    SupportedFeature,
)

Run = Callable[..., Any]
PATIENTLY = ("-X", "pk.straggler.timeout.ms=60000")
"""A broker on a busy machine must not count as silent."""
REFUSED = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
SICK = snapshot(
    brokers=cluster(1, 2, b3=Broker(fenced=True)),
    topics=topics(orders=topic(whole(1, 2, 3, isr=(1, 2)))),
)


def rows_of(given: ClusterSnapshot) -> list[CheckRow]:
    context = Context(Values(), (), Streams(io.BytesIO(), io.StringIO()))
    return list(check_rows(context, given))


def test_health_says_what_the_doctor_says() -> None:
    found = {f.check: f for f in diagnose(SICK)}
    bad = [row for row in rows_of(SICK) if row["state"] != OK]
    assert [row["check"] for row in bad] == ["brokers-down", "under-replicated"]
    for row in bad:
        f = found[row["check"]]
        assert (row["state"], row["what"], row["fix"]) == (f.severity, f.what, f.fix)


def test_a_check_that_found_nothing_says_what_is_well() -> None:
    rows = rows_of(snapshot())
    assert [row["check"] for row in rows] == [c.name for c in CHECKS if c.healthy is not None]
    assert {row["state"] for row in rows} == {OK}
    said = {row["check"]: row["what"] for row in rows}
    assert said["brokers-down"] == "3 brokers up"
    assert said["offline-partitions"] == "all 6 partitions have a leader"
    assert said["full-disks"] == "the fullest disk is 40% full"
    assert said["metadata-lag"] == "every node has caught up to about offset 5,000"


def test_a_single_partition_is_not_counted_in_the_plural() -> None:
    rows = rows_of(snapshot(topics={"orders": topic(whole(1, 2, 3))}))
    said = {row["check"]: row["what"] for row in rows}
    assert said["offline-partitions"] == "the only partition has a leader"


@pytest.mark.parametrize(
    ("lacking", "unknown"),
    [
        ({QUORUM: REFUSED}, ["controller", "metadata-lag"]),
        ({DIRS: REFUSED}, ["offline-directories", "full-disks"]),
        ({REASSIGNMENTS: RequestTimedOut("late")}, ["stuck-moves", "orphan-throttles"]),
        ({THROTTLES: REFUSED}, ["orphan-throttles"]),
        ({CONFIGS: REFUSED}, ["under-min-isr", "under-replicated", "no-spare-replica"]),
    ],
)
def test_a_check_without_its_data_is_unknown(
    lacking: dict[str, Exception], unknown: list[str]
) -> None:
    rows = rows_of(snapshot(lacking=lacking))
    assert [row["check"] for row in rows if row["state"] == UNKNOWN] == unknown
    assert {row["state"] for row in rows} == {OK, UNKNOWN}


def test_why_a_check_lacks_its_data_is_said_briefly() -> None:
    down = ControllerDown(
        "The controller, node 0 of the cluster in /d, was stopped", "pk node start 0"
    )
    said = {row["check"]: row["what"] for row in rows_of(snapshot(lacking={REASSIGNMENTS: down}))}
    assert said["stuck-moves"] == "not checked: the controller does not answer"
    said = {row["check"]: row["what"] for row in rows_of(snapshot(lacking={DIRS: REFUSED}))}
    assert said["full-disks"] == "not checked: CLUSTER_AUTHORIZATION_FAILED"


def test_a_problem_is_shown_also_if_data_is_missing() -> None:
    states = {
        row["check"]: row["state"] for row in rows_of(SICK._replace(lacking={CONFIGS: REFUSED}))
    }
    assert states["under-replicated"] == ERROR
    assert states["under-min-isr"] == UNKNOWN


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
    # These are the names that `kafka-features version-mapping` of Apache Kafka 4.3.1 prints.
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


def test_a_single_broker_is_healthy(at: Run) -> None:
    shown = at("cluster", "health", "-f", "json", *PATIENTLY)
    (answer,) = shown.json
    errors = {c["check"]: c["what"] for c in answer["checks"] if c["state"] == "error"}
    assert (shown.code, answer["healthy"], errors) == (0, True, {})
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
