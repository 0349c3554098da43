"""The commands of `pk top`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.options.option_sets import Connection, Listing
from pk.cli.top.options import Top
from pk.cli.top.rows import BrokerRow, GroupRow, MoveRow, OutOfSyncRow, RequestRow, TopicRow

TOP = Noun("top")


TOP.command(
    help=(
        "Show the cluster live: brokers, topics, groups, in-sync replicas, reassignments, requests."
    ),
    worker="pk.cli.top.app:top",
    options=Top,
    takes=(Listing, Connection),
    examples=(
        "pk top",
        "pk top groups",
        "pk top topics -n 1 --sort -in_rate --limit 10",
        "pk top requests -n 1",
        "pk top groups -f json --where 'trend = stuck'",
    ),
    notes=(
        "Keys: 1-6 or tab for the tabs, arrows or j k, enter to open a topic or a group, / to "
        "filter, s and r to sort, p to pause, + and - for the interval, ? for all keys, q to "
        "quit. Rates come from offsets: IN/s from partition ends, OUT/s and "
        "DRAIN/s from committed offsets. TO ZERO is the time until a group catches up at "
        "these rates. The tab requests shows the metrics of brokers that serve them "
        "(pk.metrics.listener), and needs the extra metrics: pip install 'pk-broker[metrics]'. "
        "Into a pipe, with -n or with a format it writes snapshots, each from two measurements."
    ),
    shows={
        "": BrokerRow,
        "tab=topics": TopicRow,
        "tab=groups": GroupRow,
        "tab=isr": OutOfSyncRow,
        "tab=reassign": MoveRow,
        "tab=requests": RequestRow,
    },
    screen="paints",
    shows_waits=True,
)
