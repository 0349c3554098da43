"""The distributions of an installation of pk with some extras, and a Python with only these."""

import os
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from clients.pk_broker import pk_environment
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"pk-broker": ROOT, "pk-client": ROOT / "packaging" / "client"}
"""The distributions of the repository: name → the directory of their pyproject.toml."""

_BLOCKER = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: (
    None if name in BLOCKED else find(name, path, target)
)
"""


def project(name: str) -> dict[str, object]:
    """The table `project` of one of the repository's distributions."""
    with (PROJECTS[name] / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def own_requirements(name: str) -> tuple[list[str], dict[str, list[str]]]:
    """The requirements of one of the repository's distributions, and those of its extras, from
    pyproject.toml. The metadata of the environment may be older."""
    table = project(name)
    dependencies, extras = table["dependencies"], table["optional-dependencies"]
    assert isinstance(dependencies, list) and isinstance(extras, dict)
    return dependencies, extras


def _requirements(name: str, extras: Iterable[str]) -> list[Requirement]:
    """The requirements of a distribution with `extras`.

    Raises PackageNotFoundError if it is not installed here."""
    if name in PROJECTS:
        dependencies, optional = own_requirements(name)
        lines = [*dependencies, *(line for extra in extras for line in optional[extra])]
    else:
        lines = requires(name) or []
    found = map(Requirement, lines)
    return [
        each
        for each in found
        if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in (*extras, ""))
    ]


def installed_for(name: str, extras: Iterable[str]) -> set[str]:
    """The distributions that an installation of `name[extras]` brings, itself among them."""
    found: set[str] = set()
    wanted = [(canonicalize_name(name), frozenset(extras))]
    done: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        each = wanted.pop()
        if each in done:
            continue
        done.add(each)
        try:
            requirements = _requirements(*each)
        except PackageNotFoundError:
            continue  # of another platform
        found.add(each[0])
        wanted += [(canonicalize_name(r.name), frozenset(r.extras)) for r in requirements]
    return found


def hidden_from(extras: Iterable[str], name: str = "pk-broker") -> set[str]:
    """The packages of this environment that an installation of `name[extras]` lacks."""
    brought = installed_for(name, extras)
    return {
        module
        for module, owners in packages_distributions().items()
        if module.isidentifier() and brought.isdisjoint(map(canonicalize_name, owners))
    } - {"pip", "setuptools", "pkg_resources"}


def with_extras(
    extras: Iterable[str], folder: Path, name: str = "pk-broker", paths: Sequence[Path] = ()
) -> dict[str, str]:
    """The environment of a Python that is as if `name` had just been installed with `extras`, and
    those of its child processes; `folder` takes what hides the rest. `paths` come first among the
    directories of modules."""
    hidden = sorted(hidden_from(extras, name))
    (folder / "sitecustomize.py").write_text(f"BLOCKED = {hidden!r}\n{_BLOCKER}")
    environment = pk_environment()
    environment["PYTHONPATH"] = os.pathsep.join(
        (str(folder), *map(str, paths), environment["PYTHONPATH"])
    )
    return environment


@cache
def wheel_files(name: str) -> dict[str, Path]:
    """The files that a distribution's wheel installs as modules: path there → file here."""
    builder = WheelBuilder(str(PROJECTS[name]))
    return {each.distribution_path: Path(each.path) for each in builder.recurse_included_files()}


def client_alone(extras: Iterable[str], folder: Path) -> dict[str, str]:
    """The environment of a Python with `pk-client[extras]` and nothing else: the files of its
    wheel, below `folder`, and the libraries that it brings."""
    for path, file in wheel_files("pk-client").items():
        target = folder / "site" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(file.resolve())
    return with_extras(extras, folder, "pk-client", [folder / "site"])
