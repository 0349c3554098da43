"""Each guard of a profile applies to each command that changes a cluster: no command can forget it.

For every such command of the tree, `CHANGES` has a change that would really take effect. The test
tries it under each guard, and makes it under the last one. The other guards must prevent the
change, so that it is still to be made under the next guard.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from clients.fixtures import Kafka, fresh_name
from clients.pk_cluster import PkCluster
from terminal import on_terminal

from pk.cli.command_line.tree import commands, tree
from pk.cli.exits import Refused
from pk.cli.main import main
from pk.cli.options.option_values import Values
from pk.cli.runtime.context import Context
from pk.cli.runtime.guards import forbid_changes
from pk.cli.runtime.settings import Profile, Settings
from pk.cli.terminal.streams import Streams
from pk.core.wire.index import MESSAGES

Run = Callable[..., Any]


class Change(NamedTuple):
    """A change of a topic {t} with a record, of a group {g} with commits there, or of a user
    {u}."""

    words: str
    typed: str | None = "{t}"
    """The text that a guard wants typed: the name of the resource, or of the profile if several
    change. None if the command asks no question, like Apache's tool of that name."""

    before: tuple[str, ...] = ()
    """Commands that prepare it."""

    refused: str = "read-only by its profile; nothing was changed"
    """The error if the profile is read-only."""

    stdin: bytes = b""
    """Standard input of the command, and of those in `before`."""


SEVERAL = "guarded"
"""The name of the profile, which confirms a change of several resources."""

# Its undo has number 2: number 1 belongs to the reset that created the group's commits.
RESET = "groups reset-offsets {g} -t {t} --to end -y"
CHANGES = {
    "topics create": Change("topics create {t}-new", None),
    "topics alter": Change("topics alter {t} -c retention.ms=70000"),
    "topics delete": Change("topics delete {t}"),
    "topics add-partitions": Change("topics add-partitions {t} -n 1"),
    "topics trim": Change("topics trim {t} -o end"),
    "produce": Change("produce {t} another", None),
    "cp": Change("cp {t} {t}-copy --once", "{t}-copy", ("topics create {t}-copy",)),
    "groups reset-offsets": Change("groups reset-offsets {g} -t {t} --to end", "{g}"),
    "groups undo": Change("groups undo 2", "{g}", (RESET,)),
    "groups delete": Change("groups delete {g}", "{g}"),
    "groups delete-offsets": Change("groups delete-offsets {g} -t {t}", "{g}"),
    "undo": Change("undo 2", "{g}", (RESET,)),
    "configs alter": Change("configs alter topic {t} -c retention.ms=70000"),
    "configs edit": Change("configs edit topic {t} --file {edited}"),
    "users add": Change("users add {u}", "{u}", stdin=b"secret\n"),
    "users alter": Change("users alter {u}", "{u}", ("users add {u} -y",), stdin=b"secret\n"),
    "users delete": Change("users delete {u}", "{u}", ("users add {u} -y",), stdin=b"secret\n"),
    "quotas set": Change("quotas set --user {u} producer_byte_rate=1000000000", "{u}"),
    "quotas delete": Change(
        "quotas delete --user {u}",
        "{u}",
        ("quotas set --user {u} producer_byte_rate=1000000000 -y",),
    ),
    "perf produce": Change("perf produce -t {t} -n 10", None),
    "perf consume": Change("perf consume -n 10", None),
    "perf e2e": Change("perf e2e -n 5", None),
    "reassign throttle": Change(
        "reassign throttle --remove",
        SEVERAL,
        ("configs alter broker 1 -c leader.replication.throttled.rate=1000000 -y",),
    ),
}
OF_TWO_BROKERS = {
    "groups remove-members": Change("groups remove-members {member} --all", "{member}"),
    "partitions elect-leaders": Change(
        "partitions elect-leaders {t}",
        "{t}",
        ("reassign apply --set {t}/0=2,1 -y", "wait isr {t}", "RESTART", "wait isr {t}"),
    ),
    "reassign apply": Change("reassign apply --set {t}/0=2", "{t}"),
    "reassign rollback": Change(
        "reassign rollback", "{t}", ("reassign apply --set {t}/0=2 -y", "wait reassign")
    ),
    "reassign cancel": Change(
        "reassign cancel {t}", SEVERAL, ("PAUSE", "reassign apply --set {t}/0=2 -y --detach")
    ),
}
ELSEWHERE = {
    "cluster features": "tests/cli/test_cluster_health.py",
    "cluster restore": "tests/clients/test_cluster_restore.py",
    "log adopt": "tests/cli/test_log.py",
    "spark-export": "tests/cli/test_spark_export.py",
    "spark export": "tests/cli/test_spark_export.py",
    "spark import": "tests/cli/test_spark_import.py",
    "spark-import": "tests/cli/test_spark_import.py",
    "transactions abort": "tests/cli/test_transactions.py",
    "acls add": "tests/cli/test_acls.py",
    "acls delete": "tests/cli/test_acls.py",
    "users tokens create": "tests/cli/test_tokens.py",
    "users tokens renew": "tests/cli/test_tokens.py",
    "users tokens expire": "tests/cli/test_tokens.py",
    "test faults add": "tests/cli/test_faults.py",
    "test faults clear": "tests/cli/test_faults.py",
    "profile delete": "tests/cli/test_profiles.py",
    "schema add": "tests/cli/test_schema.py",
    "schema delete": "tests/cli/test_schema.py",
}
"""Commands tested elsewhere: some change no cluster, our cluster has no feature to change, ACLs
need an authorizer, tokens need a login, and faults need a broker that enables them."""


