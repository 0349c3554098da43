"""The rows of `pk test faults`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class FaultRow(TypedDict):
    """A fault that is active."""

    broker: int
    fault: int
    kind: Annotated[str, Shown(word=True)]
    api: str
    error: str | None
    delay_ms: int
    times: Annotated[int | None, Shown("LEFT", null="all")]
    """The number of requests that it will still affect; null for all."""
    met: int
    """The number of requests that it has affected."""
    client_id: Annotated[str | None, Shown(null="any")]


class ChangedFaultRow(TypedDict):
    """The result of a change at one broker."""

    broker: int
    kind: Annotated[str, Shown(word=True)]
    target: str | None
    result: Annotated[str, Shown(word=True)]
