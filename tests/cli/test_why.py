"""`pk why`: the reasons for constructed facts, and the commands on real clusters."""

import re
import shlex
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
import trio
from clients.fixtures import Kafka
from clients.hanging_transaction import hang
from clients.pk_broker import running
from clients.pk_cluster import PkCluster
from clients.topics import wait_for_marks
from each import for_each
from shapes import check_json
from terminal import SIZES, Terminal, size_name

from pk.cli.cluster.pipelines import PipelineCommit
from pk.cli.command_line.parse import parse
from pk.cli.diagnosis.explain import Evidence, Explanation, prose
from pk.cli.diagnosis.lag_facts import LagFacts, Member, Read
from pk.cli.diagnosis.pinning_transaction import Known, PinningTransaction
from pk.cli.diagnosis.why_config import ConfigFacts, Layer, explain_config
from pk.cli.diagnosis.why_lag import explain_lag
from pk.cli.diagnosis.why_partition import PartitionFacts, ReplicaFacts, explain_partition
from pk.cli.positions.times import show_clock, show_time
from pk.core.values import TopicPartition

Run = Callable[..., Any]
Fresh = Callable[[str], str]
Start = Callable[..., Terminal]
TP0, TP1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOW = 1_800_000_000_000


def commands_parse(explanation: Explanation) -> None:
    for step in explanation.next:
        program, *words = shlex.split(step)
        assert program == "pk"
        assert not parse(words).wants_help, step


# Partitions


def replicas(**states: str) -> dict[int, ReplicaFacts]:
    """r1="up", r3="fenced": replicas 1 to 3, up by default, whose logs end at 100."""
    reported = {1: "up", 2: "up", 3: "up"} | {int(k[1:]): v for k, v in states.items()}
    return {b: ReplicaFacts(b, s, 100 if s == "up" else None) for b, s in reported.items()}


def partition(**changes: Any) -> PartitionFacts:
    whole = PartitionFacts("orders/0", 1, 4, (1, 2, 3), (1, 2, 3), replicas(), 2, now_ms=NOW)
    return whole._replace(**changes)


def test_a_stopped_broker_of_this_machine_is_started() -> None:
    found = replicas()
    found[3] = found[3]._replace(state="fenced")
    stopped = partition(isr=(1, 2), by_broker=found, start_commands={3: "pk node start 3"})
    assert explain_partition(stopped).next[0] == "pk node start 3"
    assert not any("pk wait broker" in one for one in explain_partition(stopped).next)
    elsewhere = explain_partition(stopped._replace(start_commands={}))
    assert elsewhere.next[0] == "pk wait broker 3"


def slow(end: int, later: int) -> dict[int, ReplicaFacts]:
    """Broker 3 behind a leader whose log grew from 1,000 to 1,100."""
    found = replicas()
    found[1] = found[1]._replace(end=1000, later_end=1100)
    found[3] = found[3]._replace(end=end, later_end=later)
    return found


def hanging(broker: int) -> dict[int, ReplicaFacts]:
    """A broker that is registered and does not answer."""
    found = replicas()
    found[broker] = found[broker]._replace(end=None, answers=False)
    return found


def disk(*, error: str | None = None, full: str | None = None) -> dict[int, ReplicaFacts]:
    """Broker 1 with a log directory that failed, or whose disk is full."""
    found = replicas()
    found[1] = found[1]._replace(
        end=None if error else 100, held=error is None, directory_error=error, full_disk=full
    )
    return found


