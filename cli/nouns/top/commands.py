"""`pk top`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Connection, Listing
from pk.cli.top.options import Top

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

TOP = Noun("top")


@TOP.command(
    takes=(Listing, Connection),
    examples=(
        "pk top",
        "pk top groups",
        "pk top topics -n 1 --sort -in_rate --limit 10",
        "pk top groups -f json --where 'trend = stuck'",
    ),
    notes=(
        "Keys: 1-5 or tab for the tabs, arrows or j k, enter to look into a topic or a group, "
        "/ to filter, s and r to sort, p to pause, + and - for the interval, ? for all of "
        "them, q to end. Rates come from offsets: IN/s from where partitions end, OUT/s and "
        "DRAIN/s from what groups commit. TO ZERO is the time until a group has caught up at "
        "these speeds. Into a pipe, with -n or with a format it writes snapshots, each of two "
        "looks."
    ),
    shows={
        "": (
            "broker:int address? rack? state controller:bool leaders:int replicas:int "
            "in_rate:num? log_bytes:int? growth:num? disk_used_percent:num?"
        ),
        "tab=topics": (
            "topic partitions:int replication_factor:int under_replicated:int offline:int "
            "in_rate:num? out_rate:num? bytes:int? internal:bool"
        ),
        "tab=groups": (
            "group state? type? members:int? topics:int? lag:int? in_rate:num? drain_rate:num? "
            "trend? zero_s:num? time_lag_ms:int?"
        ),
        "tab=isr": (
            "topic partition:int leader:int? replicas:[int] isr:[int] out_of_sync:[int] state "
            "since? behind:<int?>? ..."
        ),
        "tab=reassign": (
            "topic partition:int replicas:[int] adding:[int] removing:[int] percent:num? "
            "copied:int? total:int? note?"
        ),
    },
)
def top(context: "Context", options: Top) -> Running:
    """The cluster live: brokers, topics, groups, in-sync replicas, reassignments."""
    from pk.cli.top.app import top

    return top(context, options)
