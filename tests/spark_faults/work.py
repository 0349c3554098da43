"""The data that a driver gets from the run that starts and kills it. Imports nothing of pk, since
the driver of Spark's own connector has none."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

PARTITIONS = 3
BATCH_OFFSETS = 400
BATCH_OFFSETS_LAST = 20_000


@dataclass(frozen=True)
class Work:
    """A driver's work, passed as JSON."""

    bootstrap: str
    source: str
    target: str
    folder: str
    """The folder of the queries' checkpoints. Its name is part of each value."""

    queries: int
    cores: int
    start: str
    chances: dict[str, float]
    conf: dict[str, str]
    publish: bool = False
    """Whether executors publish the batches, by `write_batch`."""

    former: str = ""
    """A folder of killed queries, which this driver runs to the end of the input before it starts
    its own."""

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def json(self) -> str:
        return json.dumps(asdict(self))

    def of(self, folder: str) -> Work:
        """The same work for the queries of another folder, without faults of its own."""
        blind = {"blind": self.chances.get("blind", 0.0)}
        return Work(**(asdict(self) | {"folder": folder, "former": "", "chances": blind}))

    @property
    def notes(self) -> str:
        return f"{self.folder}/notes"

    @property
    def stop(self) -> Path:
        return Path(self.folder) / "stop"

    def checkpoint(self, query: int) -> Path:
        return Path(self.folder) / f"query-{query}"

    def topic(self, query: int) -> str:
        """The topic that a query writes to. Each query has its own topic: an open transaction of
        one must not hide what another wrote."""
        return f"{self.target}-{query}"

    def label(self, query: int) -> str:
        """The prefix of a query's values."""
        return label(Path(self.folder), query)


def label(folder: Path, query: int) -> str:
    """The prefix of a query's values."""
    return f"{folder.name}-{query}"