PARTITIONS: dict[str, tuple[PartitionFacts, str, str]] = {
    "healthy": (partition(), "healthy", "orders/0 is healthy"),
    "fenced": (
        partition(isr=(1, 2), by_broker=replicas(r3="fenced")),
        "under-replicated",
        "is under-replicated and at min ISR (2 of 3 replicas in sync): broker 3 is fenced",
    ),
    "absent": (
        partition(isr=(1,), by_broker=replicas(r2="absent", r3="absent")),
        "under-min-isr",
        "acks=all are refused: brokers 2 and 3 are not in the cluster",
    ),
    "mixed": (
        partition(isr=(1,), by_broker=replicas(r2="absent", r3="fenced")),
        "under-min-isr",
        "broker 2 is not in the cluster; broker 3 is fenced",
    ),
    "offline": (
        partition(leader=-1, isr=(3,), by_broker=replicas(r3="absent"), elr=()),
        "offline",
        "it cannot be written or read",
    ),
    "offline, until more logs are known": (
        partition(
            leader=-1,
            isr=(),
            by_broker=replicas(r3="fenced"),
            recovery={1: "ends at 5, last batch of epoch 0", 3: "not known"},
            waits="the log of broker 3: it was in sync",
        ),
        "offline",
        "is offline: it has no leader. It waits for the log of broker 3",
    ),
    "offline, its last replica fenced": (
        partition(replicas=(1,), leader=-1, isr=(1,), by_broker=replicas(r1="fenced")),
        "offline",
        "it cannot be written or read, because broker 1 is fenced",
    ),
    "offline, its disk failed": (
        partition(replicas=(1,), leader=-1, isr=(1,), by_broker=disk(error="/data/{1}: I/O error")),
        "offline",
        "because a log directory of broker 1 failed (/data/{1}: I/O error)",
    ),
    "disk full": (
        partition(by_broker=disk(full="/data, 12.0 kB of 24.0 MB left")),
        "disk-full",
        "a disk is full, so records are refused (broker 1: /data, 12.0 kB of 24.0 MB left)",
    ),
    "moving": (
        partition(replicas=(1, 2, 3, 4), adding=(4,), removing=(1,), by_broker=replicas(r4="up")),
        "moving",
        "broker 4 to be added, broker 1 to be removed",
    ),
    "silent": (
        partition(by_broker=hanging(2)),
        "silent",
        (
            "healthy as far as the controller knows (3 of 3 replicas in sync), but broker 2 does "
            "not answer"
        ),
    ),
    "silent leader": (
        partition(by_broker=hanging(1)),
        "silent",
        "broker 1, which leads it, does not answer",
    ),
    "led by another": (partition(leader=2), "not-preferred", "its preferred replica, 1"),
    "behind": (
        partition(isr=(1, 2), by_broker=slow(400, 800), between_s=2.0),
        "under-replicated",
        "broker 3 is up, but behind",
    ),
}


@for_each("case", PARTITIONS)
def test_why_a_partition(case: str) -> None:
    facts, state, words = PARTITIONS[case]
    explained = explain_partition(facts)
    assert explained.state == state
    assert words in explained.verdict and explained.verdict.endswith(".")
    commands_parse(explained)


@pytest.mark.parametrize(
    ("end", "later", "words"),
    [
        (400, 400, "does not advance"),
        (400, 440, "less than is written"),
        (400, 800, "catches up at 150 records/s, which takes 2 s"),
        (400, 1100, "caught up during"),
    ],
)
def test_whether_a_replica_catches_up(end: int, later: int, words: str) -> None:
    facts = partition(isr=(1, 2), by_broker=slow(end, later), between_s=2.0)
    reported = {e.about: e.what for e in explain_partition(facts).evidence}
    assert "600 records behind" in reported["replica 3"] and words in reported["replica 3"]


@pytest.mark.parametrize("case", ["offline, its disk failed", "disk full"])
def test_a_disk_that_ails_is_evidence_and_the_next_command_shows_it(case: str) -> None:
    explained = explain_partition(PARTITIONS[case][0])
    reported = {e.about: e.what for e in explained.evidence}
    assert "/data" in reported["replica 1"]
    assert "pk brokers logdirs 1" in explained.next


def test_when_a_broker_was_last_heard_of() -> None:
    gone = replicas(r3="fenced")
    gone[3] = gone[3]._replace(seen_ms=NOW - 95_000)
    reported = {
        e.about: e.what for e in explain_partition(partition(isr=(1, 2), by_broker=gone)).evidence
    }
    at = show_clock(show_time(NOW - 95_000))
    assert reported["replica 3"].endswith(f"; last seen 1 min 35 s ago, {at}")


def test_who_may_lead_a_partition_without_a_leader() -> None:
    away = replicas(r1="absent", r3="absent")
    facts = partition(leader=-1, isr=(), by_broker=away, elr=(3,), last_known_elr=(1,))
    reported = {e.about: e.what for e in explain_partition(facts).evidence}
    assert reported["electable"].startswith("broker 3: has every acknowledged record")
    unsure = explain_partition(facts._replace(elr=()))
    reported = {e.about: e.what for e in unsure.evidence}
    assert (
        "no replica for certain; last known to have every record: broker 1" in reported["electable"]
    )
    assert "pk partitions elect-leaders orders/0 --unclean --dry-run" in unsure.next


# Lag


def read(committed: int | None, later: int | None, end: int, **changes: Any) -> Read:
    found = Read(committed, later, 0, end, end, end, 1, "m1")
    return found._replace(**changes)


def member(name: str, *owned: TopicPartition, **changes: Any) -> Member:
    return Member(name, f"app-{name}", "/10.0.0.1", frozenset(owned))._replace(**changes)


def lag(reads: dict[TopicPartition, Read], *members: Member, **changes: Any) -> LagFacts:
    facts = LagFacts("billing", "Stable", members, reads, 6.0, now_ms=NOW)
    return facts._replace(**changes)


