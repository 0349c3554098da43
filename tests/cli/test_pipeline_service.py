"""packaging/pk-pipeline@.service and the container's command of docs/pipelines.md."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from clients.pk_broker import pk_command

from pk.cli.command_line.manual import man_pages
from pk.cli.command_line.parse import parse
from pk.cli.exits import Exit

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "packaging" / "pk-pipeline@.service"
TEXT = UNIT.read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")


def setting(name: str) -> str:
    (found,) = re.findall(rf"(?m)^{name}=(.*)$", TEXT)
    return found


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is missing")
    program = tmp_path / "pk"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = TEXT.replace("/usr/local/bin/pk", str(program))
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"(?m)^Documentation=.*\n", "", text))
    ran = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    # It only warns of an unknown value.
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_unit_runs_a_command_of_pk_and_ends_where_a_restart_is_useless() -> None:
    words = setting("ExecStart").replace("%i", "orders").split()
    assert words[0] == "/usr/local/bin/pk"
    assert parse(words[1:]).path == ("spark", "pipeline", "run")
    ends = {Exit(int(code)) for code in setting("RestartPreventExitStatus").split()}
    assert ends == {Exit.USAGE, Exit.NOT_AUTHORISED, Exit.LASTING}
    assert setting("KillMode") == "mixed", "a SIGTERM to Java would cut the batch off"
    (page,) = re.findall(r"man:([\w-]+)\(1\)", setting("Documentation"))
    assert f"{page}.1" in man_pages()


def test_the_command_of_the_container_is_one() -> None:
    (line,) = re.findall(r"(?m)^podman run .* pk-spark pk (.*)$", PAGE)
    parsed = parse(line.split())
    assert parsed.path == ("spark", "pipeline", "run") and parsed.values["restart"]


def test_a_file_that_is_wrong_ends_with_the_code_after_which_nothing_restarts(
    tmp_path: Path,
) -> None:
    file = tmp_path / "p.toml"
    file.write_text('name = "p"\n')
    words = pk_command("spark", "pipeline", "run", str(file), "--restart")
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == Exit.LASTING, ran.stderr
    assert "a pipeline needs at least one [[source]]" in ran.stderr
