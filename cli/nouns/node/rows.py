"""The rows of `pk node status`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class DetachedBrokerRow(TypedDict):
    """A broker that was started with --detach, or is not running."""

    directory: str
    running: bool
    pid: Annotated[int | None, Shown("PROCESS")]
    log: Annotated[str | None, Shown(wide=True)]


class NodeRow(TypedDict):
    """A node of a `pk up` cluster: a broker, or the controller (0). `starts` is the number of its
    starts."""

    node: int
    role: str
    state: Annotated[str, Shown(word=True)]
    address: str | None
    pid: Annotated[int | None, Shown("PROCESS")]
    starts: Annotated[int, Shown(wide=True)]
    directory: Annotated[str, Shown(wide=True)]
