"""`pk acls`, against a broker of pk's with an authorizer. Apache's flags have the same meaning as
in kafka-acls."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from clients import apache_kafka
from clients.pk_broker import PkBroker

from pk.cli.runtime import undo_log
from pk.core.config.views import STANDARD_AUTHORIZER

Run = Callable[..., Any]
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def broker() -> Iterator[PkBroker]:
    with PkBroker(config=AUTHORIZER, memory=True) as started:
        yield started


@pytest.fixture
def acls(broker: PkBroker, pk: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """`acls("add --allow alice …")` at a broker without ACLs."""
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", broker.bootstrap)

    def run(words: str) -> Any:
        return pk("acls", *shlex.split(words))

    yield run
    run("delete --principal alice --principal bob --principal '*' -y")
    assert known(run) == []


def known(acls: Run, words: str = "") -> list[str]:
    """The ACLs that `pk acls list` shows, one a line."""
    listed = acls(f"list {words} -f json")
    assert listed.code == 0, listed.err
    return [
        f"{row['permission']} {row['principal']} {row['operation']} "
        f"{row['resource_type']}:{row['pattern']}:{row['resource']} from {row['host']}"
        for row in listed.json
    ]


def added(acls: Run, words: str) -> Any:
    ran = acls(f"add {words} -y -f json")
    assert ran.code == 0, ran.err
    assert {row["result"] for row in ran.json} <= {"added", "exists already"}
    return ran


def test_an_acl_comes_and_goes(acls: Run) -> None:
    ran = added(acls, "--allow alice --operation write --topic orders")
    assert "This adds 1 ACL:\n  allow User:alice WRITE on topic orders\n" in ran.err
    one = {
        "principal": "User:alice",
        "permission": "ALLOW",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource": "orders",
        "pattern": "LITERAL",
        "host": "*",
    }
    assert ran.json == [{**one, "result": "added", "error": None}]
    assert acls("list -f json").json == [one]
    again = added(acls, "--allow alice --operation write --operation read --topic orders")
    assert [row["result"] for row in again.json] == ["exists already", "added"]
    gone = acls("delete --allow alice --operation write --topic orders -y -f json")
    assert gone.code == 0 and gone.json == [{**one, "result": "deleted", "error": None}]
    assert known(acls) == ["ALLOW User:alice READ TOPIC:LITERAL:orders from *"]
    acls("delete --principal alice -y")
    none = acls("delete --principal alice -y")
    assert (none.code, "No ACL matches" in none.err) == (1, True)


ORDERS = "TOPIC:LITERAL:orders from *"


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        ("--allow alice --topic orders", [f"ALLOW User:alice ALL {ORDERS}"]),
        (
            (
                "--allow-principal User:alice --allow-host 192.0.2.7 --deny-principal User:bob "
                "--deny-host 192.0.2.8 --operation Read --group g --resource-pattern-type "
                "prefixed --force"
            ),
            [
                "ALLOW User:alice READ GROUP:PREFIXED:g from 192.0.2.7",
                "DENY User:bob READ GROUP:PREFIXED:g from 192.0.2.8",
            ],
        ),
        (
            (
                "--allow-principal User:alice --producer --idempotent --topic orders "
                "--transactional-id tx"
            ),
            [
                f"ALLOW User:alice WRITE {ORDERS}",
                f"ALLOW User:alice CREATE {ORDERS}",
                f"ALLOW User:alice DESCRIBE {ORDERS}",
                "ALLOW User:alice IDEMPOTENT_WRITE CLUSTER:LITERAL:kafka-cluster from *",
                "ALLOW User:alice WRITE TRANSACTIONAL_ID:LITERAL:tx from *",
                "ALLOW User:alice DESCRIBE TRANSACTIONAL_ID:LITERAL:tx from *",
            ],
        ),
        (
            "--allow alice --consumer --topic orders --group billing",
            [
                f"ALLOW User:alice READ {ORDERS}",
                f"ALLOW User:alice DESCRIBE {ORDERS}",
                "ALLOW User:alice READ GROUP:LITERAL:billing from *",
            ],
        ),
        (
            "--deny '*' --operation alter-configs --cluster --pattern prefixed --host ::1",
            ["DENY User:* ALTER_CONFIGS CLUSTER:LITERAL:kafka-cluster from ::1"],
        ),
        (
            (
                "--allow alice --user-principal bob --operation CreateTokens --operation "
                "describe_tokens"
            ),
            [
                "ALLOW User:alice CREATE_TOKENS USER:LITERAL:User:bob from *",
                "ALLOW User:alice DESCRIBE_TOKENS USER:LITERAL:User:bob from *",
            ],
        ),
        (
            "--allow alice --delegation-token t1 --operation describe",
            ["ALLOW User:alice DESCRIBE DELEGATION_TOKEN:LITERAL:t1 from *"],
        ),
    ],
)
def test_options_stand_for_acls(acls: Run, words: str, rules: list[str]) -> None:
    ran = added(acls, words)
    assert sorted(known(acls)) == sorted(rules)
    assert "To undo it: pk undo" in ran.err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", ["orders", "orders-eu", "ord", "*"]),
        ("--topic orders", ["orders"]),
        ("--topic orders --pattern match", ["orders", "ord", "*"]),
        ("--topic ord", ["ord"]),
        ("--topic ord --pattern literal", []),
        ("--pattern prefixed", ["ord"]),
        ("--principal bob", ["orders-eu"]),
        ("--principal bob --principal '*'", ["orders-eu", "*"]),
        ("--deny '*'", ["*"]),
        ("--allow '*'", []),
        ("--host 192.0.2.7", ["ord"]),
        ("--operation read", ["orders", "ord"]),
        ("--operation read --operation all", ["orders", "ord", "*"]),
        ("--group orders", []),
    ],
)
def test_a_list_is_filtered(acls: Run, words: str, found: list[str]) -> None:
    added(acls, "--allow alice --operation read --topic orders")
    added(acls, "--allow bob --operation write --topic orders-eu")
    added(acls, "--allow alice --operation read --topic ord --pattern prefixed --host 192.0.2.7")
    added(acls, "--deny '*' --topic '*'")
    names = [row["resource"] for row in acls(f"list {words} -f json").json]
    assert sorted(names) == sorted(found)


def test_what_is_deleted_is_what_is_listed_and_only_with_a_filter(acls: Run) -> None:
    added(acls, "--allow alice --consumer --topic orders --group billing")
    added(acls, "--allow alice --operation alter --topic orders")
    for words in ("delete -y", "delete --pattern any -y"):
        refused = acls(words)
        assert (refused.code, "Nothing was deleted" in refused.err) == (2, True)
    assert len(known(acls)) == 4
    gone = acls("delete --allow alice --consumer --topic orders --group billing -y -f json")
    assert len(gone.json) == 3
    assert known(acls) == [f"ALLOW User:alice ALTER {ORDERS}"]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [("", ["PREFIXED"]), ("--pattern any", []), ("--pattern prefixed", ["LITERAL"])],
)
def test_rules_of_a_prefix_are_deleted_only_on_request(
    acls: Run, pattern: str, left: list[str]
) -> None:
    added(acls, "--allow alice --operation write --topic orders")
    added(acls, "--allow alice --operation write --topic orders --pattern prefixed")
    gone = acls(f"delete --allow alice --operation write --topic orders {pattern} -y")
    assert gone.code == 0, gone.err
    assert [row["pattern"] for row in acls("list -f json").json] == left


def test_a_dry_run_changes_nothing(acls: Run) -> None:
    tried = acls("add --allow alice --topic orders -d -f json")
    assert (tried.code, [r["result"] for r in tried.json]) == (0, ["would be added"])
    assert known(acls) == []
    added(acls, "--allow alice --topic orders")
    tried = acls("delete --topic orders -d -f json")
    assert (tried.code, [r["result"] for r in tried.json]) == (0, ["would be deleted"])
    assert len(known(acls)) == 1


def test_without_a_yes_or_with_a_guard_nothing_happens(
    acls: Run, pk: Run, broker: PkBroker
) -> None:
    assert acls("add --allow alice --topic orders").code == 5
    pk("profile", "add", "guarded", "-b", broker.bootstrap, "--guard", "readonly")
    assert acls("add --allow alice --topic orders -y --profile guarded").code == 5
    assert known(acls) == [] and not undo_log.history()
    added(acls, "--allow alice --topic orders")
    assert acls("delete --topic orders").code == 5
    assert acls("delete --topic orders -y --profile guarded").code == 5
    assert len(known(acls)) == 1


def test_changes_are_undone_both_ways(acls: Run, pk: Run) -> None:
    added(acls, "--allow alice --operation read --topic orders")
    ran = added(acls, "--allow alice --operation read --operation write --topic orders")
    assert "To undo it: pk undo 2" in ran.err
    both = known(acls)
    tried = pk("undo", "last", "-d", "-f", "json")
    assert [row["result"] for row in tried.json] == ["would be deleted"]
    assert known(acls) == both
    undone = pk("undo", "last", "-y", "-f", "json")
    assert (undone.code, [row["result"] for row in undone.json]) == (0, ["deleted"]), undone.err
    left = [f"ALLOW User:alice READ {ORDERS}"]
    assert known(acls) == left, "what the change found is not its own"
    acls("delete --topic orders -y")
    back = pk("undo", "last", "-y", "-f", "json")
    assert (back.code, [row["result"] for row in back.json]) == (0, ["added"]), back.err
    assert known(acls) == left


def test_json_is_as_its_schema_says(acls: Run, pk: Run) -> None:
    lines = (
        "acls add --allow alice --topic orders -y",
        "acls list",
        "acls check alice read orders",
        "acls delete --topic orders -y",
        "undo last -y",
    )
    for line in lines:
        schema = json.loads(pk(*line.split(), "-f", "schema").out)
        rows = pk(*line.split(), "-f", "json").json
        assert len(rows) == 1, line
        jsonschema.Draft202012Validator(schema).validate(rows)


def test_a_check_answers_by_its_exit_code(acls: Run, pk: Run) -> None:
    added(acls, "--allow alice --operation write --topic orders")
    added(acls, "--deny alice --operation write --topic orders --host 192.0.2.7")
    for words, code in (
        ("alice write topic:orders", 0),
        ("User:alice Describe orders", 0),
        ("alice read topic:orders", 1),
        ("alice write topic:orders --host 192.0.2.7", 1),
        ("alice write topic:orders --host 192.0.2.8", 0),
        ("bob write orders", 1),
        ("alice write group:orders", 1),
        ("alice wirte orders", 2),
    ):
        asked = acls(f"check {words} -f json")
        assert asked.code == code, (words, asked.err)
        if code < 2:
            assert [row["allowed"] for row in asked.json] == [code == 0]
            assert pk("why", "denied", *words.split()).code == code


def test_the_command_that_why_denied_suggests_helps(acls: Run, pk: Run) -> None:
    added(acls, "--deny '*' --operation all --topic ord --pattern prefixed")
    asked = ("why", "denied", "alice", "describe_configs", "topic:orders", "-f", "json")
    for state in ("denied", "no_rules"):
        (found,) = pk(*asked).json
        assert found["state"] == state
        (step,) = found["next"]
        ran = pk(*shlex.split(step)[1:], "-y")
        assert ran.code == 0, (step, ran.err)
    assert pk(*asked).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("add --topic orders", "Give a principal"),
        ("add --allow alice", "Give a resource"),
        ("add --allow : --topic orders", "TYPE:NAME"),
        ("add --allow alice --topic ''", "--topic needs a name"),
        ("add --allow alice --topic t --host example.com", "IP address"),
        ("add --allow alice --deny-host 192.0.2.7 --topic t", "--deny-host needs --deny"),
        ("add --allow alice --topic t --operation wirte", "did you mean write?"),
        ("add --allow alice --group g --operation write", "A group has no operation WRITE"),
        ("add --allow alice --topic '*' --pattern prefixed", "leave out --pattern"),
        ("add --allow alice --producer --group g", "--producer needs --topic"),
        ("add --allow alice --producer --topic t --group g", "does not use --group"),
        ("add --allow alice --producer --topic t --operation read", "leave out --operation"),
        ("add --deny alice --producer --topic t", "leave out --deny"),
        ("add --allow alice --consumer --topic t", "--consumer needs --group"),
        ("add --allow alice --consumer --topic t --group g --cluster", "does not use --cluster"),
        ("add --allow alice --idempotent --topic t", "--idempotent needs --producer"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anybody_is_asked(
    pk: Run, words: str, said: str
) -> None:
    refused = pk("acls", *shlex.split(words), "-b", "127.0.0.1:1")
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_several_thousand_acls_are_one_change(acls: Run, pk: Run) -> None:
    topics = " ".join(f"--topic t{n}" for n in range(1_100))
    ran = acls(f"add --allow alice --operation read --operation write {topics} -y -f json")
    assert ran.code == 0 and len(ran.json) == 2_200, ran.err
    assert "… and 2180 more" in ran.err
    assert len(known(acls)) == 2_200
    undone = pk("undo", "last", "-y", "-f", "json")
    assert (undone.code, len(undone.json)) == (0, 2_200), undone.err
    assert known(acls) == []


def test_what_the_page_shows(acls: Run, pk: Run, broker: PkBroker) -> None:
    """The commands of docs/authorization.md, each confirmed with yes."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "authorization.md").read_text()
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    (block,) = (b for b in blocks if b.startswith("$ pk acls"))
    lines = [shlex.split(line.removeprefix("$ pk ")) for line in block.splitlines()]
    assert {tuple(words[:2]) for words in lines} == {
        ("acls", verb) for verb in ("list", "add", "delete", "check")
    }
    for words in lines:
        asks = words[1] in ("add", "delete") and "-d" not in words
        ran = pk(*words, *(["-y"] if asks else []))
        assert ran.code == 0, (words, ran.err)


