"""The public names of `pk.client`, and the files that follow from the client on trio."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pk
import pk.client
from pk.client import aio, blocking

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_name_is_declared_for_programs_and_for_type_checkers() -> None:
    tree = ast.parse((ROOT / "client/__init__.py").read_text())
    declared = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(declared) == sorted(pk.client.__all__)
    for name, module in declared.items():
        assert module is not None
        assert getattr(pk.client, name) is getattr(importlib.import_module(module), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="producer_open"):
        _ = pk.client.producer_open  # pyright: ignore[reportAttributeAccessIssue]


def test_the_three_ways_have_the_same_entrances() -> None:
    entrances = {name for name in pk.client.__all__ if name.startswith("open_")}
    for way in (aio, blocking):
        assert {name for name in way.__all__ if name.startswith("open_")} == entrances


def test_the_package_has_a_version_and_imports_little() -> None:
    code = (
        "import sys, pk, pk.client\n"
        "assert 'trio' not in sys.modules\n"
        "from pk.client import open_producer, open_consumer, open_admin, open_share_consumer\n"
        "unwanted = {'rich', 'typer', 'prompt_toolkit', 're2', 'cryptography', 'cbor2'}\n"
        "print(pk.__version__, sorted(unwanted & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{pk.__version__} []\n"


def test_the_blocking_methods_are_those_of_the_client_on_trio() -> None:
    command = [sys.executable, "scripts/generate_blocking_client.py", "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stderr
