"""The rows of `pk spark-import`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class ImportPlanRow(TypedDict):
    """A file in `pk spark-import --dry-run`."""

    file: str
    bytes: int
    state: str
    """new, partly or done."""

    records_before: Annotated[int, Shown("RECORDS BEFORE")]


class ImportRow(TypedDict):
    """A finished import."""

    topic: str
    id: str
    records: int
    files: int
    records_before: Annotated[int, Shown("RECORDS BEFORE")]
    elapsed_ms: Annotated[int, Shown("MS")]
    topic_id: Annotated[str, Shown(wide=True)]
