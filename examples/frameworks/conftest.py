"""Starts an example as its users do, and stops it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

Start = Callable[..., subprocess.Popen[str]]


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Ends a process with SIGTERM after the block, and checks that it ended by itself."""
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def start(kafka_url: str) -> Iterator[Start]:
    """`start("worker.py", "2")` runs a Python program that finds the broker."""
    with ExitStack() as stack:

        def run(*words: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": kafka_url},
            )
            return stack.enter_context(stopped(process))

        yield run


@pytest.fixture
def line() -> Callable[[subprocess.Popen[str], str], str]:
    """`line(process, "at (.*)")` reads on until a line that matches, and returns its group."""

    def read(process: subprocess.Popen[str], pattern: str) -> str:
        seen = []
        for text in process.stdout or ():
            seen.append(text)
            if found := re.search(pattern, text):
                return found[1] if found.re.groups else found[0]
        raise AssertionError("".join(seen))

    return read
