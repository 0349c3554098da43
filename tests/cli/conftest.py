"""Commands run in this process (`tests/commands.py`), with files of the test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import topics
from clients.fixtures import Kafka
from commands import Ran, run_command, wait_for_slow_brokers
from terminal import Terminal
from up_process import Cluster

from pk.cli.runtime import session

Run = Callable[..., Ran]
_STRAGGLER_MS = session._STRAGGLER_MS


@pytest.fixture(autouse=True)
def _own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Config, state and cache of the user are the test's own."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    for variable in ("PK_BOOTSTRAP_SERVER", "PK_PROFILE", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(autouse=True)
def _time_for_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait a minute for a slow broker, unless a test uses -X or `usual_patience`."""
    wait_for_slow_brokers(monkeypatch)


@pytest.fixture
def usual_patience(_time_for_answers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands give up on a silent broker after their default wait."""
    monkeypatch.setattr(session, "_STRAGGLER_MS", _STRAGGLER_MS)


@pytest.fixture
def pk(tmp_path: Path) -> Run:
    """`pk(*words, stdin=b"")`: runs a command line; no stream is a terminal."""

    def run(*words: str, stdin: bytes = b"") -> Ran:
        return run_command(words, tmp_path, stdin)

    return run


@pytest.fixture
def at(kafka: Kafka, pk: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`pk`, with the broker under test as the cluster."""
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.bootstrap)
    return pk


@pytest.fixture
def unverified(kafka: Kafka) -> Iterator[None]:
    """Brokers let records of a transaction in without asking its coordinator."""
    with topics.unverified(kafka):
        yield


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """`terminal(*words, columns=80, lines=24, NO_COLOR="1")`: a `pk` command on a terminal
    (tests/terminal.py)."""
    opened: list[Terminal] = []

    def start(*words: str, **options: Any) -> Terminal:
        options.setdefault("home", tmp_path)
        opened.append(Terminal(*words, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    started: list[Cluster] = []

    def start(*words: str) -> Cluster:
        started.append(Cluster(*words))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
