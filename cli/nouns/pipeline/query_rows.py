"""The rows of a pipeline's queries."""

from typing import TYPE_CHECKING

from pk.cli.nouns.pipeline.rows import PartitionRow, QueryRow
from pk.cli.positions.times import show_time

if TYPE_CHECKING:
    from pk.spark.pipeline.status import QueryStatus, Status


def query_rows(status: "Status") -> list[QueryRow]:
    """A row for each query, or one with the sink `-` for a pipeline without a batch."""
    nothing: QueryStatus = {
        "name": "-",
        "batch": None,
        "rows": 0,
        "rows_a_second": 0.0,
        "batch_ms": None,
        "ended_ms": None,
        "lag": None,
        "partitions": [],
        "small_files": None,
    }
    last = status["last_error"]
    return [
        {
            "pipeline": status["pipeline"],
            "sink": query["name"],
            "state": status["state"],
            "batch": query["batch"],
            "rows": query["rows"],
            "rows_per_second": query["rows_a_second"],
            "lag": query["lag"],
            "batch_ms": query["batch_ms"],
            "dead_letters": status["dead_letters"],
            "small_files": query["small_files"],
            "restarts": status["restarts"],
            "updated": show_time(status["updated_ms"]),
            "pid": status["pid"],
            "error": status["error"],
            "last_error": None if last is None else last["message"],
            "last_error_at": None if last is None else show_time(last["at_ms"]),
        }
        for query in status["queries"] or [nothing]
    ]


def partition_rows(status: "Status") -> list[PartitionRow]:
    """A row for each partition that a query reads."""
    return [
        {"pipeline": status["pipeline"], "sink": query["name"], **each}
        for query in status["queries"]
        for each in query["partitions"]
    ]


def style(row: QueryRow) -> str | None:
    """Red for a query that failed, yellow for one that is behind."""
    if row["state"] in ("failed", "died", "restarting"):
        return "red"
    return "yellow" if row["state"] == "running" and row["lag"] else None
