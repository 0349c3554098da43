"""Reads the batch headers of a segment file as they lie on disk, with nothing of the product's
code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

HEADER_BYTES = 61


class BatchOnDisk(NamedTuple):
    """The position of a batch (format 2) in its file, and its header's fields."""

    position: int
    size: int
    base_offset: int
    attributes: int
    producer_id: int
    records: int

    @property
    def end(self) -> int:
        return self.position + self.size


def segments(log_dir: Path, topic: str, partition: int = 0) -> list[Path]:
    """The segment files of a partition, oldest first, wherever below `log_dir` it lies."""
    # `walk` tolerates the removal of deleted topics' directories while it runs.
    return sorted(
        Path(where) / name
        for where, _, names in os.walk(log_dir)
        if Path(where).name == f"{topic}-{partition}"
        for name in names
        if name.endswith(".log")
    )


def batches(segment: Path) -> list[BatchOnDisk]:
    """The whole batches of a file. The file may end in zeros if a broker allocates ahead."""
    data = segment.read_bytes()
    found = []
    position = 0
    while position + HEADER_BYTES <= len(data) and data[position + 16] == 2:
        header = data[position : position + HEADER_BYTES]
        size = 12 + int.from_bytes(header[8:12], "big")
        found.append(
            BatchOnDisk(
                position,
                size,
                int.from_bytes(header[:8], "big"),
                int.from_bytes(header[21:23], "big"),
                int.from_bytes(header[43:51], "big", signed=True),
                int.from_bytes(header[57:61], "big"),
            )
        )
        position += size
    return found
