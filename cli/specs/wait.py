"""`pk wait`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CONNECTION, GROUP_NAMED, GROUPS_NAMED, NAMED, PARTITIONS_OF_TOPICS

_TIMEOUT = Option(
    "--timeout",
    value="TIME",
    default="5m",
    help="How long to wait: 30s, 10m, or seconds; 0 looks once (default: 5m).",
)
_TAIL = (_TIMEOUT, *CONNECTION)
_TOPICS = Argument(
    "TOPIC", many=True, optional=True, help="The topics (default: all).", complete="topic"
)
_NOTES = "Ends with 0 as soon as it holds, with 124 when the time is up. What is still missing is told on standard error."

WAIT = Group(
    "wait",
    help="Wait until something holds: a topic, in-sync replicas, lag, an empty group, brokers.",
    children=(
        Command(
            "topic",
            "topics",
            help="Until topics exist and every partition has a leader; or are gone.",
            handler="pk.cli.nouns.wait.wait:topic",
            arguments=(Argument("TOPIC", many=True, help="The topics.", complete="topic"),),
            options=(
                NAMED,
                Option("--gone", help="Until they are deleted."),
                Option(
                    "-p",
                    "--partitions",
                    value="N",
                    kind="count",
                    help="Until there are at least so many partitions.",
                ),
                *_TAIL,
            ),
            examples=("pk wait topic orders", "pk wait topic orders payments -p 3 --timeout 1m"),
            notes=_NOTES,
        ),
        Command(
            "isr",
            help="Until every replica is in sync, as after a restart.",
            handler="pk.cli.nouns.wait.wait:isr",
            arguments=(_TOPICS,),
            options=(
                NAMED,
                Option("-a", "--all", help="Of every topic: what is meant where none is named."),
                *_TAIL,
            ),
            examples=("pk wait isr --all", "pk wait isr orders --timeout 10m"),
            notes=_NOTES,
        ),
        Command(
            "lag",
            help="Until a group has caught up.",
            handler="pk.cli.nouns.wait.wait:lag",
            arguments=(
                Argument("GROUP", help="The group.", complete="group"),
                Argument(
                    "CONDITION",
                    optional=True,
                    help="The lag over all its partitions, as '<=100' (default: 0).",
                ),
            ),
            options=(
                GROUP_NAMED,
                Option("--max", value="N", kind="int", help="The same, with nothing to quote."),
                Option(
                    "--max-time",
                    value="TIME",
                    help="Until the oldest record not read yet is no older than that, such as 30s.",
                ),
                PARTITIONS_OF_TOPICS,
                *_TAIL,
            ),
            examples=(
                "pk wait lag billing '<=100000' --timeout 10s",
                "pk wait lag billing --max 100000",
            ),
            notes=_NOTES,
        ),
        Command(
            "group-empty",
            help="Until groups have no members, as before their offsets are reset.",
            handler="pk.cli.nouns.wait.wait:group_empty",
            arguments=(Argument("GROUP", many=True, help="The groups.", complete="group"),),
            options=(GROUPS_NAMED, *_TAIL),
            examples=("pk wait group-empty billing --timeout 2m",),
            notes=_NOTES,
        ),
        Command(
            "reassign",
            help="Until no partition is being moved to other brokers.",
            handler="pk.cli.nouns.wait.wait:reassign",
            arguments=(_TOPICS,),
            options=(NAMED, *_TAIL),
            examples=("pk wait reassign", "pk wait reassign orders --timeout 2h"),
            notes=_NOTES,
        ),
        Command(
            "broker",
            "brokers",
            help="Until the cluster can be reached, and brokers answer.",
            handler="pk.cli.nouns.wait.wait:broker",
            arguments=(
                Argument(
                    "ID",
                    many=True,
                    optional=True,
                    help="These brokers (default: any).",
                    complete="broker",
                ),
            ),
            options=(
                Option("-n", "--num", value="N", kind="count", help="At least so many brokers."),
                *_TAIL,
            ),
            examples=("pk wait broker", "pk wait broker 1 --timeout 30s"),
            notes=_NOTES,
        ),
    ),
)
