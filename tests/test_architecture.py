"""docs/architecture.md: every function that a walk names exists, and each step leads to the
next."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from each import for_each

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/architecture.md").read_text()
PICTURE = (ROOT / "docs/packages.svg").read_text()
[DRAWING] = re.findall(r"^```mermaid\n(.+?)^```$", TEXT, re.MULTILINE | re.DOTALL)
ROOMS = {
    str(file.parent.relative_to(ROOT))
    for pattern in ("core/*", "core/broker/*", "core/log/*", "net/*")
    for file in ROOT.glob(f"{pattern}/__init__.py")
}

STEP = re.compile(
    (
        r"^\d+\. (?:(?P<calls>→)|(?P<later>⇢) \(`(?P<link>\w+)`\))? ?`(?P<file>[\w/.]+)` "
        r"`(?P<name>[\w.]+)`:"
    ),
    re.MULTILINE,
)
NUMBERED = re.compile(r"^\d+\. ", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    file: str
    name: str
    calls: bool
    link: str | None
    """The name that both functions use, if the step runs later."""


def walks() -> list[list[Step]]:
    found: list[list[Step]] = []
    for match in STEP.finditer(TEXT):
        step = Step(match["file"], match["name"], bool(match["calls"]), match["link"])
        if step.calls or step.link:
            found[-1].append(step)
        else:
            found.append([step])
    return found


@cache
def function(file: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The function of that name, `Class.method` in a class. Raises LookupError."""
    scope: ast.Module | ast.ClassDef = ast.parse((ROOT / file).read_text())
    *classes, last = name.split(".")
    for one in classes:
        scope = next(n for n in scope.body if isinstance(n, ast.ClassDef) and n.name == one)
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == last:
            return node
    raise LookupError(f"{file} has no {name}")


def names_in(node: ast.AST) -> set[str]:
    """Everything that a function names: variables, attributes, types, arguments."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.add(one.id)
        elif isinstance(one, ast.Attribute):
            found.add(one.attr)
        elif isinstance(one, ast.arg):
            found.add(one.arg)
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(one.name)
    return found


def calls_in(node: ast.AST) -> set[str]:
    """The names of the functions that a function calls."""
    called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in called}


def pairs() -> list[tuple[Step, Step]]:
    return [pair for walk in walks() for pair in pairwise(walk)]


@for_each(("one", "other"), pairs(), ids=lambda step: f"{step.file}:{step.name}")
def test_each_step_leads_to_the_next(one: Step, other: Step) -> None:
    source, target = function(one.file, one.name), function(other.file, other.name)
    if other.calls:
        assert other.name.rpartition(".")[2] in calls_in(source)
    else:
        assert other.link in names_in(source)
        assert other.link in names_in(target)


def test_no_step_is_left_out() -> None:
    """Each numbered line is a step that the test can read, and the five requests have their
    walks."""
    assert len(NUMBERED.findall(TEXT)) == sum(map(len, walks())) > 30
    heading = "## Requests, step by step"
    (section,) = re.findall(rf"^{heading}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    _, *requests = re.split(r"^### ", section, flags=re.MULTILINE)
    assert len(requests) == 5
    assert all(STEP.search(request) for request in requests)


def test_the_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:core|net|cli|tests|scripts)/[\w/.]+\.(?:py|md))`", TEXT)
    assert len(named) > 100
    missing = [name for name in named if "NOUN" not in name and not (ROOT / name).is_file()]
    assert missing == []


def test_no_level_of_headings_is_left_out() -> None:
    levels = [len(marks) for marks in re.findall(r"^(#+) ", TEXT, re.MULTILINE)]
    assert levels[0] == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_the_packages_are_those_of_the_broker() -> None:
    folders = {p.parent.name for p in (ROOT / "core/broker").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `core/broker/(\w+)` \|", TEXT, re.MULTILINE)) == folders
    for name in folders:
        sentence = ast.get_docstring(
            ast.parse((ROOT / "core/broker" / name / "__init__.py").read_text())
        )
        assert sentence and sentence.endswith(".") and "\n" not in sentence
        assert re.search(rf">{name}</t(?:ext|span)>", PICTURE), "it is drawn"


def test_the_folders_of_apis_are_told_in_the_words_of_their_packages() -> None:
    told = dict(re.findall(r"^\| `core/api/(\w+)` \| (.+) \|$", TEXT, re.MULTILINE))
    packages = {p.parent.name: p.read_text() for p in (ROOT / "core/api").glob("*/__init__.py")}
    sentences = {n: ast.get_docstring(ast.parse(text)) or "" for n, text in packages.items()}
    assert {name: f"{row}.".lower() for name, row in told.items()} == {
        name: sentence.lower() for name, sentence in sentences.items()
    }


def test_every_room_is_drawn_and_every_arrow_is_an_import() -> None:
    tops = {"cli", "spark", "testing", "net"}
    of_ids = {room.replace("/", "_"): room for room in ROOMS | tops}
    drawn = re.findall(r"^ +(?:subgraph )?(\w+) ?\[", DRAWING, re.MULTILINE)
    assert sorted(of_ids) == sorted(set(drawn) - {"machines", "bytes"})
    arrows = re.findall(r"^ +(\w+) --> (\w+)$", DRAWING, re.MULTILINE)
    assert len(arrows) > 15
    for source, target in arrows:
        importing, imported = of_ids[source], of_ids[target].replace("/", ".")
        lines = re.compile(rf"^\s*from pk\.{imported}\b", re.MULTILINE)
        files = (ROOT / importing).rglob("*.py")
        assert any(lines.search(file.read_text()) for file in files), (source, target)
