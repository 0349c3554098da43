"""Runs every command of the tree in a pipe and on terminals of 80 by 24 and 200 by 50, against our
broker and Apache Kafka.

Every command must end without a traceback and with its documented exit code. Its JSON must match
its own schema, a pipe must get no escape sequences, NO_COLOR must disable colors, and no line of
output may be wider than the terminal. Screens that are the same each time are stored in `screens/`
and compared. `PK_STORE_SCREENS=1 pytest tests/cli/test_cli_matrix.py` writes them again: check the
changes that git shows.
"""

import csv
import io
import itertools
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cbor2
import jsonschema
import pytest
from cli_matrix import CASES, LIVE, Case
from clients.fixtures import Kafka, fresh_name
from clients.pk_broker import PkBroker
from rich.cells import cell_len
from shapes import check_json
from terminal import ESCAPE, SIZES, Shown, Terminal, on_terminal, size_name

from pk.cli.command_line.parse import parse
from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.schema import columns_of
from pk.cli.command_line.tree import Command, commands, tree
from pk.cli.exits import UsageError
from pk.cli.main import main

Run = Callable[..., Any]
Start = Callable[..., Terminal]
ROOT_FOLDER = Path(__file__).resolve().parents[2]
SCREENS = Path(__file__).with_name("screens")
STORE = bool(os.environ.get("PK_STORE_SCREENS"))
AGE_MS = 5 * 86_400_000 + 3_660_000
"""How old the world's first record is when the world is made: shown as 5 d 1 h for the next 59
minutes."""

_NEW = itertools.count(1)


def new_name() -> str:
    """A new name. All have the same length, so that lines wrap at the same column in every run."""
    return f"new-{os.getpid():08}-{next(_NEW):04}"


class World(NamedTuple):
    """A cluster with the topics and groups that the cases name."""

    kind: str
    bootstrap: str
    names: dict[str, str]

    def words(self, case: Case, tmp: Path) -> list[str]:
        """The command line of a case. The names of the resources that it creates are new."""
        (tmp / "edited").write_text("retention.ms=90000\n")
        names = self.names | {
            "tmp": str(tmp),
            "new": new_name(),
            "edited": str(tmp / "edited"),
        }
        words = shlex.split(case.words.format(**names))
        if "{new}" in case.words and "topics create" not in case.words:
            quietly("topics", "create", names["new"], "-b", self.bootstrap)
        return words


def quietly(*words: str, stdin: str = "") -> None:
    """Runs a command that sets up the world."""
    shown = on_terminal(main, words, typed=stdin)
    assert shown.code == 0, shown.screen


def make_world(kind: str, bootstrap: str, data: Path, tmp: Path) -> World:
    of = (lambda name: name) if kind == "pk" else lambda name: fresh_name(f"matrix-{name}")
    names = {name: of(name) for name in ("orders", "payments", "billing", "ready")}
    first_ms = time.time_ns() // 1_000_000 - AGE_MS
    records = tmp / "records.jsonl"
    rows = [
        {
            "topic": names["orders"],
            "partition": i % 3,
            "key": f"customer-{i}",
            "value": json.dumps({"n": i, "sum": i * 10}),
            "headers": [["source", "web"]],
            "timestamp": first_ms + i * 1000,
        }
        for i in range(6)
    ]
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    at = ("-b", bootstrap)
    quietly("topics", "create", names["orders"], "-p", "3", "-c", "retention.ms=-1", *at)
    quietly("topics", "create", names["payments"], *at)
    for row in rows:
        quietly(
            "produce", names["orders"], "-p", str(row["partition"]), "-k", str(row["key"]), "-H",
            "source=web", "--timestamp", str(row["timestamp"]), str(row["value"]), *at,
        )  # fmt: skip
    quietly("produce", names["payments"], "-k", "k", "paid", *at)
    for group, to in (("billing", "start"), ("ready", "end")):
        words = (names[group], "-t", names["orders"], "--to", to, "-y")
        quietly("groups", "reset-offsets", *words, *at)
    broker = "1"
    return World(kind, bootstrap, names | {"data": str(data), "broker": broker})


