"""pk-client and pk-broker: the files and libraries of each, and that the client needs no others."""

import re
import subprocess
import sys

import pytest
from clients.pk_broker import pk_environment
from installed import (
    PROJECTS,
    ROOT,
    installed_for,
    own_requirements,
    project,
    wheel_files,
)
from packaging.requirements import Requirement
from test_house import EVERYWHERE, PACKAGES, import_graph, imports, name_of, sources

import pk.client
from pk.core import __version__

CLIENT_ONLY = {"typer", "rich", "prompt-toolkit", "google-re2", "cbor2", "tomlkit", "pk-broker"}
"""Libraries of the command line and of the broker, which the client does not need."""

MODULES = {"opentelemetry-api": "opentelemetry", "protobuf": "google"}
"""The modules of libraries that have another name than their distribution."""

DEVELOPMENT = {"dev", "docs", "plots"}
"""Extras that only pk's own development needs."""


def test_each_file_is_in_one_wheel() -> None:
    client, broker = wheel_files("pk-client"), wheel_files("pk-broker")
    assert not client.keys() & broker.keys()
    packages = {
        f"pk/{name_of(file)}"
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }
    # Spark finds its module by name, outside of the package.
    moved = {"pk/spark/pyspark_pk.py"} ^ {"pyspark_pk.py"}
    assert client.keys() | broker.keys() == packages ^ moved | {"pk/__init__.py"}


@pytest.mark.slow
def test_the_client_imports_from_its_own_wheel_alone() -> None:
    """Also imports inside functions, and those for type checkers only."""
    files = {name_of(path).removesuffix(".py"): path.read_text() for path in sources()}
    graph = import_graph(files)
    own = {
        path.removeprefix("pk/").removesuffix(".py")
        for path in wheel_files("pk-client")
        if path.endswith(".py") and path != "pk/__init__.py"
    }
    public = {name for name in files if name.startswith("client/")}
    named = {home.removeprefix("pk.").replace(".", "/") for home in pk.client._HOMES}
    reached, todo = set[str](), {*public, *named}
    while todo:
        name = todo.pop()
        reached.add(name)
        todo |= {f"{name[:at]}/__init__" for at, c in enumerate(name) if c == "/"} - reached
        todo |= graph[name] - reached
        assert name in own, f"the client imports {name}, which packaging/client does not list"
    used = (
        {module.partition(".")[0] for name in reached for _, module in imports(files[name])}
        - EVERYWHERE
        - {"pk"}
    )
    by_others = {"antlr4", "referencing"}  # requirements of proto-schema-parser and jsonschema
    declared, extras = own_requirements("pk-client")
    lines = [*declared, *(line for extra in extras.values() for line in extra)]
    required = {Requirement(line).name for line in lines}
    names = {MODULES.get(name, name.replace("-", "_")) for name in required}
    assert used - by_others <= names


def test_what_the_client_needs() -> None:
    dependencies, _ = own_requirements("pk-client")
    assert len(dependencies) <= 6
    assert not installed_for("pk-client", ()) & CLIENT_ONLY
    assert installed_for("pk-broker", ()) >= CLIENT_ONLY | {"pk-client"}


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import pk.client", {"trio", "msgspec", "ssl", "pk.net"}),
        (
            "from pk.client import open_consumer, open_producer",
            {
                "asyncio",
                "pk.net.client.admin",
                "pk.net.client.sasl",
                "pk.net.http",
                "pk.net.schemas",
            },
        ),
    ],
)
def test_an_import_brings_no_module_that_most_programs_do_not_use(
    program: str, absent: set[str]
) -> None:
    loaded = f"{program}; import sys; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", loaded],
        env=pk_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not absent & set(ran.stdout.split())


def test_both_have_the_same_version_license_and_pythons() -> None:
    dependencies, extras = own_requirements("pk-broker")
    assert f"pk-client=={__version__}" in dependencies
    for extra in own_requirements("pk-client")[1]:
        assert f"pk-client[{extra}]" in extras[extra]
    client, broker = project("pk-client"), project("pk-broker")
    for key in ("license", "license-files", "requires-python"):
        assert client[key] == broker[key]
    assert (PROJECTS["pk-client"] / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_no_library_is_named_by_both() -> None:
    """Otherwise the range would be written twice."""
    named = [
        {re.match(r"[\w.-]+", line)[0] for line in own_requirements(name)[0]}  # pyright: ignore[reportOptionalSubscript]
        for name in PROJECTS
    ]
    assert not named[0] & named[1]


def requirements_of_users() -> list[Requirement]:
    """The requirements of an installation with all extras except those for developing pk."""
    lines: list[str] = []
    for name in PROJECTS:
        dependencies, extras = own_requirements(name)
        lines += dependencies
        lines += (line for extra in extras.keys() - DEVELOPMENT for line in extras[extra])
    return [r for r in map(Requirement, sorted(lines)) if r.name != "pk-client"]


def bounds() -> dict[str, str]:
    """Library → upper bound, of those that CONTRIBUTING.md lists by name."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index("## Versions of libraries") :]
    rows = re.findall(r"(?m)^\| (`.*?`) \| ([^|]+) \|", section)
    return {name: bound for names, bound in rows for name in re.findall(r"`([\w-]+)`", names)}


def test_the_range_of_each_library_is_that_of_the_table() -> None:
    listed = bounds()
    patterns = {"the next minor version": r"<\d+\.\d+", "none": r"", "": r"<\d+"}
    found = requirements_of_users()
    assert listed.keys() - {"pk-client"} <= {each.name for each in found}
    for each in found:
        low = [str(s) for s in each.specifier if s.operator == ">="]
        high = "".join(str(s) for s in each.specifier if s.operator != ">=")
        assert len(low) == 1, each
        assert re.fullmatch(patterns[listed.get(each.name, "")], high), each


def test_private_names_are_those_of_a_library_that_is_pinned() -> None:
    """The type checker reports the others (reportPrivateUsage)."""
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if "ignore[reportPrivateUsage]" in text:
            assert name_of(path).startswith("spark/"), path
        assert not [m for _, m in imports(text) if re.search(r"^(?!pk\.).*\._", m)], path
