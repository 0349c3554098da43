"""packaging/Containerfile: a linter finds no problems, and its command starts a broker that its
health check accepts. (Most machines have no container engine that could build it.)"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clients.apache_kafka import free_ports
from clients.pk_broker import pk_environment

FILE = Path(__file__).resolve().parents[2] / "packaging" / "Containerfile"
TEXT = FILE.read_text(encoding="utf-8").replace("\\\n", "")


def instructions(name: str) -> list[str]:
    """The arguments of each instruction with this name."""
    return re.findall(rf"(?m)^{name} +(.*)$", TEXT)


def test_a_linter_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is missing: it has no wheel for this machine")
    ran = subprocess.run([hadolint, FILE], capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_it_runs_as_a_user_of_its_own_with_its_data_in_a_volume() -> None:
    (user,) = instructions("USER")
    assert int(user) > 0
    assert instructions("VOLUME") == ["/var/lib/pk"]
    (base,) = instructions("FROM")
    assert base.endswith("-slim")


def test_what_it_starts_is_healthy_and_ends_on_sigterm(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    shim = tmp_path / "pk"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pk.cli.main "$@"\n')
    shim.chmod(0o755)
    environment = pk_environment() | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        **dict(each.split("=", 1) for each in instructions("ENV")),
    }

    def here(command: str) -> list[str]:
        """Runs a command of the container on this machine."""
        words: list[str] = json.loads(command)
        data = str(tmp_path / "data")
        return [w.replace("/var/lib/pk/data", data).replace(":9092", f":{port}") for w in words]

    (command,) = instructions("CMD")
    (health,) = re.findall(r"(?m)^HEALTHCHECK .* CMD (\[.*\])$", TEXT)
    with subprocess.Popen(
        here(command), env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "is ready" in process.stdout.readline()
            subprocess.run(
                here(health), env=environment, stdout=subprocess.DEVNULL, timeout=300, check=True
            )
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert (tmp_path / "data").is_dir()