@pytest.fixture(scope="module")
def pk_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A separate broker for this module, because screens with its lists are stored."""
    tmp = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch, PkBroker() as broker:
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patch.setenv(variable, str(tmp / variable.lower()))
        assert broker.directory is not None
        yield make_world("pk", broker.bootstrap, broker.directory, tmp)


@pytest.fixture(scope="module")
def apache_world(apache: Kafka, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world("apache", apache.bootstrap, apache.log_dir, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> World:
    """The world of a kind of broker, by `kinds_of`."""
    return request.getfixturevalue(f"{request.param}_world")


def kinds_of(case: Case) -> Iterator[tuple[str, tuple[pytest.MarkDecorator, ...]]]:
    """The brokers that a case is driven against, and the marks that go with each."""
    for kind, marks in (("pk", ()), ("apache", (pytest.mark.peer,))):
        if case.only in (None, kind):
            yield kind, marks


# The whole tree


def driven() -> set[tuple[str, ...]]:
    found = {tuple(path.split()) for path in LIVE}
    for case in CASES:
        if parsed(case.words) is None:
            assert case.code == 2, case.words
        else:
            found.add(path_of(case))
    return found


def test_no_command_is_missing() -> None:
    assert {path for path, _ in commands(tree())} - driven() == set()


def test_what_is_said_to_be_driven_elsewhere_is() -> None:
    for where in LIVE.values():
        file, _, name = where.partition("::")
        assert f"def {name}(" in (ROOT_FOLDER / file).read_text(), where


# Commands in a pipe


@pytest.mark.parametrize(
    ("case", "world"),
    [
        pytest.param(case, kind, id=f"{kind}-{case.label}", marks=marks)
        for case in CASES
        for kind, marks in kinds_of(case)
        if not case.typed
    ],
    indirect=["world"],
)
def test_in_a_pipe(case: Case, world: World, at_world: Run, tmp_path: Path) -> None:
    ran = at_world(*world.words(case, tmp_path), stdin=case.stdin)
    assert_sound(case, ran.code, ran.text + ran.err)
    assert not ESCAPE.search(ran.err) and not ESCAPE.search(ran.text)
    command = command_of(case)
    if command is None or not command.shows or " -f " in case.words or case.code not in (0, 1, 124):
        return
    words = [*world.words(case, tmp_path), "-f", "json"]
    ran = at_world(*words, stdin=case.stdin)
    assert ran.code == case.code, ran.err
    if ran.out or not case.code:
        check_json(words, ran.out)


@pytest.fixture
def at_world(world: World, pk: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", world.bootstrap)
    return pk


@cache
def parsed(words: str) -> Parsed | None:
    """The parsed command line of a case, with a placeholder for every name; None if it is wrong."""
    names = dict.fromkeys(re.findall(r"{(\w+)}", words), "1")
    try:
        return parse(shlex.split(words.format(**names)))
    except UsageError:
        return None


def command_of(case: Case) -> Command | None:
    found = parsed(case.words)
    return found.node if found is not None and isinstance(found.node, Command) else None


def path_of(case: Case) -> tuple[str, ...]:
    """The words of a case's only command."""
    found = parsed(case.words)
    assert found is not None, case.words
    return found.path


def assert_sound(case: Case, code: int, text: str) -> None:
    assert "Traceback" not in text and "bug in pk" not in text, text
    assert code == case.code, text


# Every format

FORMATS = ("json", "jsonl", "yaml", "csv", "name", "cbor", "table", "wide", "schema")
PASSING = re.compile(
    r"(_ms|_rate|_time|_bytes|_percent|_offset)$|^(time|age|trend|zero_s|worst|metadata_offset|topic_id|bytes)$"
)
"""Fields that differ from one run to the next."""


def firsts() -> list[tuple[str, Case]]:
    """The first case of each command that shows something and ends with an answer."""
    found: dict[str, Case] = {}
    for case in CASES:
        command = command_of(case)
        if command is None or not command.shows or case.stdin or case.typed or " -f " in case.words:
            continue
        if case.code == 0 and not re.search(r"nowhere|--columns|--where", case.words):
            found.setdefault(" ".join(path_of(case)), case)
    return list(found.items())


def lasting(value: Any) -> Any:
    """`value` without the fields that differ from run to run."""
    if isinstance(value, dict):
        return {k: lasting(v) for k, v in value.items() if not PASSING.search(k)}
    return [lasting(v) for v in value] if isinstance(value, list) else value


