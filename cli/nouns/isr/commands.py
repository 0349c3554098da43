"""`pk isr`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Connection, Listing
from pk.cli.nouns.isr.options import InSyncReplicas

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

ISR = Noun("isr")


@ISR.command(
    takes=(Listing, Connection),
    examples=(
        "pk isr",
        "pk isr -w",
        "pk isr --under-replicated",
        "pk isr 'orders.*' --where 'in_sync < 3' --sort -lag_max",
    ),
    notes=(
        "BEHIND names each replica that lacks records, as BROKER:RECORDS; BROKER:~RECORDS is "
        "reckoned, BROKER:? not known. SINCE: no API of Kafka tells when a replica fell out "
        "of sync. Of a broker that is away it is when the controller last heard from it; of "
        "one that answers, when the first record was produced that it lacks. -w sees for "
        "itself."
    ),
    shows={
        "": (
            "topic partition:int leader:int? leader_epoch:int replicas:[int] isr:[int] "
            "in_sync:int out_of_sync:[int] elr:[int]? last_known_elr:[int]? log_end_offset:int? "
            "high_watermark:int? behind:<int?>? lag_max:int? estimated:[int] since? "
            "log_end_offsets:<int?>? offline_replicas:[int]"
        ),
        "watch": (
            "time? topic partition:int event brokers:[int] leader:int? isr:[int] out_for_ms:int? "
            "behind:<int?>?"
        ),
    },
)
def isr(context: "Context", options: InSyncReplicas) -> Running:
    """Every partition's replicas, in-sync replicas, leader, and how far each replica is behind."""
    from pk.cli.nouns.isr.isr import isr

    return isr(context)
