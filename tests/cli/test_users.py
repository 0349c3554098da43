"""`pk users`, against pk's broker and Apache Kafka. Passwords come from standard input, and are
never shown."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka, fresh_name
from clients.pk_broker import PkBroker

Run = Callable[..., Any]
SECRET = "hush-hush"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture
def user(at: Run) -> Iterator[str]:
    """A name that no user has."""
    name = fresh_name("user")
    yield name
    at("users", "delete", name, "-y")


def test_a_user_comes_changes_and_goes(at: Run, user: str) -> None:
    added = at("users", "add", user, "-y", "-f", "json", stdin=f"{SECRET}\n".encode())
    assert added.code == 0, added.err
    assert added.json == [
        {
            "user": user,
            "mechanism": "SCRAM-SHA-512",
            "iterations": 4096,
            "result": "added",
            "error": None,
        }
    ]
    assert "Anyone who knows it can log in" in added.err and SECRET not in added.err
    also = at("users", "add", user, "--mechanism", "SCRAM-SHA-256", "-y", stdin=b"x")
    assert also.code == 0, also.err
    altered = at("users", "alter", user, "--iterations", "8192", "-y", stdin=b"other")
    assert altered.code == 0, altered.err
    listed = at("users", "list", user, "-f", "jsonl")
    wanted = [
        {"user": user, "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": user, "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    assert [json.loads(line) for line in listed.lines] == wanted
    one = at("users", "delete", user, "--mechanism", "SCRAM-SHA-256", "-y", "-f", "json")
    assert [(r["mechanism"], r["result"]) for r in one.json] == [("SCRAM-SHA-256", "deleted")]
    rest = at("users", "delete", user, "-y", "-f", "json")
    assert [(r["mechanism"], r["result"]) for r in rest.json] == [("SCRAM-SHA-512", "deleted")]
    assert at("users", "list", user, "-f", "jsonl").out == b""


def test_another_password_is_as_slow_to_guess_as_the_one_before(at: Run, user: str) -> None:
    at("users", "add", user, "--iterations", "8192", "-y", stdin=b"x")
    altered = at("users", "alter", user, "-y", "-f", "json", stdin=b"other")
    assert (altered.code, altered.json[0]["iterations"]) == (0, 8192), altered.err
    assert [r["iterations"] for r in at("users", "list", user, "-f", "json").json] == [8192]


def test_a_dry_run_asks_for_no_password_and_changes_nothing(at: Run, user: str) -> None:
    tried = at("users", "add", user, "-d", "-f", "json")
    assert (tried.code, tried.json[0]["result"]) == (0, "would be added")
    assert at("users", "list", user, "-f", "jsonl").out == b""
    at("users", "add", user, "-y", stdin=b"x")
    for words, said in (("alter", "would be altered"), ("delete", "would be deleted")):
        tried = at("users", words, user, "-d", "-f", "json")
        assert (tried.code, tried.json[0]["result"]) == (0, said)
    assert user in at("users", "list").text


def test_without_a_yes_nothing_happens(at: Run, user: str) -> None:
    assert at("users", "add", user, stdin=b"x").code == 5
    assert at("users", "add", user, "-y").code == 2, "an empty password"
    assert at("users", "add", user, "-y", stdin=b"\xff").code == 2
    assert at("users", "list", user, "-f", "jsonl").out == b""


def test_who_is_there_is_not_added_and_who_is_not_is_not_altered(at: Run, user: str) -> None:
    missing = at("users", "alter", user, "-y", stdin=b"x")
    assert (missing.code, "`pk users add` adds one" in missing.err) == (1, True)
    gone = at("users", "delete", user, "-y")
    assert (gone.code, gone.err) == (
        1,
        f"{user!r} has no password for SCRAM; `pk users list` lists users.\n",
    )
    at("users", "add", user, "-y", stdin=b"x")
    twice = at("users", "add", user, "-y", stdin=b"y")
    assert (twice.code, "`pk users alter` changes it" in twice.err) == (1, True)


def test_wrong_arguments_are_refused_before_the_question_and_the_password(
    at: Run, user: str
) -> None:
    for verb, iterations in (("add", "4095"), ("add", "16385"), ("alter", "10"), ("add", "x")):
        ran = at("users", verb, user, "--iterations", iterations)
        assert (ran.code, "--iterations needs a" in ran.err) == (2, True), ran.err
    ran = at("users", "add", "")
    assert (ran.code, ran.err) == (2, "USER is empty; it must be the name of a user.\n")


def test_the_bounds_of_iterations_are_kafka_s(at: Run, user: str) -> None:
    for mechanism, iterations in (("SCRAM-SHA-256", "4096"), ("SCRAM-SHA-512", "16384")):
        words = ("--mechanism", mechanism, "--iterations", iterations)
        assert at("users", "add", user, *words, "-y", stdin=b"x").code == 0


def test_an_added_user_is_deleted_again_by_undo(at: Run, user: str) -> None:
    added = at("users", "add", user, "-y", stdin=b"x")
    assert "To undo it: pk undo 1" in added.err
    tried = at("undo", "last", "-d", "-f", "json")
    assert tried.json[0]["result"] == "would be deleted"
    undone = at("undo", "last", "-y", "-f", "json")
    assert (undone.code, undone.json[0]["result"]) == (0, "deleted"), undone.err
    assert at("users", "list", user, "-f", "jsonl").out == b""


def test_what_is_kept_and_said_holds_no_password(
    at: Run, user: str, tmp_path: Path, kafka: Kafka
) -> None:
    ran = at("users", "add", user, "-y", "--trace", stdin=SECRET.encode())
    assert ran.code == 0 and SECRET not in ran.err + ran.text
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "stdin":
            assert SECRET.encode() not in file.read_bytes(), file


@pytest.mark.thorough
def test_a_broker_that_asks_for_scram_from_its_first_start(pk: Run, tmp_path: Path) -> None:
    """The nodes' own user adds the first user. No password is in the broker's files, logs or
    answers."""
    login = f'{SCRAM} username="admin" password="admin-{SECRET}";'
    keys = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": login,
    }
    with PkBroker(config=keys) as broker:

        def client(name: str, user: str, password: str) -> tuple[str, ...]:
            file = tmp_path / name
            file.write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
                f"sasl.username={user}\nsasl.password={password}\n"
            )
            return ("-b", broker.bootstrap, "--config-file", str(file))

        admin = client("admin", "admin", f"admin-{SECRET}")
        added = pk("users", "add", "alice", "-y", *admin, stdin=f"alice-{SECRET}".encode())
        assert added.code == 0, added.err
        alice = client("alice", "alice", f"alice-{SECRET}")
        assert pk("topics", "list", *alice).code == 0
        wrong = pk("topics", "list", *client("wrong", "alice", f"wrong-{SECRET}"), "--trace")
        assert (wrong.code, "SASL_AUTHENTICATION_FAILED" in wrong.err) == (4, True), wrong.err
        nobody = pk("topics", "list", "-b", broker.bootstrap)
        assert nobody.code == 3 and "ask for SASL" in nobody.err, nobody.err
        configs = pk("configs", "describe", "broker", "1", "--all", "-f", "json", *admin)
        assert configs.code == 0 and "sasl.jaas.config" in configs.text
        said = wrong.err + nobody.err + added.err + configs.text + broker.log_text
        assert SECRET not in said
        assert broker.stop() == 0  # it might replace files while they are read
        assert broker.directory is not None
        for file in broker.directory.rglob("*"):
            if file.is_file():
                assert SECRET.encode() not in file.read_bytes(), file
