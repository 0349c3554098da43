"""The rows of `pk isr`."""

from datetime import date
from typing import Annotated, TypedDict

from pk.cli.cluster.partition_rows import LedPartition, ReplicatedPartition
from pk.cli.cluster.replica_lag import ReplicaLag, show_lag
from pk.cli.output.amounts import show_count
from pk.cli.output.rows import Shown


def show_since(since: str | None) -> str:
    """Show a time to people, without the date if it is today."""
    if not since:
        return "-"
    return since[11:19] if since[:10] == date.today().isoformat() else since[:16].replace("T", " ")


class _Place(TypedDict):
    topic: str
    partition: int


class InSyncRow(_Place, LedPartition, ReplicatedPartition):
    """A partition in `pk isr`. In JSON, the brokers that are keys are strings."""

    in_sync: Annotated[int, Shown(wide=True)]
    out_of_sync: Annotated[list[int], Shown("OUT")]
    since: Annotated[str | None, Shown(show=show_since)]
    behind: Annotated[ReplicaLag | None, Shown(show=show_lag)]
    log_end_offset: Annotated[int | None, Shown("LEO")]
    high_watermark: Annotated[int | None, Shown("HW", wide=True)]
    lag_max: Annotated[int | None, Shown(show=show_count, wide=True)]
    estimated: Annotated[list[int], Shown(wide=True)]
    """The brokers whose lag is an estimate."""

    log_end_offsets: Annotated[dict[str, int | None], Shown("LEO OF EACH", wide=True)]
