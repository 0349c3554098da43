"""`pk test faults`: against a broker that makes faults, and one that does not."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from pk.cli.exits import Exit
from pk.core.errors import ErrorCode
from pk.testing import Broker

Run = Callable[..., Any]
Faults = Callable[..., str]


@pytest.fixture
def faults(pk: Run) -> Callable[..., str]:
    """Runs `pk test faults`, which must end with `code`; returns its output, or its error."""

    def run(*words: str, code: Exit = Exit.OK) -> str:
        ran = pk("test", "faults", *words)
        assert ran.code == code, ran.err
        return ran.err if code else ran.text

    return run


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    with Broker() as kafka:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.url)
        kafka.create_topic("orders")
        yield kafka


def test_add_list_and_clear(broker: Broker, faults: Faults) -> None:
    added = faults(
        "add", "fail", "produce", "--error", "not_leader_or_follower", "--times", "2",
        "--client-id", "me",
    )  # fmt: skip
    assert "fault 1" in added
    faults("add", "delay", "Fetch", "--seconds", "0.5")
    rows = json.loads(faults("list", "-f", "json"))
    keys = "api", "kind", "error", "times", "delay_ms", "client_id"
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("Produce", "fail", "NOT_LEADER_OR_FOLLOWER", 2, 0, "me"),
        ("Fetch", "delay", None, None, 500, None),
    ]
    faults("clear", "2")
    assert [r["fault"] for r in json.loads(faults("list", "-f", "json"))] == [1]
    assert "No broker has fault 2" in faults("clear", "2", code=Exit.USAGE)
    assert "1 cleared" in faults("clear")


def test_faults_are_cleared_though_metadata_requests_are_dropped(
    broker: Broker, faults: Faults
) -> None:
    """A fault for every Metadata request must not lock out the command that clears it."""
    faults("add", "drop", "Metadata")
    faults("add", "drop", "PkFaults", code=Exit.FAILED)
    assert [r["api"] for r in json.loads(faults("list", "-f", "json"))] == ["Metadata"]
    assert "1 cleared" in faults("clear")


def test_a_client_meets_it(broker: Broker, faults: Faults) -> None:
    faults("add", "fail", "Produce", "--error", "TOPIC_AUTHORIZATION_FAILED", "--times", "1")
    said: list[int] = []
    producer = Producer({"bootstrap.servers": broker.url, "log_level": 0})
    producer.produce(
        "orders", "x", on_delivery=lambda error, _: said.append(error.code() if error else 0)
    )
    assert producer.flush(60) == 0
    assert said == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert "closed" in faults("add", "disconnect")


def test_what_happens_at_once(broker: Broker, faults: Faults) -> None:
    assert "resigned" in faults("add", "move-leader", "orders:0")
    assert "3600 s ahead" in faults("add", "set-clock", "--seconds", "3600")
    broker.create_topic("later", config={"message.timestamp.type": "LogAppendTime"})
    gone = faults("add", "rebalance", "nobody", code=Exit.FAILED)
    assert "GROUP_ID_NOT_FOUND" in gone or "nobody" in gone


def test_a_dry_run_does_nothing(broker: Broker, faults: Faults) -> None:
    assert "would be done" in faults("add", "drop", "Fetch", "-d")
    assert json.loads(faults("list", "-f", "json")) == []
    assert "would be done" in faults("clear", "-d")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("fail Produce", "--error is required for `fail`, and allowed only there"),
        ("drop Produce --error NONE", "--error is required for `fail`"),
        ("fail Produces --error UNKNOWN_SERVER_ERROR", "did you mean Produce"),
        ("fail Produce --error NOT_LEADER", "did you mean NOT_"),
        ("delay Fetch", "--duration is required for"),
        ("fail Fetch --error NONE --seconds 1", "--duration is required for"),
        ("drop", "needs a TARGET"),
        ("disconnect Fetch", "takes no TARGET"),
        ("rebalance g --times 1", "--times cannot be combined with"),
        ("rebalance g --client-id c", "--client-id cannot be combined with"),
        ("move-leader orders", "TARGET"),
    ],
)
def test_what_does_not_fit_together(faults: Faults, words: str, says: str) -> None:
    assert says in faults("add", *words.split(), code=Exit.USAGE)


@pytest.mark.parametrize("words", [["list"], ["add", "drop", "Fetch"], ["clear"]])
def test_other_brokers_make_no_faults(
    faults: Faults, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker({"pk.faults.enable": "false"}) as kafka:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.url)
        assert "pk.faults.enable=true" in faults(*words, code=Exit.FAILED)


def test_a_read_only_profile(broker: Broker, faults: Faults, pk: Run) -> None:
    pk("profile", "add", "prod", "-b", broker.url, "--guard", "readonly")
    for words in (["add", "drop", "Fetch"], ["clear"]):
        faults(*words, "--profile", "prod", code=Exit.REFUSED)
