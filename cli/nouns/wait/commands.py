"""The commands of `pk wait`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
    GROUPS_BY_OPTION,
    Connection,
    TopicsOrAll,
)
from pk.cli.command_line.parameters import Argument, Option
from pk.cli.command_line.values import count
from pk.cli.nouns.wait.options import TIMEOUT, Timeout, WaitForLag, WaitForTopics

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

WAIT = Noun("wait")

NOTES = (
    "Exits with 0 once the condition holds, with 124 on timeout. What is still missing goes "
    "to standard error."
)


@WAIT.command(
    "topic",
    "topics",
    takes=(Connection,),
    examples=("pk wait topic orders", "pk wait topic orders payments -p 3 --timeout 1m"),
    notes=NOTES,
    screen="streams",
    from_use=True,
)
def topic(context: "Context", options: WaitForTopics) -> Running:
    """Wait until topics exist and every partition has a leader, or until they are deleted."""
    from pk.cli.nouns.wait.wait import topic

    return topic(context, options)


@WAIT.command(
    "isr",
    takes=(Connection,),
    examples=("pk wait isr --all", "pk wait isr orders --timeout 10m"),
    notes=NOTES,
    screen="streams",
    from_use=True,
)
def isr(
    context: "Context",
    topic: TopicsOrAll = (),
    all: Annotated[bool, Option("-a", "--all", help="Every topic (the default).")] = False,
    timeout: Timeout = TIMEOUT,
) -> Running:
    """Wait until every replica is in sync, as after a restart."""
    from pk.cli.nouns.wait.wait import isr

    return isr(context, topic, timeout, every=all)


@WAIT.command(
    "lag",
    takes=(Connection,),
    examples=("pk wait lag billing '<=100000' --timeout 10s", "pk wait lag billing --max 100000"),
    notes=NOTES,
    screen="streams",
    from_use=True,
)
def lag(context: "Context", options: WaitForLag) -> Running:
    """Wait until a group has caught up."""
    from pk.cli.nouns.wait.wait import lag

    return lag(context, options)


@WAIT.command(
    "group-empty",
    takes=(Connection,),
    examples=("pk wait group-empty billing --timeout 2m",),
    notes=NOTES,
    screen="streams",
    from_use=True,
)
def group_empty(
    context: "Context",
    group: Annotated[
        tuple[str, ...],
        Argument("GROUP", help="The groups.", complete="group", named=GROUPS_BY_OPTION),
    ],
    timeout: Timeout = TIMEOUT,
) -> Running:
    """Wait until groups have no members, as before resetting their offsets."""
    from pk.cli.nouns.wait.wait import group_empty

    return group_empty(context, group, timeout)


@WAIT.command(
    "reassign",
    takes=(Connection,),
    examples=("pk wait reassign", "pk wait reassign orders --timeout 2h"),
    notes=NOTES,
    screen="streams",
    from_use=True,
)
def reassign(
    context: "Context",
    topic: TopicsOrAll = (),
    timeout: Timeout = TIMEOUT,
) -> Running:
    """Wait until no partition is being reassigned."""
    from pk.cli.nouns.wait.wait import reassign

    return reassign(context, topic, timeout)


@WAIT.command(
    "broker",
    "brokers",
    takes=(Connection,),
    examples=("pk wait broker", "pk wait broker 1 --timeout 30s"),
    notes=NOTES,
    screen="streams",
)
def broker(
    context: "Context",
    id: Annotated[
        tuple[str, ...], Argument("ID", help="These brokers (default: any).", complete="broker")
    ] = (),
    num: Annotated[
        int | None,
        Option("-n", "--num", value="N", parser=count, help="Wait for at least N brokers."),
    ] = None,
    timeout: Timeout = TIMEOUT,
) -> Running:
    """Wait until the cluster and its brokers respond."""
    from pk.cli.nouns.wait.wait import broker

    return broker(context, id, num, timeout)
