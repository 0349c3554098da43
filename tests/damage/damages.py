"""Damage to the files of one broker that does not run.

Each function takes a broker's data directory and the topic that the round wrote to. The files are
Kafka's, so the same functions damage pk and Apache Kafka.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

TAIL_BYTES: Final = 4096
"""The most that a torn tail loses."""

Damage = Callable[[Path, str, Random], None]


def remove_directories(data: Path, topic: str, _: Random) -> None:
    """The topic's partition directories are gone."""
    for folder in _partitions(data, topic):
        shutil.rmtree(folder)


def tear_tail(data: Path, topic: str, random: Random) -> None:
    """The last bytes of each log are missing, as after a power cut."""
    for log in _logs(data, topic):
        size = log.stat().st_size
        lost = random.randint(1, min(size, TAIL_BYTES)) if size else 0
        with log.open("r+b") as file:
            file.truncate(size - lost)


def flip_bit(data: Path, topic: str, random: Random) -> None:
    """One bit of each log is flipped, in its first half: whole batches follow."""
    for log in _logs(data, topic):
        if size := log.stat().st_size:
            with log.open("r+b") as file:
                position = random.randrange(max(1, size // 2))
                file.seek(position)
                (byte,) = file.read(1)
                file.seek(position)
                file.write(bytes([byte ^ (1 << random.randrange(8))]))


def remove_segment(data: Path, topic: str, _: Random) -> None:
    """The only segment of each partition is gone; its directory is there."""
    for log in _logs(data, topic):
        log.unlink()


def empty_log(data: Path, topic: str, _: Random) -> None:
    """Each log has no bytes, and no index or checkpoint of its own says otherwise."""
    for folder in _partitions(data, topic):
        for file in folder.iterdir():
            if file.name != "partition.metadata":
                file.unlink()


DAMAGES: Final[dict[str, Damage]] = {
    "directories removed": remove_directories,
    "tail torn": tear_tail,
    "one bit flipped": flip_bit,
    "segments removed": remove_segment,
    "logs emptied": empty_log,
}
"""Each by its name in the report."""


def _partitions(data: Path, topic: str) -> list[Path]:
    return sorted(p for p in data.glob(f"{topic}-*") if p.is_dir())


def _logs(data: Path, topic: str) -> list[Path]:
    return sorted(log for folder in _partitions(data, topic) for log in folder.glob("*.log"))
