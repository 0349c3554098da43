"""Command lines of pk, run in this process through the entry point, with files for standard input,
output and error: a process of its own takes longer to start than most commands to end.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pk.cli.cluster import propagation
from pk.cli.main import main
from pk.cli.runtime import session


@dataclass(frozen=True)
class Ran:
    """The results of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.out else []


def run_command(words: Sequence[str], folder: Path, stdin: bytes = b"") -> Ran:
    """Runs a command line; no stream is a terminal. `folder` takes the file that it reads as
    standard input."""
    source = folder / "stdin"
    source.write_bytes(stdin)
    out, err = io.BytesIO(), io.StringIO()
    with source.open("rb") as raw, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(raw))
        patch.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
        patch.setattr(sys, "stderr", err)
        code = main(words)
        sys.stdout.flush()
        return Ran(code, out.getvalue(), err.getvalue())


def wait_for_slow_brokers(patch: pytest.MonkeyPatch) -> None:
    """Gives the brokers of a busy machine more time: commands of this process give up on a silent
    one after a minute, and wait as long for brokers to learn of a change."""
    patch.setattr(session, "_STRAGGLER_MS", "60000")
    patch.setattr(propagation, "PROPAGATION_S", 60.0)
