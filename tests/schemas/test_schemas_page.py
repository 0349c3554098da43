"""Each command of docs/schemas.md runs, and prints what the page says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from schemas.running import Running, running_registry

from pk.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schemas.md"
TEXT = PAGE.read_text()
CONSOLE = "\n".join(re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL))


def steps() -> list[tuple[str, list[str]]]:
    """Each command with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for line in CONSOLE.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line:
            found[-1][1].append(line)
    return found


def order(*more: dict[str, Any]) -> str:
    """A schema of orders."""
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *more]}
    )


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_registry() as found:
        yield found


def test_the_commands_of_the_page(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", served.bootstrap)
    monkeypatch.setenv("URL", served.url)
    monkeypatch.chdir(tmp_path)
    item = {"name": "item", "type": "string"}
    (tmp_path / "order.avsc").write_text(order())
    (tmp_path / "bad.avsc").write_text(order(item))
    (tmp_path / "order2.avsc").write_text(order(item | {"default": "-"}))
    assert len(steps()) >= 10
    for line, expected in steps():
        words = shlex.split(line)
        if words[0] == "export":
            monkeypatch.setenv(words[1].partition("=")[0], served.url)
            continue
        code = main(words[1:])
        out, err = capfdbinary.readouterr()
        assert code == (1 if "check" in words else 0), (line, err)
        shown = (err + out).decode().replace(served.url, "$URL").splitlines()
        wanted = [each for each in expected if not each.startswith("──")]
        if wanted and wanted[-1] == "…":
            wanted, shown = wanted[:-1], shown[: len(wanted) - 1]
        if wanted:
            # A pipe has no rules under its headings.
            assert [each.split() for each in shown] == [each.split() for each in wanted], line


def test_the_program_for_spark_names_what_there_is() -> None:
    from pk.spark.schemas import columns

    for name in re.findall(r"\b(decoded|encoded)\(", TEXT):
        assert isinstance(getattr(columns, name), Callable)
