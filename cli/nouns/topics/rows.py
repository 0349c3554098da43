"""The rows of `pk topics`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class TopicRow(TypedDict):
    """A topic in `pk topics list`."""

    topic: str
    partitions: int
    replication_factor: Annotated[int, Shown("REPLICAS")]
    internal: Annotated[bool, Shown(wide=True)]
    topic_id: Annotated[str | None, Shown(wide=True)]
