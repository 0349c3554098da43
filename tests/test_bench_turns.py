"""A broker of `scripts/bench` runs while it is measured, and is paused while another is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from clients.apache_kafka import free_ports

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])


def is_paused(pid: int) -> bool:
    """Whether the kernel has stopped the process."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def test_a_broker_runs_only_while_it_is_awake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmark import systems
    from benchmark.systems import Pk, awake, pause, resume, running

    monkeypatch.setattr(systems, "SETTLE_S", 0.0)
    with running(Pk(tmp_path, free_ports(1)[0]), tmp_path / "data") as broker:
        pause(broker)
        assert is_paused(broker.pid())
        with awake(broker):
            assert not is_paused(broker.pid())
        assert is_paused(broker.pid())
        with pytest.raises(ZeroDivisionError), awake(broker):
            raise ZeroDivisionError  # a measurement that fails lets the broker rest, too
        assert is_paused(broker.pid())
        resume(broker)
        assert not is_paused(broker.pid())
