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
    "Only brokers of pk make faults, and only with pk.faults.enable=true, as those of `pk "
    "test` have it."
)


FAULTS.command(
    "list",
    "ls",
    help="List the faults that requests meet, and how often they have.",
    worker="faults:list_faults",
    takes=(Listing, Watch, Connection),
    examples=("pk test faults list", "pk test faults list --where 'met = 0'"),
    notes=_ONLY_PK,
    shows=FaultRow,
)


FAULTS.command(
    "add",
    help="Add a fault to every broker, or have one happen at once.",
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
        "connection before a request is handled, drop-answer after; disconnect closes connections "
        "once; move-leader has another replica lead, or the only one resign for a moment; "
        "rebalance has a consumer group join again; set-clock sets the brokers' time of day. Each "
        f"broker counts --times for itself. {_ONLY_PK} pk asks nothing: such brokers are there "
        "for tests."
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
    help="End faults.",
    worker="faults:clear",
    arguments=ClearFaults,
    takes=(Change, Listing, Connection),
    examples=("pk test faults clear", "pk test faults clear 3"),
    notes=f"The clock stays as it was set. {_ONLY_PK}",
    shows=ChangedFaultRow,
)
