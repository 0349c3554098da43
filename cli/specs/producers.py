"""`pk producers`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CONNECTION, WATCHABLE

PRODUCERS = Group(
    "producers",
    "producer",
    help="Idempotent and transactional producers, as partitions' leaders remember them.",
    children=(
        Command(
            "describe",
            "list",
            "ls",
            help="Id, epoch, last sequence and write of each producer, and since when its transaction is open.",
            handler="pk.cli.nouns.producers.producers:describe",
            arguments=(
                Argument(
                    "TOPIC",
                    many=True,
                    optional=True,
                    help="The topics, or partitions of them as TOPIC:0,1 (default: all that are not internal).",
                    complete="topic",
                ),
            ),
            options=(
                Option(
                    "-t",
                    "--topic",
                    value="TOPIC[:0,1]",
                    repeat=True,
                    dest="topics",
                    help="The same as the argument.",
                    complete="topic",
                    hidden=True,
                ),
                Option("--open", help="Only producers with an open transaction."),
                Option("--producer", value="ID", kind="int", help="Only this producer id."),
                Option(
                    "--broker",
                    "--broker-id",
                    value="ID",
                    help="What the replica on this broker remembers (default: each leader).",
                    complete="broker",
                ),
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=(
                "pk producers describe orders",
                "pk producers describe --open --sort -open_ms",
                "pk producers describe orders:0 -f json",
            ),
            notes="OPEN FROM is the offset of the first record of a transaction that has not ended; readers of committed records "
            "wait there. A leader forgets a producer producer.id.expiration.ms after its last write.",
            shows="topic partition:int producer_id:int producer_epoch:int last_sequence:int? last_time? "
            "idle_ms:int? open_since_offset:int? open_ms:int? coordinator_epoch:int? open_since?",
        ),
    ),
)
