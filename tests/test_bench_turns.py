"""A broker of `scripts/bench` runs while it is measured, and is paused while another is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])


def is_paused(pid: int) -> bool:
    """Whether the kernel has stopped the process."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def test_only_the_broker_whose_turn_it_is_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmark import systems
    from benchmark.systems import Prototype, awake, pause, resume, running

    monkeypatch.setattr(systems, "SETTLE_S", 0.0)
    with (
        running(Prototype(tmp_path / "a"), tmp_path / "a") as first,
        running(Prototype(tmp_path / "b"), tmp_path / "b") as second,
    ):
        pause(first)
        pause(second)
        for one, other in ((first, second), (second, first)):
            with awake(one):
                assert (is_paused(one.pid()), is_paused(other.pid())) == (False, True)
            assert is_paused(one.pid())
        with pytest.raises(ZeroDivisionError), awake(first):
            raise ZeroDivisionError  # a measurement that fails lets the broker rest, too
        assert is_paused(first.pid())
        resume(first)
        assert not is_paused(first.pid())