ONE = member("m1", TP0)
BOTH = member("m1", TP0, TP1)
KNOWN = PinningTransaction(4001, NOW - 90_000, Known.YES, NOW - 80_000, "pay 1", "Ongoing", 60_000)
HANGING = PinningTransaction(4002, NOW - 7_200_000, Known.NO, NOW - 7_200_000)
NIGHTLY = PipelineCommit("nightly", 7, NOW - 90_000)
LAGS: dict[str, tuple[LagFacts, str, str]] = {
    "pipeline-waits": (
        lag({TP0: read(5, 5, 9)}, state="Empty", pipeline=NIGHTLY),
        "pipeline-waits",
        "belongs to the pipeline nightly, which committed batch 7 1 min 30 s ago and nothing",
    ),
    "pipeline-too-slow": (
        lag({TP0: read(5, 6, 90, later_end=99)}, state="Empty", pipeline=NIGHTLY),
        "too-slow",
        "more cores would help",
    ),
    "pipeline-no-lag": (
        lag({TP0: read(9, 9, 9)}, state="Empty", pipeline=NIGHTLY),
        "no-lag",
        "does not lag",
    ),
    "no-lag": (lag({TP0: read(9, 9, 9)}, ONE), "no-lag", "does not lag"),
    "no-members": (lag({TP0: read(5, 5, 9)}, state="Empty"), "no-members", "no active consumers"),
    "no-commits": (lag({TP0: read(None, None, 9)}, ONE), "no-commits", "enable.auto.commit"),
    "rebalancing": (
        lag({TP0: read(5, 5, 9)}, member("m1", behind_epoch=True), state="Reconciling"),
        "rebalancing",
        "waiting for app-m1 (10.0.0.1)",
    ),
    "unsteady": (lag({TP0: read(5, 6, 9)}, ONE, changed=True), "unsteady", "members changed"),
    "lost-records": (
        lag({TP0: read(5, 5, 90, start=50)}, ONE),
        "lost-records",
        "45 records were deleted unread",
    ),
    "all-deleted": (
        lag({TP0: read(5, 5, 40, start=40), TP1: read(7, 7, 7)}, state="Empty"),
        "all-deleted",
        "lags by 35 records: its unread records in orders/0 were deleted, by retention or a",
    ),
    "all deleted, with a member": (
        lag({TP0: read(5, 5, 40, start=40)}, ONE),
        "all-deleted",
        "from where auto.offset.reset says",
    ),
    "deleted in one partition, stuck in another": (
        lag({TP0: read(5, 5, 40, start=40), TP1: read(5, 5, 9, owner="m1")}, BOTH),
        "lost-records",
        "of orders/0: 35 records were deleted unread",
    ),
    "beyond-the-end": (lag({TP0: read(95, 95, 90)}, ONE), "beyond-the-end", "created again"),
    "offline": (lag({TP0: read(5, 5, 9, leader=-1)}, ONE), "offline", "no leader"),
    "unassigned": (
        lag({TP0: read(5, 5, 9, owner=None)}, member("m1"), subscribed=frozenset({"other"})),
        "unassigned",
        "no member subscribes to orders now",
    ),
    "open-transaction": (
        lag({TP0: read(5, 5, 9, stable=5)}, ONE),
        "open-transaction",
        "a transaction is open in orders/0",
    ),
    "its coordinator knows it": (
        lag({TP0: read(5, 5, 9, stable=5, pinned_by=KNOWN)}, ONE),
        "open-transaction",
        "a transaction is open in orders/0, that of transactional id pay 1",
    ),
    "it hangs": (
        lag({TP0: read(5, 5, 9, stable=5, pinned_by=HANGING)}, ONE),
        "open-transaction",
        "that of producer 4002, which no coordinator knows: it hangs",
    ),
    "only aborted records up to the open transaction": (
        lag({TP0: read(5, 5, 9, stable=7, nothing_readable=True)}, ONE),
        "open-transaction",
        "a transaction is open in orders/0",
    ),
    "nothing-readable": (
        lag({TP0: read(5, 5, 9, nothing_readable=True)}, ONE),
        "nothing-readable",
        "nothing readable is left in orders/0: only aborted records and transaction markers",
    ),
    "nothing readable in one of two": (
        lag({TP0: read(5, 5, 9, nothing_readable=True), TP1: read(8, 9, 9)}, BOTH),
        "nothing-readable",
        "orders/0",
    ),
    "stuck-member": (
        lag({TP0: read(5, 5, 9)}, ONE),
        "stuck-member",
        "app-m1 (10.0.0.1) has committed nothing for 6 s",
    ),
    "stuck-partition": (
        lag({TP0: read(5, 5, 9), TP1: read(5, 8, 9)}, BOTH),
        "stuck-partition",
        "stuck at orders/0",
    ),
    "too-slow": (
        lag({TP0: read(5, 65, 900, later_end=1500)}, ONE),
        "too-slow",
        "10 records/s are read and 100 written",
    ),
    "catching-up": (
        lag({TP0: read(5, 305, 900, later_end=960)}, ONE),
        "catching-up",
        "done in 16 s",
    ),
    "skew": (
        lag({TP0: read(5, 5, 900), TP1: read(8, 8, 9)}, BOTH, between_s=0.0),
        "skew",
        "of the lag is in one partition, orders/0",
    ),
    "idle-members": (
        lag({TP0: read(5, 5, 9)}, ONE, member("m2"), between_s=0.0),
        "idle-members",
        "2 members for 1 partition",
    ),
    "unclear": (lag({TP0: read(5, 5, 9)}, ONE, between_s=1.0), "unclear", "--for 6"),
}


