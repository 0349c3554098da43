"""`pk reassign`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing
from pk.cli.command_line.values import pause
from pk.cli.nouns.reassign.options import ApplyMoves, PlanMoves, RollBack

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

REASSIGN = Noun("reassign")


@REASSIGN.command(
    "plan",
    "generate",
    takes=(Listing, Connection),
    examples=(
        "pk reassign plan -t orders --to 4,5,6 --throttle 50MB/s",
        "pk reassign plan --drain 3 --save plan.json",
        "pk reassign plan --balance -f json",
        "pk reassign plan --all --rf 3",
    ),
    notes=(
        "A replica that may stay stays. New ones go where their partition has none in that "
        "rack, then to the broker with the fewest of that topic, then with the fewest at all. "
        "The partitions that do not change keep their order."
    ),
    shows=(
        "partitions:[{topic partition:int before:[int] after:[int] change leader? "
        "bytes:int?}] brokers:[{broker:int rack? replicas_before:int replicas_after:int "
        "leaders_before:int leaders_after:int bytes_before:int bytes_after:int bytes_in:int "
        "bytes_out:int}] bytes:int throttle:int? seconds:num? cautions:[str]"
    ),
    rows="topic partition:int before:[int] after:[int] change leader? bytes:int?",
)
def plan(context: "Context", options: PlanMoves) -> Running:
    """What would have to move, with the least movement. Changes nothing."""
    from pk.cli.nouns.reassign.reassign import plan_command

    return plan_command(context, options)


@REASSIGN.command(
    "apply",
    "execute",
    takes=(Change, Listing, Connection),
    examples=(
        "pk reassign apply -t orders --to 4,5,6 --throttle 50MB/s",
        "pk reassign apply --balance --max-moves 20 --throttle auto",
        "pk reassign apply plan.json -y --detach",
        "pk reassign apply --resume",
    ),
    notes=(
        "Ctrl-C asks what is to become of it: leave it running, hand it to the background, or "
        "take back what still moves; when its terminal goes, the background has it. A file "
        "that undoes it is written first; `pk reassign rollback` reads it. The preferred "
        "replicas lead at the end."
    ),
    shows={
        "": "topic partition:int before:[int] after:[int] result error?",
        "dry_run": (
            "partitions:[{topic partition:int before:[int] after:[int] change leader? "
            "bytes:int?}] brokers:[{broker:int rack? replicas_before:int replicas_after:int "
            "leaders_before:int leaders_after:int bytes_before:int bytes_after:int bytes_in:int "
            "bytes_out:int}] bytes:int throttle:int? seconds:num? cautions:[str]"
        ),
    },
    rows={
        "": "topic partition:int before:[int] after:[int] result error?",
        "dry_run": "topic partition:int before:[int] after:[int] change leader? bytes:int?",
    },
)
def apply(context: "Context", options: ApplyMoves) -> Running:
    """Do it: shown before it is done, throttled, watched to the end, tidied up."""
    from pk.cli.nouns.reassign.reassign import apply

    return apply(context, options)


@REASSIGN.command(
    "status",
    "ls",
    "list",
    takes=(Listing, Connection),
    examples=("pk reassign status", "pk reassign status -w"),
    shows=(
        "reassignments:[{topic partition:int replicas:[int] adding:[int] removing:[int] "
        "copied:int? total:int? percent:num? note?}] throttles:[{resource name value}] "
        "throttles_orphaned:bool"
    ),
    rows=(
        "topic partition:int replicas:[int] adding:[int] removing:[int] copied:int? "
        "total:int? percent:num? note?"
    ),
)
def status(
    context: "Context",
    watch: Annotated[
        float | None,
        Option(
            "-w",
            "--watch",
            value="SECONDS",
            parser=pause,
            assumed="1",
            help="Stay until nothing moves any more; look every so many seconds (1).",
        ),
    ] = None,
) -> Running:
    """What is being moved and how far it is; throttles that were left behind."""
    from pk.cli.nouns.reassign.status import status

    return status(context, watch)


@REASSIGN.command(
    "throttle",
    takes=(Change, Listing, Connection),
    examples=("pk reassign throttle 80MB/s", "pk reassign throttle --remove"),
    shows="resource name value?",
)
def throttle(
    context: "Context",
    rate: Annotated[str | None, Argument("RATE", help="Bytes a second, such as 80MB/s.")] = None,
    remove: Annotated[
        bool, Option("--remove", "--off", help="Take every replication throttle away.")
    ] = False,
) -> Running:
    """Show, change or remove the throttle of what moves."""
    from pk.cli.nouns.reassign.status import throttle

    return throttle(context, rate, remove=remove)


@REASSIGN.command(
    "cancel",
    takes=(Change, Listing, Connection),
    examples=("pk reassign cancel orders/3", "pk reassign cancel --all"),
    shows="topic partition:int replicas:[int] adding:[int] result error?",
)
def cancel(
    context: "Context",
    partition: Annotated[
        tuple[str, ...],
        Argument("PARTITION", help="Topics, or partitions such as orders/0.", complete="partition"),
    ] = (),
    all: Annotated[bool, Option("-a", "--all", help="Everything that moves.")] = False,
) -> Running:
    """Take back what still moves; each partition stays where it was."""
    from pk.cli.nouns.reassign.status import cancel

    return cancel(context, partition, every=all)


@REASSIGN.command(
    "rollback",
    takes=(Change, Listing, Connection),
    examples=("pk reassign rollback --dry-run", "pk reassign rollback --throttle 50MB/s"),
    shows={
        "": "topic partition:int before:[int] after:[int] result error?",
        "dry_run": (
            "partitions:[{topic partition:int before:[int] after:[int] change leader? "
            "bytes:int?}] brokers:[{broker:int rack? replicas_before:int replicas_after:int "
            "leaders_before:int leaders_after:int bytes_before:int bytes_after:int bytes_in:int "
            "bytes_out:int}] bytes:int throttle:int? seconds:num? cautions:[str]"
        ),
    },
    rows={
        "": "topic partition:int before:[int] after:[int] result error?",
        "dry_run": "topic partition:int before:[int] after:[int] change leader? bytes:int?",
    },
)
def rollback(context: "Context", options: RollBack) -> Running:
    """Put everything back to where it was before an apply."""
    from pk.cli.nouns.reassign.reassign import rollback

    return rollback(context, options)
