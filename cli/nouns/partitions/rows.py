"""The rows of `pk partitions`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class PartitionStateRow(TypedDict):
    """A partition in `pk partitions list`."""

    topic: str
    partition: Annotated[int, Shown("PART")]
    leader: int | None
    preferred_leader: Annotated[int | None, Shown("PREFERRED")]
    replicas: list[int]
    isr: Annotated[list[int], Shown("ISR")]
    min_isr: Annotated[int | None, Shown("MIN")]
    state: Annotated[str, Shown(word=True)]
    out_of_sync: Annotated[list[int], Shown("OUT", wide=True)]
    leader_epoch: Annotated[int, Shown("EPOCH", wide=True)]
    elr: Annotated[list[int] | None, Shown("ELR", wide=True)]
    last_known_elr: Annotated[list[int] | None, Shown("LAST KNOWN ELR", wide=True)]
    offline_replicas: Annotated[list[int], Shown("OFFLINE", wide=True)]


ElectionRow = TypedDict(
    "ElectionRow",
    {
        "topic": str,
        "partition": Annotated[int, Shown("PART")],
        "from": int | None,
        "to": int | None,
        "isr": Annotated[list[int], Shown("ISR")],
        "result": str,
        "error": Annotated[str | None, Shown(wide=True)],
    },
)
"""A partition in `pk partitions elect-leaders`: who leads, and who would."""


class ReplicaLogRow(TypedDict):
    """A replica's log, as it is shown before an operator says which one counts."""

    topic: str
    partition: Annotated[int, Shown("PART")]
    broker: int
    log_start: int | None
    log_end: int | None
    last_epoch: Annotated[int | None, Shown("EPOCH")]
    lost: Annotated[int | None, Shown("LOST")]
    log: str


class UncleanElectionRow(TypedDict):
    """A partition without a leader, as shown before an unclean election: its live replicas, and the
    ends of their logs."""

    topic: str
    partition: Annotated[int, Shown("PART")]
    replicas: list[int]
    isr: Annotated[list[int], Shown("ISR")]
    elr: Annotated[list[int] | None, Shown("ELR")]
    alive: list[int]
    log_ends: Annotated[dict[str, int | None], Shown("LOG ENDS")]