def flat(value: Any) -> str:
    """A value as csv holds it."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    ):
        return json.dumps(value, ensure_ascii=False)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    ["pk", pytest.param("apache", marks=pytest.mark.peer)],
    indirect=True,
)
def test_every_command_in_every_format(world: World, at_world: Run, tmp_path: Path) -> None:
    """One shell runs all of the roughly five hundred commands. Commands that change something run
    with --dry-run."""
    asked = dict(firsts())
    lines: list[str] = []
    narrowed: dict[str, list[str]] = {}
    for path, case in asked.items():
        command = command_of(case)
        assert command is not None
        words = shlex.join(world.words(case, tmp_path))
        if command.takes("dry_run") and " -d" not in words:
            words += " --dry-run"
        file = tmp_path / path.replace(" ", "-")
        lines += [f"{words} -f {form} > {file}.{form}" for form in FORMATS]
        if command.lists:
            known = columns_of(command, parse(shlex.split(words)).values)
            first = (known or ["base_offset"])[0]
            how = f"--columns {first} --sort -{first} --where \"{first} != 'of no row'\" --limit 1"
            lines.append(f"{words} {how} -f csv > {file}.narrowed")
            narrowed[path] = known or [first]
    ran = at_world("shell", stdin="\n".join(lines).encode())
    assert "bug in pk" not in ran.err, ran.err
    for path in asked:
        rows = check_formats(path, tmp_path / path.replace(" ", "-"))
        if path in narrowed:
            one = (tmp_path / f"{path.replace(' ', '-')}.narrowed").read_text().splitlines()
            assert (one[0], len(one)) == (narrowed[path][0], min(rows, 1) + 1), path
            head = (tmp_path / f"{path.replace(' ', '-')}.csv").read_text().splitlines()[0]
            assert set(head.split(",")) <= set(narrowed[path]) or path == "log dump", path
    left_out = {" ".join(path) for path, c in commands(tree()) if c.shows} - asked.keys()
    assert left_out <= NOT_IN_FORMATS.keys(), left_out - NOT_IN_FORMATS.keys()


NOT_IN_FORMATS = {
    "groups watch": "goes on",
    "node status": "no broker: exit code 1",
    "log remote": "wants a store",
    "cluster restore": "wants a store with segments: tests/clients/test_cluster_restore.py",
    "log adopt": "wants a directory of Apache Kafka's",
    "spark export": "wants Spark",
    "spark import": "wants Spark",
    "spark-export": "wants Spark",
    "spark pipeline check": "wants Spark: tests/spark/test_pipelines.py",
    "spark pipeline run": "wants Spark: tests/spark/test_pipelines.py",
    "spark pipeline status": "wants a pipeline: test_pipeline.py",
    "spark-import": "wants Spark",
    "spark warm-up": "takes a minute: tests/spark/test_warm_up.py",
    "spark package": "packs hundreds of megabytes: tests/spark/test_package.py",
    "reassign rollback": "nothing to roll back",
    "profile show": "no current profile",
}


def check_formats(path: str, stem: Path) -> int:
    """Compares the output of a command in each format with its JSON. Returns the number of rows."""

    def file(form: str) -> Path:
        return stem.with_name(f"{stem.name}.{form}")

    assert file("json").read_bytes(), f"{path} shows no JSON"
    data = json.loads(file("json").read_bytes())
    jsonschema.Draft202012Validator(json.loads(file("schema").read_bytes())).validate(data)
    lines = [json.loads(line) for line in file("jsonl").read_text().splitlines()]
    assert lasting(lines) == lasting(data), path
    assert lasting(cbor2.loads(file("cbor").read_bytes())) == lasting(data), path
    rows = list(csv.DictReader(io.StringIO(file("csv").read_text())))
    names = file("name").read_text().splitlines()
    assert names == [next(iter(row.values())) or "-" for row in rows], path
    if rows and rows[0].keys() == data[0].keys():
        plain = [{k: flat(v) for k, v in item.items()} for item in data]
        assert lasting(rows) == lasting(plain), path
    yaml = file("yaml").read_text()
    assert len(re.findall(r"^- ", yaml, re.MULTILINE)) == len(data) or yaml == "[]\n", path
    for form in ("table", "wide"):
        text = file(form).read_text()
        assert not ESCAPE.search(text) and not re.search("[─━│┃]|…$", text), (path, form)
        assert len(text.splitlines()) > len(rows) or not rows, (path, form)
    return len(rows)


# Commands without a broker

ASKS_NOBODY = {("groups", "undo"), ("undo",), ("profile", "add"), ("schema", "list")}
"""Commands whose cases need no cluster."""


def first_cases() -> dict[tuple[str, ...], Case]:
    """A case for each command that connects. For `pk wait`, it is one with --timeout 0."""
    found: dict[tuple[str, ...], Case] = {}
    for case in CASES:
        command = command_of(case)
        fits = "--timeout 0" in case.words if case.words.startswith("wait ") else case.code == 0
        if command is None or not fits or case.pipe_only and not case.words.startswith("configs"):
            continue
        if any(option.dest == "bootstrap_server" for option in command.options):
            found.setdefault(path_of(case), case)
    return {path: case for path, case in found.items() if path not in ASKS_NOBODY}


def test_where_no_broker_listens(pk: Run, tmp_path: Path) -> None:
    """Every command that connects ends with 3, and says at once which address did not answer."""
    (tmp_path / "edited").write_text("retention.ms=90000\n")
    for path, case in first_cases().items():
        names = dict.fromkeys(re.findall(r"{(\w+)}", case.words), "1") | {
            "tmp": str(tmp_path),
            "edited": str(tmp_path / "edited"),
        }
        ran = pk(*shlex.split(case.words.format(**names)), "-b", "127.0.0.1:1", stdin=case.stdin)
        assert ran.code == (124 if path[0] == "wait" else 3), (path, ran.err)
        assert "127.0.0.1:1: connection refused, nothing listens there" in ran.err, path
        assert "Traceback" not in ran.err, path


@pytest.mark.parametrize(
    "wrong",
    ["--columns no_such", "--sort -no_such", "--where 'no_such = 1'", "-f '{no_such}'", "-f jsn"],
)
def test_what_cannot_be_shown_is_said_before_anything_is_done(
    wrong: str, pk: Run, tmp_path: Path
) -> None:
    """Runs commands with a bootstrap address where no broker listens: a command that asked a broker
    first would end with 3. (Commands whose columns only the answer determines are left out.)"""
    world = World(
        "pk", "127.0.0.1:1", dict.fromkeys(("orders", "payments", "billing", "ready"), "x")
    )
    world.names.update(data=str(tmp_path), broker="1")
    for path, case in firsts():
        command = command_of(case)
        assert command is not None
        if path == "log dump" or not command.lists:
            continue
        words = shlex.split(case.words.format(**world.names, tmp=tmp_path, new="new", edited="e"))
        at = ("-b", world.bootstrap) if command.connects else ()
        ran = pk(*words, *shlex.split(wrong), *at)
        assert (ran.code, ran.out) == (2, b""), (words, ran.err)
        assert "no_such" in ran.err or "did you mean json" in ran.err, ran.err


# On a terminal


@pytest.mark.parametrize(
    ("case", "size", "world"),
    [
        pytest.param(
            case,
            size,
            kind,
            id=f"{kind}-{case.label}-{size_name(size)}",
            marks=marks if case.screen else (*marks, pytest.mark.slow),
        )
        for case in CASES
        for size in SIZES
        for kind, marks in kinds_of(case)
        if not case.stdin and not case.pipe_only
    ],
    indirect=["world"],
)
def test_on_a_terminal(
    case: Case,
    size: tuple[int, int],
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", world.bootstrap)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = on_terminal(main, world.words(case, tmp_path), size, case.typed)
    assert_sound(case, shown.code, shown.screen)
    if not case.raw:
        assert_fits(shown, size[0])
    if case.screen and world.kind == "pk":
        compare(case.screen, size, masked(shown.screen, world, tmp_path))


COPIED = re.compile(r"^\s*(\$ )?(pk|source) ")
"""Commands to copy are not broken into lines."""


def assert_fits(shown: Shown, width: int) -> None:
    wide = [line for line in shown.lines if cell_len(line) > width and not COPIED.match(line)]
    assert not wide, wide


NO_COLOR = (
    "topics list",
    "cluster health",
    "doctor --fail-on never",
    "help",
    "groups describe {billing}",
)


@pytest.mark.parametrize("words", NO_COLOR)
@pytest.mark.parametrize("setting", ["NO_COLOR=1", "TERM=dumb"])
def test_without_color(
    words: str, setting: str, pk_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pk_world.bootstrap)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(*setting.split("="))
    shown = on_terminal(main, pk_world.words(Case(words), tmp_path))
    assert shown.code == 0
    assert not ESCAPE.search(shown.raw) and not shown.colors


# Stored screens

TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)?")


def masked(text: str, world: World, tmp: Path) -> str:
    """Replaces text that differs from run to run with text of the same length, so that columns
    keep their positions."""
    text = text.replace(str(tmp), "/tmp/…").replace(world.names["data"], "/data")
    host, _, port = world.bootstrap.rpartition(":")
    text = re.sub(rf"(?<=\b{re.escape(host)}:){port}\b|\b{port}\b", "#" * len(port), text)
    text = re.sub(TIME, lambda found: "<time>".ljust(len(found[0])), text)
    text = re.sub(r"\bnew-\d{8}-\d{4}\b", "new-########-####", text)
    return re.sub(r"(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{22}(?![\w-])", "#" * 22, text)


def compare(name: str, size: tuple[int, int], text: str) -> None:
    path = SCREENS / size_name(size) / f"{name}.txt"
    if STORE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert path.exists(), f"{path} is not stored: PK_STORE_SCREENS=1 writes it"
    assert text + "\n" == path.read_text(), f"the screen differs from {path}"


def test_every_stored_screen_belongs_to_a_case() -> None:
    names = {case.screen for case in CASES}
    assert {path.stem for path in SCREENS.rglob("*.txt")} <= names
