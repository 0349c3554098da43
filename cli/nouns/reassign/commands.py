"""The commands of `pk reassign`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.cluster.reassignment_row import ReassignmentRow
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.reassign.options import ApplyMoves, PlanMoves, RollBack
from pk.cli.nouns.reassign.rows import (
    CancelledRow,
    MovedRow,
    PlanDocument,
    PlannedMoveRow,
    StatusDocument,
    ThrottleRow,
)
from pk.cli.options.option_sets import Change, Connection, Listing, watch_interval
from pk.cli.options.parameters import Argument, Option
from pk.core.durations import Duration

REASSIGN = Noun("reassign")


REASSIGN.command(
    "plan",
    "generate",
    help="Plan moves with the least data movement. Changes nothing.",
    worker="reassign:plan_command",
    options=PlanMoves,
    takes=(Listing, Connection),
    examples=(
        "pk reassign plan -t orders --to 4,5,6 --throttle 50MB/s",
        "pk reassign plan --drain 3 --save plan.json",
        "pk reassign plan --balance -f json",
        "pk reassign plan --all --rf 3",
    ),
    notes=(
        "Replicas stay where they are if the plan allows. New replicas go to racks where their "
        "partition has none, then to the broker with the fewest replicas of the topic, then with "
        "the fewest overall. Partitions that do not change keep their replica order."
    ),
    shows=PlanDocument,
    rows=PlannedMoveRow,
    repeatable=True,
)


REASSIGN.command(
    "apply",
    "execute",
    help="Move replicas: show the plan, throttle, watch to the end, clean up.",
    worker="reassign:apply",
    options=ApplyMoves,
    takes=(Change, Listing, Connection),
    examples=(
        "pk reassign apply -t orders --to 4,5,6 --throttle 50MB/s",
        "pk reassign apply --balance --max-moves 20 --throttle auto",
        "pk reassign apply plan.json -y --detach",
        "pk reassign apply --resume",
    ),
    notes=(
        "Ctrl-C asks what to do next: leave the moves running, hand them to the background, or "
        "cancel the rest. If the terminal closes, a background process takes over. Before it "
        "starts, pk writes a file that `pk reassign rollback` can restore from. At the end, the "
        "preferred replicas are elected."
    ),
    shows={"": MovedRow, "dry_run": PlanDocument},
    rows={"": MovedRow, "dry_run": PlannedMoveRow},
)


@dataclass(frozen=True, kw_only=True)
class ReassignStatus:
    """Arguments of `pk reassign status`."""

    watch: Annotated[bool, Option("-w", "--watch", help="Stay until nothing moves.")] = False
    interval: Annotated[Duration, watch_interval("1s")] = Duration(1000)


REASSIGN.command(
    "status",
    "ls",
    "list",
    help="Show moves in progress, and leftover throttles.",
    worker="status:status",
    arguments=ReassignStatus,
    takes=(Listing, Connection),
    examples=("pk reassign status", "pk reassign status -w"),
    shows=StatusDocument,
    rows=ReassignmentRow,
    repeatable=True,
)


@dataclass(frozen=True, kw_only=True)
class Throttle:
    """Arguments of `pk reassign throttle`."""

    rate: Annotated[str | None, Argument("RATE", help="Bytes a second, such as 80MB/s.")] = None
    remove: Annotated[
        bool, Option("--remove", "--off", help="Remove all replication throttles.")
    ] = False


REASSIGN.command(
    "throttle",
    help="Show, change or remove the replication throttle.",
    worker="status:throttle",
    arguments=Throttle,
    takes=(Change, Listing, Connection),
    examples=("pk reassign throttle 80MB/s", "pk reassign throttle --remove"),
    shows=ThrottleRow,
)


@dataclass(frozen=True, kw_only=True)
class CancelMoves:
    """Arguments of `pk reassign cancel`."""

    partitions: Annotated[
        tuple[str, ...],
        Argument("PARTITION", help="Topics, or partitions such as orders/0.", complete="partition"),
    ] = ()
    every: Annotated[bool, Option("-a", "--all", help="Cancel all moves.")] = False


REASSIGN.command(
    "cancel",
    help="Cancel moves in progress; partitions keep their old replicas.",
    worker="status:cancel",
    arguments=CancelMoves,
    takes=(Change, Listing, Connection),
    examples=("pk reassign cancel orders/3", "pk reassign cancel --all"),
    shows=CancelledRow,
)


REASSIGN.command(
    "rollback",
    help="Restore the replicas from before an apply.",
    worker="reassign:rollback",
    options=RollBack,
    takes=(Change, Listing, Connection),
    examples=("pk reassign rollback --dry-run", "pk reassign rollback --throttle 50MB/s"),
    shows={"": MovedRow, "dry_run": PlanDocument},
    rows={"": MovedRow, "dry_run": PlannedMoveRow},
)
