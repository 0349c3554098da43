"""The rows of `pk partitions`."""

from typing import Annotated, TypedDict

from pk.cli.cluster.partition_rows import LedPartition, ReplicatedPartition
from pk.cli.output.rows import Shown


class _Place(TypedDict):
    topic: str
    partition: int


class _Preferred(TypedDict):
    preferred_leader: Annotated[int | None, Shown("PREF")]


class PartitionStateRow(_Place, LedPartition, _Preferred, ReplicatedPartition):
    """A partition in `pk partitions list`."""

    min_isr: Annotated[int | None, Shown("MIN")]
    state: Annotated[str, Shown(word=True)]
    out_of_sync: Annotated[list[int], Shown("OUT", wide=True)]


ElectionRow = TypedDict(
    "ElectionRow",
    {
        "topic": str,
        "partition": int,
        "from": int | None,
        "to": int | None,
        "isr": Annotated[list[int], Shown("ISR")],
        "result": str,
        "error": Annotated[str | None, Shown(wide=True)],
    },
)
"""A partition in `pk partitions elect-leaders`: its leader, and the leader after an election."""


class ReplicaLogRow(TypedDict):
    """The log of a replica, shown before an operator chooses the leader."""

    topic: str
    partition: int
    broker: int
    log_start: int | None
    log_end: int | None
    last_epoch: Annotated[int | None, Shown("EPOCH")]
    lost: Annotated[int | None, Shown("LOST")]
    log: str


class UncleanElectionRow(TypedDict):
    """A partition without a leader, shown before an unclean election: its live replicas, and the
    ends of their logs."""

    topic: str
    partition: int
    replicas: list[int]
    isr: Annotated[list[int], Shown("ISR")]
    elr: Annotated[list[int] | None, Shown("ELR")]
    alive: list[int]
    log_ends: Annotated[dict[str, int | None], Shown("LOG ENDS")]
