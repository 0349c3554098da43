"""The command `pk metrics`, with its options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.metrics.options import ShowMetrics
from pk.cli.nouns.metrics.rows import MetricRow
from pk.cli.options.option_sets import Connection, Listing, Watch

METRICS = Noun("metrics")


METRICS.command(
    help="Show brokers' metrics: names, values, rates and trends.",
    worker="metrics:show_metrics",
    options=ShowMetrics,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk metrics",
        "pk metrics 'bytesin|bytesout' --for 5s",
        "pk metrics requests --for 10s --changed --sort -rate",
    ),
    notes=(
        "pk's brokers serve metrics at pk.metrics.listener; docs/metrics.md explains them. Needs "
        "the extra metrics: pip install 'pk-broker[metrics]'."
    ),
    shows=MetricRow,
)
