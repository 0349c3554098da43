"""The rows of `pk spark-import`."""

from typing import Annotated, TypedDict

from pk.cli.output.amounts import show_bytes, show_count
from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span


class ImportPlanRow(TypedDict):
    """A file in `pk spark-import --dry-run`."""

    file: str
    bytes: Annotated[int, Shown(show=show_bytes)]
    state: Annotated[str, Shown(word=True)]
    """new, partly or done."""

    records_before: Annotated[int, Shown("BEFORE", show=show_count)]


class ImportRow(TypedDict):
    """A finished import."""

    topic: str
    id: str
    records: Annotated[int, Shown(show=show_count)]
    files: Annotated[int, Shown(show=show_count)]
    records_before: Annotated[int, Shown("BEFORE", show=show_count)]
    elapsed_ms: Annotated[int, Shown("TIME", show=show_span)]
    topic_id: Annotated[str, Shown(wide=True)]
