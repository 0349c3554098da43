"""The file in which a copy saves its progress (`pk cp --state`).

The file is JSON. It is written to a new file and renamed after the target has acknowledged
everything before its offsets, so it may be behind the copied records, but never ahead of them. It
has the ids of both clusters and of the topics, so a copy does not continue with another topic of
the same name.
"""

import fcntl
import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pk.cli.exits import CommandError, Refused
from pk.cli.nouns.cp.resumed_spans import report_deleted, resumed_spans
from pk.cli.records.range_reader import Span
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition, uuid_text
from pk.net.client.results import TopicDescription

_VERSION = 1
_KIND = "pk cp"


class StateFile:
    """The progress of a copy on disk; without a path, nothing is saved."""

    def __init__(
        self,
        path: str | None,
        targets: Mapping[str, str],
        clusters: tuple[str | None, str | None],
    ) -> None:
        self.path = path
        self._targets = targets
        self._clusters = list(clusters)
        self._topics: dict[str, dict[str, Any]] = {}
        """The entry of each topic in the file, including topics that are not copied now."""

        self.found = False
        """Whether there was a file from which to continue."""

    @contextmanager
    def held(self) -> Generator[None]:
        """Lock the file during the block, since two copies would copy the same records. The lock is
        a second file, removed afterwards. Raises CommandError."""
        if self.path is None:
            yield
            return
        beside = f"{self.path}.lock"
        fd = self._locked(beside)
        try:
            os.pwrite(fd, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.unlink(beside)
            os.close(fd)

    def _locked(self, beside: str) -> int:
        while True:
            try:
                fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as e:
                raise CommandError(f"{self.path} cannot be written: {e.strerror}.") from None
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_ino == os.stat(beside).st_ino:
                    return fd
            except BlockingIOError:
                holder = os.pread(fd, 20, 0).decode(errors="replace")
                os.close(fd)
                raise CommandError(
                    f"Another copy, process {holder}, uses {self.path}; stop it, or name another "
                    "file."
                ) from None
            except FileNotFoundError:
                pass  # the other process has just removed it
            os.close(fd)

    def resumed(
        self,
        context: Context,
        spans: Mapping[TopicPartition, Span],
        starts: Mapping[TopicPartition, int],
        topics: Sequence[TopicDescription],
    ) -> dict[TopicPartition, Span]:
        """The `spans` from the positions in the file on. Records before `starts` that were deleted
        since then are reported as a failure.

        Raises CommandError, or Refused if the file belongs to another copy.
        """
        if self.path is None:
            return dict(spans)
        self._read()
        for topic in topics:
            known = self._topics.setdefault(
                topic.name,
                {
                    "topic_id": uuid_text(topic.topic_id),
                    "target": self._targets[topic.name],
                    "positions": {},
                },
            )
            self._check(known, "topic_id", uuid_text(topic.topic_id), topic.name)
            self._check(known, "target", self._targets[topic.name], topic.name)
        positions = {
            tp: int(known)
            for tp in spans
            if (known := self._topics[tp.topic]["positions"].get(str(tp.partition))) is not None
        }
        report_deleted(context, spans, starts, positions)
        return resumed_spans(spans, starts, positions)

    def _check(self, known: Mapping[str, Any], what: str, now: str, topic: str) -> None:
        if known.get(what) != now:
            name = "the topic's id" if what == "topic_id" else "the target"
            raise Refused(
                f"{self.path} belongs to another copy: {name} of {topic} is {now}, but the file "
                f"has {known.get(what)}; name another file, or remove this one to start again."
            )

    def _read(self) -> None:
        assert self.path is not None
        try:
            with open(self.path, encoding="utf-8") as file:
                data = json.load(file)
            if data["kind"] != _KIND or data["version"] != _VERSION:
                raise ValueError
            clusters, self._topics = data["clusters"], data["topics"]
            for topic in self._topics.values():
                topic["positions"] = {str(int(p)): int(o) for p, o in topic["positions"].items()}
        except FileNotFoundError:
            return
        except OSError as e:
            raise CommandError(f"{self.path} cannot be read: {e.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CommandError(f"{self.path} was not written by `pk cp --state`.") from None
        if clusters != self._clusters:
            raise Refused(
                f"{self.path} belongs to a copy between other clusters; name another file, or "
                "remove this one."
            )
        self.found = any(t["positions"] for t in self._topics.values())

    def save(self, positions: Mapping[TopicPartition, int]) -> None:
        """Save that everything before `positions` was copied. Raises CommandError."""
        if self.path is None:
            return
        for tp, offset in positions.items():
            self._topics[tp.topic]["positions"][str(tp.partition)] = offset
        data = {
            "kind": _KIND,
            "version": _VERSION,
            "clusters": self._clusters,
            "topics": self._topics,
        }
        beside = f"{self.path}.new"
        try:
            with open(beside, "w", encoding="utf-8") as file:
                json.dump(data, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except OSError as e:
            raise CommandError(f"{self.path} cannot be written: {e.strerror}.") from None
