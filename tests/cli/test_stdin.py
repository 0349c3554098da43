"""Waiting for lines: each line is returned as soon as it is complete, and a signal is never
missed."""

import os
import select
import signal
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

from pk.cli.terminal import stdin
from pk.cli.terminal.stdin import lines_of, wait_for_input


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, int]]:
    reading, writing = os.pipe()
    with open(reading, "rb") as source:
        yield source, writing


def test_lines_come_as_they_are_written(pipe: tuple[BinaryIO, int]) -> None:
    source, writing = pipe
    lines = lines_of(source)
    os.write(writing, b"one\ntw")
    assert next(lines) == b"one\n"
    os.write(writing, b"o\r\n\nlast")
    assert [next(lines), next(lines)] == [b"two\r\n", b"\n"]
    os.close(writing)
    assert list(lines) == [b"last"]


def test_a_signal_right_before_it_blocks_is_heard(
    pipe: tuple[BinaryIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal arrives after Python last checked for signals. Then only input in the pipe ends
    the wait."""
    source, writing = pipe
    asked = 0

    def late(*what: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            signal.raise_signal(signal.SIGUSR1)
        else:
            os.write(writing, b"line\n")
        return select.select(*what)

    class Late:
        select = staticmethod(late)

    monkeypatch.setattr(stdin, "select", Late)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        wait_for_input(source)
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(writing)
    assert asked == 2
    assert source.readline() == b"line\n"
    assert signal.set_wakeup_fd(-1) == -1, "as it was before"
