"""The events of a run: notes for a person to read after a failure, and a hash for comparing two
runs.

Every note and every message goes into the hash. Messages themselves are kept only for a timeline.
Since runs are deterministic, a failed run can be run again with one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

import trio
from sim.processes import OWNER

from pk.core.wire.schema import Struct

TEXT_MAX = 400


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str, about: str = "") -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.about = about
        """The name of the topic whose messages the timeline should show, or "" for all messages."""


class Line(NamedTuple):
    """One line of a timeline."""

    time: float
    who: str
    text: str
    about: frozenset[str] | None
    """None for a note; for a message the topics that it names."""


class Chronicle:
    """The notes of one run."""

    def __init__(self, detail: bool = False) -> None:
        self.detail = detail
        """Whether messages are kept."""
        self.lines: list[Line] = []
        self.digest = 0
        self.messages = 0

    def note(self, who: str, text: str) -> None:
        """Something that is always worth a line."""
        now = trio.current_time()
        self.digest = crc32(f"{now:.9f} {who} {text}".encode(), self.digest)
        self.lines.append(Line(now, who, text, None))

    def carried(self, data: bytes) -> None:
        """Bytes went over the network."""
        self.messages += 1
        self.digest = crc32(data, crc32(f"{trio.current_time():.9f}".encode(), self.digest))

    def message(self, who: str, head: str, message: Any, names: dict[bytes, str]) -> None:
        """Add a message, if they are kept. `names` has topics' names by their ids."""
        if self.detail:
            about: set[str] = set()
            text = summary(message, names, about)
            self.lines.append(
                Line(trio.current_time(), who, f"{head} {text}"[:TEXT_MAX], frozenset(about))
            )

    def timeline(self, about: str = "", message_s: float = 5.0) -> Iterable[str]:
        """Every note, and of the last `message_s` seconds the messages that name the topic
        `about`."""
        last = self.lines[-1].time if self.lines else 0.0
        for time, who, text, topics in self.lines:
            if topics is None or (last - time <= message_s and (not about or about in topics)):
                mark = " " if topics is None else "·"
                yield f"{time:10.4f} {mark} {who:<12} {text}"


def summary(value: Any, names: dict[bytes, str], about: set[str]) -> str:
    """A message in one line: fields that differ from their defaults, topics by name, records by
    their size."""
    if isinstance(value, Struct):
        parts = []
        for name, field in value.FIELDS.items():
            given = getattr(value, name)
            if given != field.default and given not in ([], "", None):
                parts.append(f"{name}={summary(given, names, about)}")
        return f"{{{' '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(summary(v, names, about) for v in value)}]"
    if isinstance(value, str):
        about.add(value)
        return value
    if isinstance(value, bytes) and len(value) == 16:
        name = names.get(value)
        if name is not None:
            about.add(name)
        return name or value.hex()[:6]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    length = getattr(value, "length", None)
    if length is not None:
        return f"<{length} bytes>"
    return str(value)


class LogNotes(logging.Handler):
    """Makes notes of what the nodes log."""

    def __init__(self, chronicle: Chronicle) -> None:
        super().__init__(logging.INFO)
        self._chronicle = chronicle

    def emit(self, record: logging.LogRecord) -> None:
        owner = OWNER.get()
        who = owner.name if owner is not None else "-"
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text = f"{text} [{type(error).__name__}: {error}]"
        self._chronicle.note(who, f"{record.levelname.lower()} {text}")
