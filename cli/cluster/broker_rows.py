"""The rows that show a cluster's brokers, in `pk brokers` and `pk cluster describe`."""

from typing import Annotated, TypedDict

from pk.cli.output.amounts import show_bytes
from pk.cli.output.rows import Shown


class _Broker(TypedDict):
    """The columns that every list of brokers starts with."""

    broker: int
    host: str | None
    port: int | None
    rack: str | None
    controller: bool | None
    state: Annotated[str, Shown(word=True)]
    leaders: int
    replicas: int


class BrokerOfCluster(_Broker):
    """A broker, as `pk cluster describe` lists it."""

    fenced: Annotated[bool | None, Shown(wide=True)]


class BrokerRow(_Broker):
    """A broker and the replicas on it."""

    log_bytes: Annotated[int | None, Shown("LOG", show=show_bytes)]
    fenced: Annotated[bool | None, Shown(wide=True)]
    supports: Annotated[str | None, Shown(wide=True)]
    metadata_offset: Annotated[int | None, Shown(wide=True)]
    usable_bytes: Annotated[int | None, Shown("USABLE", show=show_bytes, wide=True)]
