"""`pk wait`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import (
    GROUPS_BY_OPTION,
    TOPICS_BY_OPTION,
    Connection,
)
from pk.cli.command_line.values import count
from pk.cli.nouns.wait.options import Timeout, WaitForLag, WaitForTopics

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

WAIT = Noun("wait")

NOTES = (
    "Ends with 0 as soon as it holds, with 124 when the time is up. What is still missing "
    "is told on standard error."
)


@WAIT.command(
    "topic",
    "topics",
    takes=(Connection,),
    examples=("pk wait topic orders", "pk wait topic orders payments -p 3 --timeout 1m"),
    notes=NOTES,
)
def topic(context: "Context", options: WaitForTopics) -> Running:
    """Until topics exist and every partition has a leader; or are gone."""
    from pk.cli.nouns.wait.wait import topic

    return topic(context, options)


@WAIT.command(
    "isr",
    takes=(Connection,),
    examples=("pk wait isr --all", "pk wait isr orders --timeout 10m"),
    notes=NOTES,
)
def isr(
    context: "Context",
    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC", help="The topics (default: all).", complete="topic", named=TOPICS_BY_OPTION
        ),
    ] = (),
    all: Annotated[
        bool, Option("-a", "--all", help="Of every topic: what is meant where none is named.")
    ] = False,
    timeout: Timeout = "5m",
) -> Running:
    """Until every replica is in sync, as after a restart."""
    from pk.cli.nouns.wait.wait import isr

    return isr(context, topic, timeout, every=all)


@WAIT.command(
    "lag",
    takes=(Connection,),
    examples=("pk wait lag billing '<=100000' --timeout 10s", "pk wait lag billing --max 100000"),
    notes=NOTES,
)
def lag(context: "Context", options: WaitForLag) -> Running:
    """Until a group has caught up."""
    from pk.cli.nouns.wait.wait import lag

    return lag(context, options)


@WAIT.command(
    "group-empty",
    takes=(Connection,),
    examples=("pk wait group-empty billing --timeout 2m",),
    notes=NOTES,
)
def group_empty(
    context: "Context",
    group: Annotated[
        tuple[str, ...],
        Argument("GROUP", help="The groups.", complete="group", named=GROUPS_BY_OPTION),
    ],
    timeout: Timeout = "5m",
) -> Running:
    """Until groups have no members, as before their offsets are reset."""
    from pk.cli.nouns.wait.wait import group_empty

    return group_empty(context, group, timeout)


@WAIT.command(
    "reassign",
    takes=(Connection,),
    examples=("pk wait reassign", "pk wait reassign orders --timeout 2h"),
    notes=NOTES,
)
def reassign(
    context: "Context",
    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC", help="The topics (default: all).", complete="topic", named=TOPICS_BY_OPTION
        ),
    ] = (),
    timeout: Timeout = "5m",
) -> Running:
    """Until no partition is being moved to other brokers."""
    from pk.cli.nouns.wait.wait import reassign

    return reassign(context, topic, timeout)


@WAIT.command(
    "broker",
    "brokers",
    takes=(Connection,),
    examples=("pk wait broker", "pk wait broker 1 --timeout 30s"),
    notes=NOTES,
)
def broker(
    context: "Context",
    id: Annotated[
        tuple[str, ...], Argument("ID", help="These brokers (default: any).", complete="broker")
    ] = (),
    num: Annotated[
        int | None, Option("-n", "--num", value="N", parser=count, help="At least so many brokers.")
    ] = None,
    timeout: Timeout = "5m",
) -> Running:
    """Until the cluster can be reached, and brokers answer."""
    from pk.cli.nouns.wait.wait import broker

    return broker(context, id, num, timeout)
