"""The rows of `pk spark pipeline`."""

from typing import Annotated, Literal, TypedDict

from pk.cli.output.amounts import show_count
from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_clock, show_span


class CheckedRow(TypedDict):
    """A source, table, step or sink that `pk spark pipeline check` found valid."""

    kind: Literal["source", "table", "step", "sink"]
    name: str
    line: int
    columns: Annotated[str, Shown("COLUMNS OR TARGET")]


class QueryRow(TypedDict):
    """A sink of a pipeline after its last run. Rows and dead letters are those of that run."""

    pipeline: str
    sink: str
    state: Literal["starting", "running", "restarting", "finished", "stopped", "failed", "died"]
    batch: int | None
    rows: Annotated[int, Shown(show=show_count)]
    rows_per_second: Annotated[float, Shown("ROWS/S")]
    lag: Annotated[int | None, Shown(show=show_count)]
    batch_ms: Annotated[int | None, Shown("BATCH TIME", show=show_span)]
    dead_letters: Annotated[int, Shown("DEAD LETTERS", show=show_count)]
    small_files: Annotated[int | None, Shown("SMALL FILES", show=show_count, wide=True)]
    restarts: Annotated[int, Shown(wide=True, show=show_count)]
    updated: Annotated[str, Shown(show=show_clock)]
    pid: Annotated[int, Shown(wide=True)]
    error: Annotated[str | None, Shown(wide=True)]
    last_error: Annotated[str | None, Shown("LAST ERROR", wide=True)]
    last_error_at: Annotated[str | None, Shown("LAST ERROR AT", show=show_clock, wide=True)]


class PartitionRow(TypedDict):
    """The offset up to which a sink of a pipeline had read a partition when its last batch
    ended."""

    pipeline: str
    sink: str
    topic: str
    partition: int
    offset: int
    end: int
    lag: Annotated[int, Shown(show=show_count)]
