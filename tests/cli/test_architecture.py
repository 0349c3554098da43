"""The walks in docs/architecture.md: each line is followed in the code, each request is seen on the
wire."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LINE = re.compile(r"^( *)- `(cli/\S+\.py)` `([\w.]+)`(?:: (.*))?$", re.MULTILINE)
REQUEST = re.compile(
    r"\b(?:ListOffsets|Metadata|Fetch|FindCoordinator|DescribeGroups|OffsetFetch|OffsetCommit|CreateTopics)\b"
)
PLUMBING = "Every command takes this path"
MOST_HOPS = 8

Run = Callable[..., Any]
Fresh = Callable[[str], str]


class Step(NamedTuple):
    """A line of a walk: a function, the one that calls it, and the requests that it makes."""

    file: str
    function: str
    caller: "Step | None"
    requests: tuple[str, ...]


def walk(begin: str) -> list[Step]:
    """The lines that follow a heading or sentence, up to the next heading or sentence."""
    after = PAGE[PAGE.index(begin) + len(begin) :]
    first = after.index("\n- ") + 1
    block = re.match(r"(?: *- .*\n)+", after[first:])
    assert block is not None
    above: list[Step] = []
    found: list[Step] = []
    for line in block[0].splitlines():
        match = LINE.fullmatch(line)
        assert match is not None, line
        depth = len(match[1]) // 4
        step = Step(
            match[2],
            match[3],
            above[depth - 1] if depth else None,
            tuple(REQUEST.findall(match[4] or "")),
        )
        above[depth:] = [step]
        found.append(step)
    return found


WALKS = {
    begin: walk(begin)
    for begin in (
        PLUMBING,
        "A worker sends requests",
        "#### pk groups reset-offsets",
        "#### pk topics create",
        "#### pk consume",
    )
}


def function(step: Step) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The definition of the step's function. Fails if its file does not define it."""
    node: ast.AST = ast.parse((ROOT / step.file).read_text(encoding="utf-8"))
    for name in step.function.split("."):
        defined = {
            child.name: child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        assert name in defined, f"{step.file} has no {step.function}"
        node = defined[name]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def names_in(node: ast.AST) -> set[str]:
    """Every name and attribute that a function mentions."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def imported_into(file: str) -> set[tuple[str, str]]:
    """(file, name) of what a file imports from other files of the command line, anywhere in it."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pk.cli"):
            other = "/".join((node.module or "").split(".")[1:]) + ".py"
            found |= {(other, alias.name) for alias in node.names}
    return found


@pytest.mark.parametrize("begin", WALKS)
def test_each_function_calls_the_next(begin: str) -> None:
    for step in WALKS[begin]:
        assert function(step)
        if step.caller is None:
            continue
        name, method = step.function.partition(".")[0], step.function.rpartition(".")[2]
        called = names_in(function(step.caller))
        assert method in called, f"{step.caller.function} does not call {step.function}"
        if step.caller.file != step.file:
            assert (step.file, name) in imported_into(step.caller.file), step


def test_reset_offsets_is_a_short_walk() -> None:
    steps = WALKS["#### pk groups reset-offsets"]
    hops = [s for s in steps if s.caller is not None and s.caller.file != s.file]
    assert len(hops) <= MOST_HOPS


@pytest.mark.parametrize(
    ("begin", "words"),
    [
        (
            "#### pk groups reset-offsets",
            ("groups", "reset-offsets", "GROUP", "-t", "TOPIC", "--to", "end", "-y"),
        ),
        ("#### pk topics create", ("topics", "create", "NEW")),
        ("#### pk consume", ("consume", "TOPIC", "-o", "start..end")),
    ],
)
def test_the_requests_are_those_of_the_command(
    at: Run, fresh: Fresh, begin: str, words: tuple[str, ...]
) -> None:
    topic = fresh("walk")
    at("topics", "create", topic)
    at("produce", topic, stdin=b"x\n")
    at("groups", "reset-offsets", f"{topic}-group", "-t", topic, "--to", "start", "-y")
    replaced = {"TOPIC": topic, "GROUP": f"{topic}-group", "NEW": f"{topic}-new"}
    ran = at(*(replaced.get(word, word) for word in words), "--trace-json")
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]
    made = {row["api"] for row in rows}
    named = {request for step in WALKS[begin] for request in step.requests}
    assert named
    assert named <= made
