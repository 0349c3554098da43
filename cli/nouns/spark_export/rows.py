"""The rows of `pk spark-export`."""

from typing import Annotated, TypedDict

from pk.cli.output.amounts import show_bytes, show_count
from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span


class ExportPlanRow(TypedDict):
    """A partition in `pk spark-export --dry-run`."""

    topic: str
    partition: int
    begin: int
    end: int | None
    offsets: Annotated[int, Shown(show=show_count)]


class ExportRow(TypedDict):
    """A finished export."""

    topic: str
    directory: str
    records: Annotated[int, Shown(show=show_count)]
    files: Annotated[int, Shown(show=show_count)]
    bytes: Annotated[int, Shown(show=show_bytes)]
    records_before: Annotated[int, Shown("BEFORE", show=show_count)]
    unparsed: Annotated[int, Shown(show=show_count)]
    elapsed_ms: Annotated[int, Shown("TIME", show=show_span)]
    topic_id: Annotated[str, Shown(wide=True)]
