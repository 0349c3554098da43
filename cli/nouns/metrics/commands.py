"""The command `pk metrics`, with its options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Connection, Listing, Watch
from pk.cli.nouns.metrics.options import ShowMetrics
from pk.cli.nouns.metrics.rows import MetricRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

METRICS = Noun("metrics")


@METRICS.command(
    takes=(Listing, Watch, Connection),
    examples=(
        "pk metrics",
        "pk metrics 'bytesin|bytesout' --for 5s",
        "pk metrics requests --for 10s --changed --sort -rate",
    ),
    notes=(
        "Brokers of pk serve metrics where pk.metrics.listener says; docs/metrics.md has their "
        "meaning. Needs the extra metrics: pip install 'pk-broker[metrics]'."
    ),
    shows=MetricRow,
)
def metrics(context: "Context", options: ShowMetrics) -> Running:
    """Show brokers' metrics: names, values, rates and trends."""
    from pk.cli.nouns.metrics.metrics import show_metrics

    return show_metrics(context, options)