@pytest.mark.peer
@pytest.mark.skipif(apache_kafka.available() is not None, reason="needs java and mvn")
def test_the_same_at_apache_kafka(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def acls(words: str) -> Any:
        return pk("acls", *shlex.split(words))

    with apache_kafka.ApacheKafka(1, heap="256m", properties=AUTHORIZER) as apache:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", apache.bootstrap)
        added(acls, "--allow alice --consumer --topic orders --group billing")
        assert known(acls) == [
            f"ALLOW User:alice READ {ORDERS}",
            f"ALLOW User:alice DESCRIBE {ORDERS}",
            "ALLOW User:alice READ GROUP:LITERAL:billing from *",
        ]
        added(acls, "--deny '*' --operation write --topic ord --pattern prefixed")
        assert len(known(acls, "--topic orders --pattern match")) == 3
        assert acls("check alice read topic:orders").code == 0
        assert acls("check alice write topic:orders").code == 1
        asked = ("why", "denied", "alice", "write", "topic:orders", "-f", "json")
        for state in ("denied", "no_match"):
            (found,) = pk(*asked).json
            assert found["state"] == state
            assert pk(*shlex.split(found["next"][0])[1:], "-y").code == 0
        assert pk(*asked).code == 0
        before = known(acls)
        gone = acls("delete --principal alice -y -f json")
        assert {row["result"] for row in gone.json} == {"deleted"} and known(acls) == []
        assert pk("undo", "last", "-y").code == 0
        assert known(acls) == before and len(before) == 4


def test_without_an_authorizer_the_broker_s_word_is_passed_on(pk: Run) -> None:
    with PkBroker(memory=True) as plain:
        for words in ("list", "add --allow alice --topic t -y", "check alice read t"):
            ran = pk("acls", *words.split(), "-b", plain.bootstrap)
            assert (ran.code, "SECURITY_DISABLED" in ran.err) == (1, True), ran.err
            assert "set authorizer.class.name=org.apache.kafka" in ran.err


def test_acls_that_the_broker_refuses_are_said_once(
    pk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PkBroker(config={**AUTHORIZER, "pk.faults.enable": "true"}, memory=True) as broker:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", broker.bootstrap)
        fault = pk(*shlex.split("test faults add fail CreateAcls --error POLICY_VIOLATION -y"))
        assert fault.code == 0, fault.err
        words = shlex.split("acls add --allow alice --topic orders --operation read -y -f table")
        one = pk(*words)
        assert (one.code, one.out) == (1, b""), one.err
        said = one.err.splitlines()[-1]
        assert said.startswith("allow User:alice READ on topic orders: "), one.err
        assert one.err.count("POLICY_VIOLATION") == said.count("POLICY_VIOLATION")
        both = pk(*words, "--operation", "write")
        assert (both.code, both.err.splitlines()[-1]) == (1, "2 of 2 ACLs failed.")
        assert both.text.count("POLICY_VIOLATION") == 2
        assert not undo_log.history()