def test_no_change_is_missing() -> None:
    changing = {
        " ".join(path)
        for path, command in commands(tree())
        if "dry_run" in {option.dest for option in command.options}
    }
    assert changing == set(CHANGES) | set(OF_TWO_BROKERS) | set(ELSEWHERE)
    root = Path(__file__).resolve().parents[2]
    for words, file in ELSEWHERE.items():
        assert words.split()[-1] in (root / file).read_text()


READING = """
ApiVersions ConsumerGroupDescribe DescribeAcls DescribeClientQuotas DescribeCluster
DescribeConfigs DescribeDelegationToken DescribeGroups DescribeLogDirs DescribeProducers
DescribeQuorum DescribeShareGroupOffsets DescribeTopicPartitions DescribeTransactions
DescribeUserScramCredentials Fetch FetchSnapshot FindCoordinator GetTelemetrySubscriptions
ListConfigResources ListGroups ListOffsets ListPartitionReassignments ListTransactions Metadata
OffsetFetch OffsetForLeaderEpoch PkRemoteStorage ReadShareGroupState
ReadShareGroupStateSummary SaslAuthenticate SaslHandshake ShareGroupDescribe StreamsGroupDescribe
"""
CHANGING = """
AddOffsetsToTxn AddPartitionsToTxn AllocateProducerIds AlterClientQuotas
AlterConfigs AlterPartition AlterPartitionReassignments AlterReplicaLogDirs
AlterShareGroupOffsets AlterUserScramCredentials AssignReplicasToDirs
BrokerHeartbeat BrokerRegistration ConsumerGroupHeartbeat ControllerRegistration CreateAcls
CreateDelegationToken CreatePartitions CreateTopics DeleteAcls DeleteGroups DeleteRecords
DeleteShareGroupOffsets DeleteShareGroupState DeleteTopics ElectLeaders EndTxn
Envelope ExpireDelegationToken Heartbeat IncrementalAlterConfigs InitProducerId
InitializeShareGroupState JoinGroup LeaveGroup OffsetCommit OffsetDelete PkReplicaLogs
PkRestoreTopics Produce
PushTelemetry RenewDelegationToken ShareAcknowledge ShareFetch
ShareGroupHeartbeat StreamsGroupHeartbeat SyncGroup TxnOffsetCommit UnregisterBroker
UpdateFeatures WriteShareGroupState WriteTxnMarkers
"""
BOTH: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "PkFaults": ({"action": "list"}, {"action": "add"}),
    "PkUncleanRecovery": ({}, {"leader_id": 1}),
}
"""APIs whose requests may or may not change something: an example of either kind."""


def test_every_api_is_known_to_read_or_is_forbidden_to_a_reader() -> None:
    known = [*f"{READING} {CHANGING}".split(), *BOTH]
    assert sorted(known) == sorted(api.name for api in MESSAGES.values())
    profile = Profile("ro", guard="readonly")
    context = Context(Values(), ("topics", "list"), Streams())
    context.use(Settings("127.0.0.1:9092", {}, {}, profile))
    check = forbid_changes(context)
    for api in MESSAGES.values():
        if api.name in READING.split():
            check(api.request())
            continue
        looks, changes = BOTH.get(api.name, (None, {}))
        if looks is not None:
            check(api.request(**looks))
        with pytest.raises(Refused, match="read-only by its profile"):
            check(api.request(**changes))
        if "validate_only" in api.request.FIELDS:
            dry: dict[str, Any] = {"validate_only": True}
            check(api.request(**dry))


