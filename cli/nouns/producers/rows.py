"""The rows of `pk producers`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_clock, show_span


class ProducerRow(TypedDict):
    """A producer as a partition's leader knows it. Times are in ms."""

    topic: str
    partition: Annotated[int, Shown("PART")]
    producer_id: int
    producer_epoch: Annotated[int, Shown("EPOCH")]
    last_sequence: Annotated[int | None, Shown("LAST SEQ")]
    idle_ms: Annotated[int | None, Shown("IDLE", show=show_span)]
    open_since_offset: Annotated[int | None, Shown("OPEN FROM")]
    open_ms: Annotated[int | None, Shown("OPEN FOR", show=show_span)]
    last_time: Annotated[str | None, Shown("LAST WRITE", wide=True, show=show_clock)]
    coordinator_epoch: Annotated[int | None, Shown(wide=True)]
    open_since: Annotated[str | None, Shown(wide=True, show=show_clock)]
