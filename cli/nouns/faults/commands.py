"""The commands of `pk test faults`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.faults.options import AddFault
from pk.cli.nouns.faults.rows import ChangedFaultRow, FaultRow
from pk.cli.options.option_sets import Change, Connection, Listing, Watch
from pk.cli.options.parameters import Argument

FAULTS = Noun("test faults")

_ONLY_PK = (
    "Only pk's own brokers inject faults, and only with pk.faults.enable=true, which `pk test` "
    "sets."
)


FAULTS.command(
    "list",
    "ls",
    help="List active faults, and how often each was hit.",
    worker="faults:list_faults",
    takes=(Listing, Watch, Connection),
    examples=("pk test faults list", "pk test faults list --where 'met = 0'"),
    notes=_ONLY_PK,
    shows=FaultRow,
)


FAULTS.command(
    "add",
    help="Inject a fault into every broker.",
    worker="faults:add",
    options=AddFault,
    takes=(Change, Listing, Connection),
    examples=(
        "pk test faults add fail Produce --error NOT_LEADER_OR_FOLLOWER --times 2",
        "pk test faults add delay Fetch --duration 500ms",
        "pk test faults add move-leader orders:0",
        "pk test faults add set-clock --duration 1h",
    ),
    notes=(
        "fail answers requests with an error; delay answers them later; drop closes the "
        "connection before a request is handled, drop-answer after; disconnect closes "
        "connections once; move-leader moves leadership to another replica, or makes the only "
        "one resign briefly; rebalance makes a consumer group rejoin; set-clock moves the "
        f"brokers' clocks. Each broker counts --times for itself. {_ONLY_PK} pk does not ask for "
        "confirmation."
    ),
    shows=ChangedFaultRow,
)


@dataclass(frozen=True, kw_only=True)
class ClearFaults:
    """Arguments of `pk test faults clear`."""

    fault: Annotated[
        int | None, Argument("FAULT", help="The fault's number in the list (default: all).")
    ] = None


FAULTS.command(
    "clear",
    help="Clear faults.",
    worker="faults:clear",
    arguments=ClearFaults,
    takes=(Change, Listing, Connection),
    examples=("pk test faults clear", "pk test faults clear 3"),
    notes=f"This does not reset the clock. {_ONLY_PK}",
    shows=ChangedFaultRow,
)