@for_each("case", LAGS)
def test_why_a_group_lags(case: str) -> None:
    facts, state, words = LAGS[case]
    explained = explain_lag(facts)
    assert (explained.state, words in explained.verdict) == (state, True), explained
    commands_parse(explained)


def shared(
    reported_lag: int, acknowledged: int = 0, *, later: int = 5, end: int = 9, **changes: Any
) -> Read:
    """A partition of a share group whose start offset was 5."""
    return read(5, later, end, reported_lag=reported_lag, acknowledged=acknowledged, **changes)


def shares(reads: dict[TopicPartition, Read], *members: Member, **changes: Any) -> LagFacts:
    return lag(reads, *members, is_share=True, **changes)


TWO = (member("m1", TP0), member("m2", TP0))
SHARE_LAGS: dict[str, tuple[LagFacts, str, str]] = {
    "what is acknowledged out of order is no lag": (
        shares({TP0: shared(0, later=5)}, ONE),
        "no-lag",
        "does not lag",
    ),
    "no-members": (shares({TP0: shared(3)}, state="Empty"), "no-members", "lags by 3 records"),
    "nothing acknowledged yet": (
        shares({TP0: read(None, None, 9)}, *TWO),
        "no-commits",
        "fail before their first acknowledgement",
    ),
    "lost-records": (
        shares({TP0: shared(85, end=90, start=50)}, *TWO),
        "lost-records",
        "its start offset is no longer in the log of orders/0: 45 records",
    ),
    "what was deleted was acknowledged": (
        shares({TP0: shared(40, end=90, start=50)}, ONE, between_s=0.0),
        "unclear",
        "lags by 40 records, without a visible cause",
    ),
    "nothing is acknowledged": (
        shares({TP0: shared(4)}, *TWO),
        "stuck-share-group",
        "nothing was acknowledged in orders/0 for 6 s",
    ),
    "one partition of two": (
        shares({TP0: shared(4), TP1: shared(4, 2, later=7)}, BOTH),
        "stuck-partition",
        "nothing was acknowledged in orders/0",
    ),
    "the first record comes again and again": (
        shares({TP0: shared(90, 30, end=120)}, *TWO),
        "held-back",
        "acknowledged in orders/0, but not the first one there",
    ),
    "too-slow": (
        shares({TP0: shared(900, 60, later=65, end=900, later_end=1500)}, *TWO),
        "too-slow",
        "10 records/s are acknowledged and 100 written; more members would help",
    ),
    "catching-up": (
        shares({TP0: shared(300, 300, later=305, end=900, later_end=960)}, *TWO),
        "catching-up",
        "done in 7.5 s",
    ),
    "an open transaction": (
        shares({TP0: shared(2, stable=7, nothing_readable=True)}, *TWO),
        "open-transaction",
        "a transaction is open in orders/0",
    ),
    "unassigned": (
        shares({TP0: shared(4, owner=None)}, member("m1"), subscribed=frozenset({"other"})),
        "unassigned",
        "no member subscribes to orders now",
    ),
    "idle-members": (
        shares({TP0: shared(4)}, ONE, member("m2"), between_s=0.0),
        "idle-members",
        "the topics they subscribe to do not exist",
    ),
}


@for_each("case", SHARE_LAGS)
def test_why_a_share_group_lags(case: str) -> None:
    facts, state, words = SHARE_LAGS[case]
    explained = explain_lag(facts)
    assert (explained.state, words in explained.verdict) == (state, True), explained
    assert not any("committed offset" in one for one in (explained.verdict, *explained.next))
    commands_parse(explained)


