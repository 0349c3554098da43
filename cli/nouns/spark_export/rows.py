"""The rows of `pk spark-export`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class ExportPlanRow(TypedDict):
    """A partition in `pk spark-export --dry-run`."""

    topic: str
    partition: int
    begin: int
    end: int | None
    offsets: int


class ExportRow(TypedDict):
    """A finished export."""

    topic: str
    directory: str
    records: int
    files: int
    bytes: int
    records_before: Annotated[int, Shown("RECORDS BEFORE")]
    elapsed_ms: Annotated[int, Shown("MS")]
    topic_id: Annotated[str, Shown(wide=True)]
