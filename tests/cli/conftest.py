"""Commands run in this process, through the entry point, with files for standard input, output and
error."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import topics
from clients.fixtures import Kafka
from terminal import Terminal
from up_process import Cluster

from pk.cli.cluster import propagation
from pk.cli.main import main
from pk.cli.runtime import session


@dataclass(frozen=True)
class Ran:
    """What a command answered."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.out else []


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
    """A slow broker of a busy machine is no straggler: commands leave a broker out only where a
    test says so, with -X or with `usual_patience`. It may take its time to learn of a change, too:
    what the next command finds must not depend on that."""
    monkeypatch.setattr(session, "_STRAGGLER_MS", "60000")
    monkeypatch.setattr(propagation, "PROPAGATION_S", 60.0)


@pytest.fixture
def usual_patience(_time_for_answers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands leave a broker out that is silent for as long as they wait by default."""
    monkeypatch.setattr(session, "_STRAGGLER_MS", _STRAGGLER_MS)


@pytest.fixture
def pk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`pk(*words, stdin=b"")`: runs a command line; no stream is a terminal."""

    def run(*words: str, stdin: bytes = b"") -> Ran:
        source = tmp_path / "stdin"
        source.write_bytes(stdin)
        out = io.BytesIO()
        with source.open("rb") as raw, monkeypatch.context() as patch:
            error = io.StringIO()
            patch.setattr(sys, "stdin", io.TextIOWrapper(raw))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
            patch.setattr(sys, "stderr", error)
            code = main(words)
            sys.stdout.flush()
            return Ran(code, out.getvalue(), error.getvalue())

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