def test_members_of_a_share_group_share_a_partition() -> None:
    explained = explain_lag(shares({TP0: shared(4)}, *TWO, between_s=1.0))
    assert Evidence("orders/0", "lag 4, read by 2 members") in explained.evidence


def test_a_member_that_stands_still_elsewhere_is_still_named() -> None:
    facts = lag({TP0: read(5, 5, 9, nothing_readable=True), TP1: read(5, 5, 9)}, BOTH)
    also = [e.what for e in explain_lag(facts).evidence if e.about == "also"]
    assert any("committed nothing for 6 s, but orders/1 has records" in what for what in also)
    assert not any("fail again and again at the next record" in what for what in also)


@pytest.mark.parametrize(
    ("pinning", "said", "step"),
    [
        (
            KNOWN,
            ("producer 4001, open since ", "(1 min 30 s)", "pay 1 in state Ongoing, timeout 1 min"),
            "pk transactions describe 'pay 1'",
        ),
        (
            HANGING,
            ("producer 4002, open since ", "(2 h)", "no coordinator knows this transaction"),
            "pk transactions find-hanging orders",
        ),
        (
            HANGING._replace(last_ms=NOW - 120_000),
            ("it hangs",),
            "pk transactions find-hanging orders --max-transaction-timeout 1m",
        ),
        (
            PinningTransaction(4003, None, Known.UNHEARD),
            ("producer 4003", "not all coordinators answered"),
            "pk transactions producers orders",
        ),
    ],
)
def test_whose_transaction_is_open(
    pinning: PinningTransaction, said: tuple[str, ...], step: str
) -> None:
    explained = explain_lag(lag({TP0: read(5, 5, 9, stable=5, pinned_by=pinning)}, ONE))
    reported = {e.about: e.what for e in explained.evidence}
    assert all(words in reported["open in orders/0"] for words in said), reported
    assert explained.next[0] == step
    commands_parse(explained)


def test_a_reader_that_may_not_begin_has_no_commit() -> None:
    facts = lag({TP0: read(None, None, 9, stable=0, pinned_by=KNOWN)}, ONE)
    explained = explain_lag(facts)
    assert explained.state == "no-commits"
    assert any("of transactional id pay 1" in e.what for e in explained.evidence)


def test_records_deleted_unread_count_as_in_groups_lag() -> None:
    trimmed = read(5, 5, 9)._replace(start=7)
    assert lag({TP0: trimmed}, ONE, between_s=3.0).lag == 4
    assert lag({TP0: trimmed._replace(start=9)}, ONE, between_s=3.0).lag == 4


def test_a_commit_that_stood_still_for_a_moment_proves_nothing() -> None:
    assert explain_lag(lag({TP0: read(5, 5, 9)}, ONE, between_s=3.0)).state == "unclear"


def test_further_reasons_are_shown_too() -> None:
    facts = lag({TP0: read(5, 5, 9)}, ONE, member("m2"))
    explained = explain_lag(facts)
    assert explained.state == "stuck-member"
    assert any(e.about == "also" and "without partitions" in e.what for e in explained.evidence)


# Configs


def test_which_layer_won() -> None:
    layers = [
        Layer("DYNAMIC_DEFAULT_BROKER", "log.retention.ms", "1000"),
        Layer("DEFAULT", "log.retention.hours", "168"),
    ]
    facts = ConfigFacts(
        "topic orders", "topic orders", "retention.ms", "1000", layers[0].source, layers
    )
    explained = explain_config(facts)
    assert explained.verdict == (
        "retention.ms of topic orders is 1000 (1 s): set for all brokers at run time as "
        "log.retention.ms."
    )
    assert [e.what.endswith("this one wins") for e in explained.evidence] == [True, False]
    assert explained.next == ("pk configs alter broker default --delete log.retention.ms",)
    commands_parse(explained)


def test_brokers_whose_files_differ_are_named() -> None:
    layers = [Layer("STATIC_BROKER", "log.retention.ms", "1000")]
    facts = ConfigFacts(
        "topic t", "topic t", "retention.ms", "1000", "STATIC_BROKER", layers
    )._replace(differs={"1000": (1, 2), "9": (3,)})
    reported = {e.about: e.what for e in explain_config(facts).evidence}
    assert "1000 on brokers 1 and 2 and 9 on broker 3" in reported["brokers differ"]


def test_a_secret_stays_one() -> None:
    layers = [Layer("DYNAMIC_BROKER", "ssl.key.password", None)]
    facts = ConfigFacts(
        "broker 1", "broker 1", "ssl.key.password", None, "DYNAMIC_BROKER", layers, sensitive=True
    )
    assert "(secret)" in explain_config(facts).verdict


