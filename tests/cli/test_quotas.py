"""`pk quotas`, against pk's broker and Apache Kafka."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import fresh_name
from clients.pk_broker import PkBroker

from pk.cli.runtime import undo_log

Run = Callable[..., Any]


@pytest.fixture
def user(at: Run) -> Iterator[str]:
    """The name of a user without quotas."""
    name = fresh_name("user")
    yield name
    at("quotas", "delete", "--user", name, "-y")
    at("quotas", "delete", "--user", name, "--client", name, "-y")
    at("quotas", "delete", "--user", name, "--client-defaults", "-y")


def listed(at: Run, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in at("quotas", "list", *options, "-f", "jsonl").lines]


def test_a_quota_is_set_changed_and_deleted(at: Run, user: str) -> None:
    first = at(
        *("quotas", "set", "--user", user, "producer_byte_rate=10MiB", "request_percentage=12.5"),
        *("-y", "-f", "json"),
    )
    assert first.code == 0, first.err
    of = {"user": user, "client_id": None, "ip": None}
    done = {"result": "changed", "error": None}
    assert first.json == [
        {**of, "key": "producer_byte_rate", "from": None, "to": 10485760.0, **done},
        {**of, "key": "request_percentage", "from": None, "to": 12.5, **done},
    ]
    assert f"This changes the quota of user {user}:" in first.err
    assert "producer_byte_rate (none) → 10485760" in first.err
    assert listed(at, "--user", user) == [
        {**of, "key": "producer_byte_rate", "value": 10485760.0},
        {**of, "key": "request_percentage", "value": 12.5},
    ]
    again = at("quotas", "set", "--user", user, "request_percentage=12.5", "-y", "-f", "json")
    assert [row["result"] for row in again.json] == ["exists already"]
    one = at("quotas", "delete", "--user", user, "request_percentage", "-y", "-f", "json")
    assert [(row["key"], row["from"], row["to"]) for row in one.json] == [
        ("request_percentage", 12.5, None)
    ]
    rest = at("quotas", "delete", "--user", user, "-y")
    assert rest.code == 0, rest.err
    assert listed(at, "--user", user) == []


def test_each_kind_of_entity_has_quotas_of_its_own(at: Run, user: str) -> None:
    for options in (
        ("--user", user),
        ("--user", user, "--client-id", user),
        ("--user", user, "--default-client-id"),
    ):
        ran = at("quotas", "set", *options, "consumer_byte_rate=1000000", "-y")
        assert ran.code == 0, ran.err
    found = listed(at, "--user", user)
    assert [row["client_id"] for row in found] == [None, "<default>", user]
    assert len(listed(at, "--user", user, "--strict")) == 1
    assert [r["client_id"] for r in listed(at, "--user", user, "--client", user)] == [user]
    assert [r["user"] for r in listed(at, "--client-id", user)] == [user]
    address = ("--ip", "10.11.12.13")
    ran = at("quotas", "set", *address, "connection_creation_rate=7", "-y")
    assert ran.code == 0, ran.err
    assert [row["ip"] for row in listed(at, *address)] == ["10.11.12.13"]
    assert at("quotas", "delete", *address, "-y").code == 0


def test_a_dry_run_changes_nothing_and_no_answer_neither(at: Run, user: str) -> None:
    words = ("quotas", "set", "--user", user, "producer_byte_rate=1000")
    tried = at(*words, "-d", "-f", "json")
    assert (tried.code, tried.json[0]["result"]) == (0, "would change")
    assert at(*words).code == 5
    assert listed(at, "--user", user) == []
    assert not undo_log.history()


def test_undo_leaves_what_was_changed_since(at: Run, user: str) -> None:
    at("quotas", "set", "--user", user, "producer_byte_rate=1000000", "-y")
    at("quotas", "set", "--user", user, "producer_byte_rate=2000000", "-y")
    at("quotas", "set", "--user", user, "producer_byte_rate=500000", "-y")
    refused = at("undo", "2", "-y")
    said = f"producer_byte_rate of user {user} was changed since"
    assert (refused.code, said in refused.err) == (5, True), refused.err
    assert [r["value"] for r in listed(at, "--user", user)] == [500000.0]
    assert at("undo", "2", "--anyway", "-y").code == 0
    assert [r["value"] for r in listed(at, "--user", user)] == [1000000.0]


def test_undo_gives_back_what_was_there(at: Run, user: str) -> None:
    at("quotas", "set", "--user", user, "producer_byte_rate=1000000", "-y")
    changed = at(
        "quotas", "set", "--user", user, "producer_byte_rate=2000000", "request_percentage=90", "-y"
    )
    assert "To undo it: pk undo 2" in changed.err
    tried = at("undo", "last", "-d", "-f", "json")
    assert [(row["from"], row["to"], row["result"]) for row in tried.json] == [
        (2000000.0, 1000000.0, "would change"),
        (90.0, None, "would change"),
    ]
    assert at("undo", "last", "-y").code == 0
    assert [(r["key"], r["value"]) for r in listed(at, "--user", user)] == [
        ("producer_byte_rate", 1000000.0)
    ]
    at("quotas", "delete", "--user", user, "-y")
    assert at("undo", "last", "-y").code == 0
    assert [r["value"] for r in listed(at, "--user", user)] == [1000000.0]


def test_the_flags_of_kafka_configs(at: Run, user: str) -> None:
    entity = ("--entity-type", "users", "--entity-name", user)
    both = (*entity, "--entity-type", "clients", "--entity-name", user)
    text = "producer_byte_rate=1024,consumer_byte_rate=2048"
    ran = at("quotas", "set", *both, "--add-config", text, "-y")
    assert ran.code == 0, ran.err
    default = at("quotas", "set", *entity, "--client-defaults", "-c", "request_percentage=50", "-y")
    assert default.code == 0, default.err
    found = listed(at, "--user", user)
    assert [(r["client_id"], r["key"], r["value"]) for r in found] == [
        ("<default>", "request_percentage", 50.0),
        (user, "consumer_byte_rate", 2048.0),
        (user, "producer_byte_rate", 1024.0),
    ]
    gone = at(
        "quotas",
        "delete",
        *both,
        "--delete-config",
        "producer_byte_rate,consumer_byte_rate",
        "-y",
    )
    assert gone.code == 0, gone.err
    assert [r["client_id"] for r in listed(at, "--user", user)] == ["<default>"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("set producer_byte_rate=1", "Give an entity"),
        ("set --user a", "Give at least one limit"),
        ("set --user a producer_byte_rate", "A quota must be KEY=VALUE"),
        ("set --user a producer_byte_rat=1", "did you mean producer_byte_rate"),
        ("set --user a connection_creation_rate=1", "is a quota of addresses"),
        ("set --ip 1.2.3.4 producer_byte_rate=1", "is a quota of users and client ids"),
        ("set --user a --ip 1.2.3.4 producer_byte_rate=1", "not for both"),
        ("set --user a --default-user producer_byte_rate=1", "not both"),
        ("set --user a producer_byte_rate=0", "must be a number above 0"),
        ("set --user a producer_byte_rate=fast", "must be a number above 0"),
        ("set --user a producer_byte_rate=1 producer_byte_rate=2", "set twice"),
        ("set --user= producer_byte_rate=1", "A name is empty"),
        ("list --entity-name a", "need --entity-type"),
        ("list --entity-type users", "needs an --entity-name"),
        (
            "list --entity-type users --entity-type clients --entity-name a --entity-default",
            "not clear",
        ),
        ("list --entity-type users --entity-name a --user a", "given twice"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_asked(
    at: Run, words: str, said: str
) -> None:
    ran = at("quotas", *words.split())
    assert (ran.code, said in ran.err.replace("\n", " ")) == (2, True), ran.err


def test_what_is_missing_cannot_be_deleted(at: Run, user: str) -> None:
    ran = at("quotas", "delete", "--user", user, "-y")
    assert (ran.code, f"No quota is set for user {user}" in ran.err) == (1, True)
    at("quotas", "set", "--user", user, "producer_byte_rate=1000000", "-y")
    ran = at("quotas", "delete", "--user", user, "request_percentage", "-y")
    assert (ran.code, "No quota request_percentage is set for" in ran.err) == (1, True)


def test_what_the_broker_refuses_leaves_nothing_to_undo(at: Run, user: str) -> None:
    ran = at("quotas", "set", "--user", user, "producer_byte_rate=1.5", "-y", "-f", "json")
    assert (ran.code, ran.json[0]["error"]) == (1, "INVALID_REQUEST"), ran.err
    assert "cannot be a fractional value" in ran.err
    assert not undo_log.history()


def test_what_the_broker_refuses_is_said_once(at: Run, user: str) -> None:
    one = at("quotas", "set", "--user", user, "producer_byte_rate=1.5", "-y", "-f", "table")
    assert (one.code, one.out) == (1, b""), one.err
    said = one.err.splitlines()
    assert said[0].startswith(f"user {user}: ") and one.err.count("fractional") == 1, one.err
    words = ("producer_byte_rate=1.5", "consumer_byte_rate=1000")
    both = at("quotas", "set", "--user", user, *words, "-y", "-f", "table")
    assert (both.code, both.err.splitlines()) == (1, ["2 of 2 keys failed."])
    assert both.text.count("INVALID_REQUEST") == 2


def test_what_the_page_shows(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/quotas.md, each confirmed with yes."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "quotas.md").read_text()
    (block,) = (b for b in re.findall(r"```console\n(.*?)```", page, re.DOTALL) if "pk quotas" in b)
    lines = [shlex.split(line.removeprefix("$ pk ")) for line in block.splitlines()]
    assert {tuple(words[:2]) for words in lines} == {
        ("quotas", verb) for verb in ("list", "set", "delete")
    }
    with PkBroker(memory=True) as broker:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", broker.bootstrap)
        for words in lines:
            asks = words[1] != "list" and "-d" not in words
            ran = pk(*words, *(["-y"] if asks else []))
            assert ran.code == 0, (words, ran.err)
        found = pk("quotas", "list", "-f", "json").json
        assert [(row["user"], row["client_id"], row["key"], row["value"]) for row in found] == [
            ("alice", None, "consumer_byte_rate", 20971520.0),
            ("alice", None, "producer_byte_rate", 10485760.0),
            ("alice", "batch", "producer_byte_rate", 1048576.0),
        ]


@pytest.mark.parametrize("verb", ["describe", "alter"])
@pytest.mark.parametrize("kind", ["users", "clients", "ips"])
def test_configs_names_the_commands_for_quotas(pk: Run, verb: str, kind: str) -> None:
    for words in (("--entity-type", kind, "--entity-name", "a"), (kind, "a")):
        ran = pk("configs", verb, *words, "-b", "127.0.0.1:1")
        assert (ran.code, "pk quotas list" in ran.err) == (2, True), ran.err
