"""Logs of brokers: JSON by option, and levels that change while the broker runs."""

import json
import logging
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from clients.pk_broker import pk_environment, run_pk, running

from pk.cli.up.logs import JsonFormatter, log_to_stderr, use_log_format
from pk.core.config import BrokerConfig, ConfigError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
COMMANDS = re.findall(r"(?m)^\$ pk (configs \w+ broker-logger .*)$", PAGE)
GARBAGE = b"\0\0\0\4\x7f\xff\0\0"
"""A request with an API key that no broker serves. The broker closes the connection and logs
that."""


@contextmanager
def no_handlers() -> Iterator[None]:
    """The root logger as in a process that has just started."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []
    try:
        yield
    finally:
        root.handlers = before
        root.setLevel(level)


def config(**keys: str) -> BrokerConfig:
    given = {"node.id": "7", "log.dirs": "/d"}
    return BrokerConfig.parse(given | {k.replace("__", "."): v for k, v in keys.items()})


def test_an_event_is_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord(
            "pk.server", logging.WARNING, "f", 1, "%s said\n\x1b[31m%s", ("he", "é"), sys.exc_info()
        )
    line = JsonFormatter(7).format(record)
    assert "\n" not in line and "\x1b" not in line
    event = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", event.pop("time"))
    assert event.pop("exception").endswith("ValueError: two\nlines")
    assert event == {
        "level": "WARN",
        "logger": "pk.server",
        "node": 7,
        "message": "he said\n\x1b[31mé",
    }


def test_the_config_says_which_format(capsys: pytest.CaptureFixture[str]) -> None:
    with no_handlers():
        log_to_stderr()
        use_log_format(config())
        logging.getLogger("pk.test").warning("for people")
        use_log_format(config(pk__log__format="json"))
        logging.getLogger("pk.test").warning("for programs")
    people, programs = capsys.readouterr().err.splitlines()
    assert people.endswith("WARNING pk.test: for people")
    assert json.loads(programs)["message"] == "for programs"
    with pytest.raises(ConfigError, match=r"pk\.log\.format"):
        config(pk__log__format="xml")


def send_garbage(port: int) -> int:
    """Our port, which is in the broker's log line."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(GARBAGE)
        assert client.recv(1) == b""
        return client.getsockname()[1]


def until_it_names(lines: IO[str], port: int) -> list[dict[str, Any]]:
    """The events up to the one about our connection; a broker on a busy machine may log others."""
    events: list[dict[str, Any]] = []
    while not events or f"127.0.0.1:{port}: " not in events[-1]["message"]:
        line = lines.readline()
        assert line, "the broker has ended"
        events.append(json.loads(line))
    return events


def test_levels_change_while_it_runs() -> None:
    def configs(*words: str) -> str:
        done = run_pk(*words, "-b", address, env=pk_environment(), text=True)
        assert not done.returncode, done.stderr
        return done.stdout

    options = ("--port", "0", "--memory", "-X", "pk.log.format=json")
    with running("up", *options) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().split()[-1]
        port = int(address.rpartition(":")[2])
        events = until_it_names(process.stderr, send_garbage(port))
        event = events[-1]
        assert (event["level"], event["logger"], event["node"]) == ("WARN", "pk.server", 1)
        describe, alter, delete = (words.split() for words in COMMANDS)
        assert "pk.server" in configs(*describe)
        configs(*(word.replace("INFO", "ERROR") for word in alter))
        send_garbage(port)
        configs(*delete)
        events = until_it_names(process.stderr, send_garbage(port))
        of_connections = [e for e in events if "; connection closed" in e["message"]]
        assert len(of_connections) == 1, "what came between was not logged"
        configs(*alter)
