"""The imports of help, completion and a simple command. The benchmark measures times; imports
determine them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ROOMS = {
    "pk." + ".".join(path.relative_to(ROOT).parent.parts)
    for path in (ROOT / "cli").rglob("__init__.py")
}

_HEAVY = frozenset(
    {
        "asyncio",
        "cbor2",
        "cramjam",
        "dataclasses",
        "hypothesis",
        "inspect",
        "msgspec",
        "numpy",
        "platformdirs",
        "prompt_toolkit",
        "pyarrow",
        "pydantic",
        "pyspark",
        "rich",
        "socket",
        "ssl",
        "subprocess",
        "tomlkit",
        "trio",
        "typer",
        "typing_extensions",
        "pk.net",
    }
)

_OF_TYPER = frozenset({"dataclasses", "inspect", "subprocess", "typer"})
"""Modules that typer imports. Help and every command import them, but not completion, which runs
with each Tab."""

_PROGRAM = """
import sys
before = set(sys.modules)
from pk.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(sorted(set(sys.modules) - before)))
sys.exit(code)
"""


def imported(*words: str, code: int = 0) -> set[str]:
    """The modules that a command line imports, beyond those of a bare interpreter."""
    paths = os.pathsep.join((str(ROOT / "scripts" / "path"), os.environ.get("PYTHONPATH", "")))
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return set(ran.stderr.splitlines())


def heavy(modules: set[str]) -> set[str]:
    return {m for m in modules if m in _HEAVY or m.partition(".")[0] in _HEAVY}


@pytest.mark.parametrize(
    "words",
    [
        ("__complete", "topics", "cr"),
        ("__complete", "topics", "describe", ""),
        ("__complete", "consume", "-o", "@"),
    ],
)
def test_completion_imports_next_to_nothing(words: tuple[str, ...]) -> None:
    modules = imported(*words)
    assert not heavy(modules)
    rooms = modules & ROOMS  # packages: a sentence each
    assert len(modules - rooms) < 80, sorted(modules)


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("topics", "create", "--help"),
        ("--version",),
        ("help", "positions"),
        ("help", "errors"),
    ],
)
def test_help_imports_typer_and_next_to_nothing_else(words: tuple[str, ...]) -> None:
    modules = imported(*words)
    assert {m.partition(".")[0] for m in heavy(modules)} <= _OF_TYPER
    assert len(modules) < 170, sorted(modules)


def test_help_imports_the_noun_that_is_named_and_no_other() -> None:
    nouns = lambda *words: {m for m in imported(*words) if m.startswith("pk.cli.nouns.")}
    assert nouns("--help") == set()
    assert nouns("topics", "create", "--help") == {
        "pk.cli.nouns.topics",
        "pk.cli.nouns.topics.commands",
        "pk.cli.nouns.topics.options",
        "pk.cli.nouns.topics.rows",
    }


def test_a_command_imports_what_it_needs_and_no_more() -> None:
    modules = imported("topics", "list", "-b", "127.0.0.1:1", code=3)
    assert "trio" in modules
    never = (
        "rich",
        "pydantic",
        "prompt_toolkit",
        "numpy",
        "pyarrow",
        "pyspark",
        "tomlkit",
        "platformdirs",
        "crc32c",
    )
    assert not {m for m in modules if m.partition(".")[0] in never}
    messages = {m for m in modules if m.startswith("pk.core.wire.messages.")}
    assert len(messages) < 8, messages
    assert not {
        m
        for m in modules
        if m.startswith(("pk.core.log", "pk.core.broker", "pk.core.api.", "pk.core.record."))
    }


def test_resetting_offsets_loads_nothing_of_reassignments() -> None:
    words = ("groups", "reset-offsets", "g", "--to-earliest", "--execute", "-b", "127.0.0.1:1")
    modules = imported(*words, code=3)
    assert "pk.cli.cluster.offset_changes" in modules
    of_nouns = {m.split(".")[3] for m in modules if m.startswith("pk.cli.nouns.")}
    assert of_nouns == {"groups"}
    assert not {m for m in modules if "reassign" in m or m == "pk.cli.cluster.throttles"}


_UNTIL_ENDED = """
import atexit, sys
def tell():
    sys.stderr.write("\\nMODULES\\n" + "\\n".join(sorted(sys.modules)))
atexit.register(tell)
from pk.cli.main import main
sys.exit(main())
"""


def test_a_broker_imports_no_more_than_an_empty_one_needs() -> None:
    """Between its start and its first record, a broker spends most of its time on imports."""
    paths = os.pathsep.join((str(ROOT / "scripts" / "path"), os.environ.get("PYTHONPATH", "")))
    with subprocess.Popen(
        [sys.executable, "-c", _UNTIL_ENDED, "up", "--port", "0", "--memory"],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        assert "ready" in broker.stdout.readline()
        broker.terminate()
        _, said = broker.communicate()
    modules = set(said.partition("MODULES\n")[2].splitlines())
    assert "pk.net.node" in modules
    never = ("email", "importlib.metadata", "zoneinfo", "rich", "prompt_toolkit", "numpy", "kazoo")
    assert not {m for m in modules if any(m == no or m.startswith(f"{no}.") for no in never)}
    assert not modules & {f"pk.net.client.{name}" for name in ("admin", "results", "producer")}