def test_prose_fits_its_width() -> None:
    explained = Explanation(
        "s", "bad", "v " * 90, [Evidence("a" * 40, "w " * 60), Evidence("b", "short")], ["pk help"]
    )
    for width in (80, 200):
        lines = prose(explained, width, color=False, bad=True).splitlines()
        assert max(map(len, lines)) <= min(width, 100)


# On real clusters


def test_a_partition_of_a_cluster(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("whole")
    at("topics", "create", name, "-p", "2")
    # Apache Kafka confirms new topics before their leaders can answer requests for log ends.
    assert at("topics", "offsets", name).code == 0
    ran = at("why", "partition", f"{name}/1", "-f", "json")
    assert ran.code == 0, ran.err
    (reported,) = ran.json
    assert (reported["partition"], reported["state"]) == (f"{name}/1", "healthy")
    assert at("why", "partition", name).err == f"Every partition of {name} is healthy.\n"
    missing = at("why", "partition", f"{name}/7")
    assert missing.code == 1 and "has no partition 7" in missing.err
    unknown = at("why", "partition", f"{name}x/0")
    assert unknown.code == 1 and "did you mean" in unknown.err and name in unknown.err
    assert at("why", "partition", "x/y").code == 2


def test_a_group_without_members(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name, reader = fresh("unread"), fresh("stopped")
    at("topics", "create", name)
    at("produce", name, stdin=b"a\nb\n")
    at("groups", "reset-offsets", reader, "-t", name, "--to", "start", "-y")
    ran = at("why", "lag", reader, "-f", "json")
    assert (ran.code, ran.json[0]["state"], ran.json[0]["lag"]) == (0, "no-members", 2)
    text = at("why", "lag", reader).text
    assert "no active consumers" in text and "the next record is" in text
    at("groups", "reset-offsets", reader, "-t", name, "--to", "end", "-y")
    assert at("why", "lag", reader, "-f", "json").json[0]["state"] == "no-lag"
    unknown = at("why", "lag", f"{reader}x")
    assert unknown.code == 1 and "did you mean" in unknown.err and reader in unknown.err


def test_a_share_group(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("jobs")
    assert at("topics", "create", name, "-p", "1").code == 0
    key = "share.auto.offset.reset=earliest"
    assert at("configs", "alter", "group", name, "-c", key, "-y").code == 0
    at("produce", name, stdin=b"a\nb\nc\n")
    taken = at("consume", name, "-g", name, "--share", "-n", "2", "--timeout-ms", "60000")
    assert len(taken.lines) == 2
    (reported,) = at("why", "lag", name, "-f", "json").json
    assert (reported["state"], reported["lag"]) == ("no-members", 1)
    with running("consume", "--share", name, "-g", name, "-b", kafka.bootstrap) as process:
        assert process.stdout is not None and process.stdout.readline() == "c\n"
        assert at("wait", "lag", name, "--max", "0", "--timeout", "60s").code == 0
        (reported,) = at("why", "lag", name, "-f", "json").json
    assert (reported["state"], reported["lag"]) == ("no-lag", 0)
    assert reported["evidence"][0]["what"] == "Stable, 1 member, 1 with partitions"


def test_a_group_with_an_idle_member(at: Run, kafka: Kafka, fresh: Fresh, terminal: Start) -> None:
    name, reader = fresh("narrow"), fresh("crowd")
    at("topics", "create", name)
    words = ("consume", name, "-g", reader, "-b", kafka.bootstrap)
    members = [terminal(*words), terminal(*words)]
    deadline = time.monotonic() + 60
    while True:
        (group,) = at("groups", "describe", reader, "-s", "-f", "json").json or [{}]
        if group.get("members") == 2 and group["state"] == "Stable":
            break
        assert time.monotonic() < deadline, group
        for one in members:
            one.read(0.05)
    (reported,) = at("why", "lag", reader, "--for", "0", "-f", "json").json
    assert reported["evidence"][0]["what"] == "Stable, 2 members, 1 with partitions"
    for one in members:
        one.keys("ctrl-c")


def test_the_layers_of_a_config(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("configured")
    at("topics", "create", name, "-c", "retention.ms=60000")
    (reported,) = at("why", "config", name, "retention.ms", "-f", "json").json
    assert (reported["value"], reported["source"]) == ("60000", "TOPIC")
    assert [layer["wins"] for layer in reported["layers"]].count(True) == 1
    assert reported["next"] == [f"pk configs alter topic {name} --delete retention.ms"]
    (reported,) = at("why", "config", name, "cleanup.policy", "-f", "json").json
    assert reported["source"] == "DEFAULT"
    wrong = at("why", "config", name, "retention.mss")
    assert wrong.code == 1 and "did you mean retention.ms" in wrong.err
    broker = at("brokers", "list", "-f", "name").lines[0]
    (reported,) = at(
        "why", "config", "--type", "broker", broker, "num.io.threads", "-f", "json"
    ).json
    assert reported["resource"] == f"broker {broker}"
    assert at("why", "config", "--type", "broker", "one", "num.io.threads").code == 2


@pytest.mark.parametrize(
    "size", [SIZES[0], pytest.param(SIZES[1], marks=pytest.mark.slow)], ids=size_name
)
def test_on_a_terminal(
    terminal: Start, at: Run, kafka: Kafka, fresh: Fresh, size: tuple[int, int]
) -> None:
    name = fresh("shown")
    at("topics", "create", name)
    # Apache Kafka confirms new topics before their leaders can answer requests for log ends.
    assert at("topics", "offsets", name).code == 0
    one = terminal(
        "why", "partition", f"{name}/0", "-b", kafka.bootstrap, columns=size[0], lines=size[1]
    )
    assert one.end() == 0
    assert "min.insync.replicas" in one.screen() and one.colors
    assert one.traces() == []


@pytest.fixture
def transactional(kafka: Kafka) -> Callable[[str], confluent_kafka.Producer]:
    """A producer whose transactional id is the name, in a transaction that has written one record
    to that topic."""

    def begin(name: str) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": kafka.bootstrap, "transactional.id": name, "log_level": 0}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(name, b"unfinished")
        assert producer.flush(60) == 0
        return producer

    return begin


Begin = Callable[[str], confluent_kafka.Producer]


def test_an_open_transaction_holds_readers_up(at: Run, fresh: Fresh, transactional: Begin) -> None:
    topic, group = fresh("held"), fresh("waiting")
    at("topics", "create", topic)
    producer = transactional(topic)
    try:
        at("groups", "reset-offsets", group, "-t", topic, "--to", "start", "-y")
        (reported,) = at("why", "lag", group, "-f", "json").json
        assert any(f"a transaction is open in {topic}/0" in e["what"] for e in reported["evidence"])
        assert f"pk transactions producers {topic}" in reported["next"]
        assert f"pk transactions describe {topic}" in reported["next"]
        (listed,) = at("transactions", "list", topic, "-f", "json").json
        whose = {e["about"]: e["what"] for e in reported["evidence"]}[f"open in {topic}/0"]
        assert whose.startswith(f"producer {listed['producer_id']}, open since 20")
        assert f"transactional id {topic} in state Ongoing, timeout 1 min" in whose
        fine = at("doctor", "--check", "hanging-transactions", "-f", "json")
        assert all(topic not in str(found) for found in fine.json)
    finally:
        producer.abort_transaction(60)


@pytest.mark.usefixtures("unverified")
def test_a_transaction_that_hangs_is_told_from_one_that_is_open(
    at: Run, kafka: Kafka, fresh: Fresh
) -> None:
    topic, group = fresh("hung"), fresh("waiting")
    at("topics", "create", topic)
    trio.run(hang, kafka.bootstrap, topic)
    try:
        at("groups", "reset-offsets", group, "-t", topic, "--to", "start", "-y")
        (reported,) = at("why", "lag", group, "-f", "json").json
        whose = {e["about"]: e["what"] for e in reported["evidence"]}[f"open in {topic}/0"]
        assert re.search(r"\(1 h \d+ min\)", whose) and "it hangs" in whose
        assert f"pk transactions find-hanging {topic}" in reported["next"]
        (row,) = at("transactions", "find-hanging", topic, "-f", "json").json
        assert whose.startswith(f"producer {row['producer_id']},")
    finally:
        at("transactions", "abort", "-t", f"{topic}:0", "--start-offset", "0", "-y")


@pytest.mark.thorough
def test_aborted_records_alone_are_nothing_to_read(
    at: Run, kafka: Kafka, fresh: Fresh, transactional: Begin
) -> None:
    topic, group = fresh("aborted"), fresh("done")
    at("topics", "create", topic)
    producer = transactional(topic)
    producer.abort_transaction(60)
    wait_for_marks(kafka, topic, 2)
    at("groups", "reset-offsets", group, "-t", topic, "--to", "start", "-y")
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    try:
        reader.subscribe([topic])
        deadline = time.monotonic() + 60
        while not reader.assignment():
            assert reader.poll(0.2) is None
            assert time.monotonic() < deadline
        (reported,) = at("why", "lag", group, "-f", "json").json
        assert (reported["state"], reported["lag"]) == ("nothing-readable", 2), reported
        assert f"nothing readable is left in {topic}/0" in reported["verdict"]
        assert not any("consume" in step for step in reported["next"])
        at("produce", topic, "one more")
        (reported,) = at("why", "lag", group, "-f", "json").json
        assert reported["state"] == "stuck-member", reported
    finally:
        reader.close()


# On a cluster whose brokers differ


@pytest.mark.slow
def test_a_retention_that_one_broker_has_is_not_taken_for_the_others(
    pk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    week = "604800000"
    with PkCluster(2) as cluster:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", cluster.bootstrap)
        made = pk("topics", "create", "orders", "--replica-assignment", "1,2")
        assert made.code == 0, made.err
        old = b'{"value": "old", "timestamp": 1500000000000}\n'
        assert pk("produce", "orders", "-p", "0", "-f", "jsonl", stdin=old).code == 0
        assert pk("produce", "orders", "-p", "1", "new").code == 0
        moved = pk("groups", "reset-offsets", "late", "-t", "orders", "--to", "start", "-y")
        assert moved.code == 0, moved.err
        altered = pk("configs", "alter", "broker", "1", "-c", "log.retention.ms=3600000", "-y")
        assert altered.code == 0, altered.err
        for broker in cluster.brokers:  # whichever broker is asked
            monkeypatch.setenv("PK_BOOTSTRAP_SERVER", f"127.0.0.1:{cluster.port(broker)}")
            (risk,) = pk("doctor", "--check", "retention-risk", "-f", "json").json
            assert "(orders/0, retention 1 h)" in risk["what"]
            assert risk["fix"] == f"pk configs alter topic orders -c retention.ms={week}"
            words = ("why", "config", "orders", "retention.ms", "-f", "json")
            (reported,) = check_json(words, pk(*words).out)
            assert reported["verdict"] == (
                "retention.ms of topic orders depends on the broker that leads the partition:"
                f" 3600000 (1 hour) on broker 1 and {week} (7 days) on broker 2."
            )
            assert reported["next"] == ["pk configs alter broker 1 --delete log.retention.ms"]
            assert (reported["value"], reported["source"]) == (None, "BY_LEADER")
        assert pk("configs", "alter", "topic", "orders", "-c", "retention.ms=1000", "-y").code == 0
        (reported,) = pk("why", "config", "orders", "retention.ms", "-f", "json").json
        assert (
            reported["verdict"] == "retention.ms of topic orders is 1000 (1 s): set on the topic."
        )
        assert reported["next"] == ["pk configs alter topic orders --delete retention.ms"]


# On a cluster that loses brokers


@pytest.mark.slow
@pytest.mark.usefixtures("usual_patience")
def test_a_broker_that_is_killed_and_returns(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with PkCluster(3, config={"broker.session.timeout.ms": "2000"}) as cluster:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", cluster.bootstrap)
        pk("topics", "create", "orders", "-r", "3", "-c", "min.insync.replicas=3")
        pk("topics", "create", "single", "-p", "3", "-r", "1")
        assert pk("wait", "isr").code == 0
        assert pk("doctor", "--check", "under-replicated").code == 0
        cluster.pause(3)
        (reported,) = pk("why", "partition", "orders/0", "-f", "json").json
        assert reported["state"] in ("silent", "under-min-isr"), reported
        assert "does not answer" in reported["verdict"] or "is fenced" in reported["verdict"]
        cluster.resume(3)
        assert pk("wait", "isr", "--timeout", "60s").code == 0
        cluster.kill(3)
        deadline = time.monotonic() + 60
        while True:
            (reported,) = pk("why", "partition", "orders/0", "-f", "json").json
            if reported["state"] == "under-min-isr":
                break
            assert time.monotonic() < deadline, reported
        assert "broker 3 is" in reported["verdict"]
        evidence = {e["about"]: e["what"] for e in reported["evidence"]}
        assert "last seen" in evidence["replica 3"]
        assert "acks=all is refused" in evidence["min.insync.replicas"]
        found = {f["check"] for f in pk("doctor", "-f", "json").json}
        assert {"brokers-down", "under-min-isr", "offline-partitions", "single-replica"} <= found
        (offline,) = pk("why", "partition", "single", "-f", "json").json
        assert offline["state"] == "offline"
        away = pk("doctor", "--check", "offline-partitions", "-f", "json")
        assert away.code == 1 and offline["partition"] in away.json[0]["subjects"]
        cluster.start(3)
        waited = pk("wait", "isr", "--timeout", "60s")
        assert waited.code == 0, waited.err
        (reported,) = pk("why", "partition", "orders/0", "-f", "json").json
        assert reported["state"] in ("healthy", "not-preferred")
        assert pk("doctor", "--check", "under-replicated", "--check", "brokers-down").code == 0
