"""What an installation of pk with some extras brings, and a Python that has no more than that."""

import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from clients.pk_broker import pk_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_BLOCKER = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: (
    None if name in BLOCKED else find(name, path, target)
)
"""


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
            lines = requires(each[0]) or []
        except PackageNotFoundError:
            continue  # of another platform
        found.add(each[0])
        for requirement in map(Requirement, lines):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in (*each[1], "")):
                named = canonicalize_name(requirement.name)
                wanted.append((named, frozenset(requirement.extras)))
    return found


def hidden_from(extras: Iterable[str]) -> set[str]:
    """The packages of this environment that an installation of pk with `extras` lacks."""
    brought = installed_for("pk-broker", extras)
    return {
        module
        for module, owners in packages_distributions().items()
        if module.isidentifier() and brought.isdisjoint(map(canonicalize_name, owners))
    } - {"pip", "setuptools", "pkg_resources"}


def with_extras(extras: Iterable[str], folder: Path) -> dict[str, str]:
    """The environment of a Python that is as if pk had just been installed with `extras`, and
    those of its child processes; `folder` takes what hides the rest."""
    hidden = sorted(hidden_from(extras))
    (folder / "sitecustomize.py").write_text(f"BLOCKED = {hidden!r}\n{_BLOCKER}")
    environment = pk_environment()
    environment["PYTHONPATH"] = os.pathsep.join((str(folder), environment["PYTHONPATH"]))
    return environment