class World(NamedTuple):
    """A cluster with a topic and a group to change, and a profile for it under each guard."""

    run: Run
    names: dict[str, str]

    def tried(self, change: Change, guard: str, *more: str) -> Any:
        self.run("profile", "add", SEVERAL, "--guard", guard, "-y")
        return self.run(*self.words(change), *more, "--profile", SEVERAL, stdin=change.stdin)

    def words(self, change: Change) -> list[str]:
        return change.words.format(**self.names).split()


@pytest.fixture
def world(pk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], World]:
    def make(bootstrap: str) -> World:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", bootstrap)
        monkeypatch.setenv("EDITOR", "true")
        (tmp_path / "edited").write_text("retention.ms=90000\n")
        names = {name: fresh_name("guard") for name in ("t", "g", "u", "member")}
        names["edited"] = str(tmp_path / "edited")
        for words in (
            "topics create {t}",
            "produce {t} a-record",
            "groups reset-offsets {g} -t {t} --to start -y",
        ):
            made = pk(*words.format(**names).split())
            assert made.code == 0, made.err
        pk("profile", "add", SEVERAL, "-b", bootstrap)
        return World(pk, names)

    return make


def assert_guarded(world: World, change: Change, prepare: Callable[[str], None]) -> None:
    for words in change.before:
        prepare(words)
    readonly = world.tried(change, "readonly", *(("-y",) if change.typed else ()))
    assert (readonly.code, change.refused in readonly.err) == (5, True), readonly.err
    if change.typed is not None:
        for guard in ("confirm", "type-name"):
            asked = world.tried(change, guard)
            assert asked.code == 5, (guard, asked.text, asked.err)
            assert "Nothing was changed: there is no terminal for the question" in asked.err
        insisted = world.tried(change, "insist", "-y")
        assert insisted.code == 5, (insisted.text, insisted.err)
        assert (
            "requires an answer typed at a terminal, and -y is not enough"
            in insisted.err.replace("\n", " ")
        )
        words = (*world.words(change), "--profile", SEVERAL)
        typed = change.typed.format(**world.names)
        wrong = on_terminal(main, words, typed="yes\n")
        assert wrong.code == 5, wrong.screen
        assert f"Type {typed} to continue" in wrong.screen.replace("\n", " "), wrong.screen
    made = world.tried(change, "none")
    assert made.code == 0, made.err


@pytest.mark.parametrize("name", CHANGES)
def test_every_guard_holds(pk_kafka: Kafka, world: Callable[[str], World], name: str) -> None:
    here = world(pk_kafka.bootstrap)

    def prepare(words: str) -> None:
        ran = here.run(*words.format(**here.names).split(), stdin=CHANGES[name].stdin)
        assert ran.code == 0, ran.err

    assert_guarded(here, CHANGES[name], prepare)


@pytest.fixture(scope="module")
def two() -> Iterator[PkCluster]:
    with PkCluster(2, config={"broker.session.timeout.ms": "60000"}) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.usefixtures("usual_patience")
@pytest.mark.parametrize("name", OF_TWO_BROKERS)
def test_every_guard_holds_on_two_brokers(
    two: PkCluster, world: Callable[[str], World], name: str
) -> None:
    here = world(two.bootstrap)
    with contextlib.ExitStack() as stack:

        def prepare(words: str) -> None:
            if words == "PAUSE":
                two.pause(2)
                stack.callback(two.resume, 2)
                return
            if words == "RESTART":  # the former leader does not become leader by itself
                two.stop(2)
                two.start(2)
                return
            ran = here.run(*words.format(**here.names).split())
            assert ran.code == 0, ran.err

        prepare("reassign apply --set {t}/0=1 -y")
        if "{member}" in OF_TWO_BROKERS[name].words:
            stack.enter_context(member_of(two.bootstrap, here.names["member"], here.names["t"]))
        assert_guarded(here, OF_TWO_BROKERS[name], prepare)


@contextlib.contextmanager
def member_of(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A member that has joined and got its partition. It does not leave when it is removed."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    while consumer.poll(0.1) is None:
        pass
    try:
        yield
    finally:
        consumer.close()
