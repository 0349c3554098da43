"""The commands of `pk isr`, with their options."""

from pk.cli.cluster.isr_event import IsrEvent
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.isr.options import InSyncReplicas
from pk.cli.nouns.isr.rows import InSyncRow
from pk.cli.options.option_sets import Connection, Listing

ISR = Noun("isr")


ISR.command(
    help=(
        "Show each partition's replicas, in-sync replicas, leader, and how far replicas are behind."
    ),
    worker="isr:isr",
    options=InSyncReplicas,
    takes=(Listing, Connection),
    examples=(
        "pk isr",
        "pk isr -w",
        "pk isr --under-replicated",
        "pk isr 'orders.*' --where 'in_sync < 3' --sort -lag_max",
    ),
    notes=(
        "BEHIND shows each replica that lacks records, as BROKER:RECORDS; BROKER:~RECORDS is an "
        "estimate, BROKER:? unknown. SINCE: Kafka has no API that says when a replica fell out "
        "of sync. For a broker that is down, it is the time of its last heartbeat to the "
        "controller; for others, the time of the first record that it lacks. With -w, pk sees "
        "when it happens."
    ),
    shows={"": InSyncRow, "watch": IsrEvent},
    from_use=True,
    repeatable=True,
)
