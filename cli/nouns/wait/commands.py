"""The commands of `pk wait`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.wait.options import TIMEOUT, Timeout, WaitForLag, WaitForTopics
from pk.cli.options.option_sets import GROUPS_BY_OPTION, Connection, TopicsOrAll
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count

WAIT = Noun("wait")

NOTES = (
    "Exits with 0 once the condition holds, with 124 on timeout. Progress goes to standard error."
)


WAIT.command(
    "topic",
    "topics",
    help="Wait until topics exist and every partition has a leader, or until they are deleted.",
    worker="wait:topic",
    options=WaitForTopics,
    takes=(Connection,),
    examples=("pk wait topic orders", "pk wait topic orders payments -p 3 --timeout 1m"),
    notes=NOTES,
    screen="streams",
    from_use=True,
)


@dataclass(frozen=True, kw_only=True)
class WaitForIsr:
    """Arguments of `pk wait isr`."""

    topic: TopicsOrAll = ()
    every: Annotated[bool, Option("-a", "--all", help="Every topic (the default).")] = False
    within: Timeout = TIMEOUT


WAIT.command(
    "isr",
    help="Wait until every replica is in sync, as after a restart.",
    worker="wait:isr",
    arguments=WaitForIsr,
    takes=(Connection,),
    examples=("pk wait isr --all", "pk wait isr orders --timeout 10m"),
    notes=NOTES,
    screen="streams",
    from_use=True,
)


WAIT.command(
    "lag",
    help="Wait until a group has caught up.",
    worker="wait:lag",
    options=WaitForLag,
    takes=(Connection,),
    examples=("pk wait lag billing '<=100000' --timeout 10s", "pk wait lag billing --max 100000"),
    notes=NOTES,
    screen="streams",
    from_use=True,
    instead_of_use=("topics",),
)


@dataclass(frozen=True, kw_only=True)
class WaitForEmptyGroup:
    """Arguments of `pk wait group-empty`."""

    group: Annotated[
        tuple[str, ...],
        Argument("GROUP", help="The groups.", complete="group", named=GROUPS_BY_OPTION),
    ]
    within: Timeout = TIMEOUT


WAIT.command(
    "group-empty",
    help="Wait until groups have no members, as before resetting their offsets.",
    worker="wait:group_empty",
    arguments=WaitForEmptyGroup,
    takes=(Connection,),
    examples=("pk wait group-empty billing --timeout 2m",),
    notes=NOTES,
    screen="streams",
    from_use=True,
)


@dataclass(frozen=True, kw_only=True)
class WaitForMoves:
    """Arguments of `pk wait reassign`."""

    topic: TopicsOrAll = ()
    within: Timeout = TIMEOUT


WAIT.command(
    "reassign",
    help="Wait until no partition is being reassigned.",
    worker="wait:reassign",
    arguments=WaitForMoves,
    takes=(Connection,),
    examples=("pk wait reassign", "pk wait reassign orders --timeout 2h"),
    notes=NOTES,
    screen="streams",
    from_use=True,
)


@dataclass(frozen=True, kw_only=True)
class WaitForBrokers:
    """Arguments of `pk wait broker`."""

    ids: Annotated[
        tuple[str, ...], Argument("ID", help="These brokers (default: any).", complete="broker")
    ] = ()
    num: Annotated[
        int | None,
        Option("-n", "--num", value="N", parser=count, help="Wait for at least N brokers."),
    ] = None
    within: Timeout = TIMEOUT


WAIT.command(
    "broker",
    "brokers",
    help="Wait until the cluster and its brokers respond.",
    worker="wait:broker",
    arguments=WaitForBrokers,
    takes=(Connection,),
    examples=("pk wait broker", "pk wait broker 1 --timeout 30s"),
    notes=NOTES,
    screen="streams",
)
