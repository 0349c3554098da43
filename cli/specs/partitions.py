"""`pk partitions` and `pk isr`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import AILING, CHANGE, CONNECTION, LISTING, NAMED, WATCHABLE

_TOPICS = Argument(
    "TOPIC",
    many=True,
    optional=True,
    help="The topics, by name or regular expression over whole names (default: all).",
    complete="topic",
)
_INTERNAL = Option("-i", "--internal", help="Internal topics too, where no topic is named.")

ISR = Command(
    "isr",
    help="Every partition's replicas, in-sync replicas, leader, and how far each replica is behind.",
    handler="pk.cli.nouns.isr.isr:isr",
    shows={
        "": (
            "topic partition:int leader:int? leader_epoch:int replicas:[int] isr:[int] "
            "in_sync:int out_of_sync:[int] elr:[int]? last_known_elr:[int]? "
            "log_end_offset:int? high_watermark:int? behind:<int?>? lag_max:int? estimated:[int] since? "
            "log_end_offsets:<int?>? offline_replicas:[int]"
        ),
        "watch": (
            "time? topic partition:int event brokers:[int] leader:int? isr:[int] out_for_ms:int? "
            "behind:<int?>?"
        ),
    },
    arguments=(_TOPICS,),
    options=(
        NAMED,
        _INTERNAL,
        *AILING,
        Option(
            "-w",
            "--watch",
            value="SECONDS",
            kind="pause",
            assumed="0.5",
            help="Stay, look every so many seconds (0.5), and tell who leaves and joins the in-sync replicas.",
        ),
        *LISTING,
        *CONNECTION,
    ),
    examples=(
        "pk isr",
        "pk isr -w",
        "pk isr --under-replicated",
        "pk isr 'orders.*' --where 'in_sync < 3' --sort -lag_max",
    ),
    notes="BEHIND names each replica that lacks records, as BROKER:RECORDS; BROKER:~RECORDS is reckoned, BROKER:? not known. "
    "SINCE: no API of Kafka tells when a replica fell out of sync. Of a broker that is away it is when the controller last "
    "heard from it; of one that answers, when the first record was produced that it lacks. -w sees for itself.",
)

PARTITIONS = Group(
    "partitions",
    "partition",
    help="Partitions: list by health and leader; elect leaders.",
    children=(
        Command(
            "list",
            "ls",
            help="Partitions with leader, replicas, in-sync replicas and what ails them.",
            handler="pk.cli.nouns.partitions.partitions:list_partitions",
            shows=(
                "topic partition:int leader:int? preferred_leader:int? replicas:[int] isr:[int] "
                "min_isr:int? state out_of_sync:[int] leader_epoch:int elr:[int]? "
                "last_known_elr:[int]? offline_replicas:[int]"
            ),
            arguments=(_TOPICS,),
            options=(
                NAMED,
                _INTERNAL,
                *AILING,
                Option(
                    "--not-preferred",
                    help="Only partitions that another than the preferred replica leads.",
                ),
                Option(
                    "--leader",
                    value="ID",
                    kind="list",
                    repeat=True,
                    help="Only partitions led by these brokers.",
                    complete="broker",
                ),
                Option(
                    "--broker",
                    value="ID",
                    kind="list",
                    repeat=True,
                    help="Only partitions with a replica on one of these brokers.",
                    complete="broker",
                ),
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=(
                "pk partitions list --under-replicated",
                "pk partitions list orders --not-preferred",
                "pk partitions list --broker 3 --where 'isr contains 3' -f json",
            ),
        ),
        Command(
            "elect-leaders",
            "elect",
            help="Make the preferred replicas lead, or any live one where all in sync are lost.",
            handler="pk.cli.nouns.partitions.elect_leaders:elect_leaders",
            shows="topic partition:int from:int? to:int? isr:[int] result error?",
            arguments=(
                Argument(
                    "PARTITION",
                    many=True,
                    optional=True,
                    help="Topics, or partitions such as orders/0 (default: all that need it).",
                    complete="partition",
                ),
            ),
            options=(
                Option("-t", "--topic", value="TOPIC", help="A topic.", complete="topic"),
                Option(
                    "-p",
                    "--partitions",
                    "--partition",
                    value="0,1",
                    kind="list",
                    repeat=True,
                    help="These partitions of the topic of -t.",
                ),
                Option(
                    "--unclean",
                    help="Elect a live replica that is not in sync where there is no leader; records are lost.",
                ),
                Option("-a", "--all", "--all-topic-partitions", help="All that need it."),
                Option(
                    "--election-type",
                    value="TYPE",
                    choices=("preferred", "unclean"),
                    help="Apache's way to say it.",
                    hidden=True,
                ),
                Option(
                    "--from-json",
                    "--path-to-json-file",
                    value="FILE",
                    help="The partitions in Apache's JSON.",
                    complete="file",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk partitions elect-leaders",
                "pk partitions elect-leaders orders --dry-run",
                "pk partitions elect-leaders orders/3 --unclean",
            ),
        ),
    ),
)
