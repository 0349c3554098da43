"""Apache Kafka's own readers of logins and rules, and Java's regular expressions, in a process that
answers line by line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

from clients.apache_kafka import java_command


class SecurityAnswers:
    """How Kafka and Java interpret a text."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(str(Path(__file__).with_name("SecurityAnswers.java"))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._process.communicate()

    def ask(self, kind: str, **asked: Any) -> dict[str, Any]:
        """The answer to one question: see `SecurityAnswers.java`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps({"kind": kind, **asked}), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())
