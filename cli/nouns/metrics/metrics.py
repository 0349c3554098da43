"""`pk metrics`."""

import re
from itertools import pairwise

import trio

from pk.cli.cluster.metrics import Source, Value, Values, read_values, source_of, sources, sparkline
from pk.cli.exits import Unusable
from pk.cli.nouns.metrics.options import ShowMetrics
from pk.cli.nouns.metrics.rows import MetricRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context

NOTHING = Value(None, False)


async def show_metrics(context: Context, options: ShowMetrics) -> None:
    """Run `pk metrics`."""
    if options.changed and options.period is None:
        raise Unusable("--changed needs --for DURATION.")
    try:
        wanted = None if options.pattern is None else re.compile(options.pattern)
    except re.error as e:
        raise Unusable(f"PATTERN: not a regular expression: {options.pattern!r} ({e}).") from None
    if options.url:
        found = [source_of(url, url) for url in options.url]
    else:
        found = await sources(await context.admin())
    rounds: dict[str, list[Values]] = {source.broker: [] for source in found}
    started = trio.current_time()
    period_s = options.period.s if options.period else 0
    steps = max(round(period_s), 1) if period_s else 0
    for number in range(steps + 1):
        await trio.sleep_until(started + (period_s * number / steps if steps else 0))
        for source in found:
            rounds[source.broker].append(await read_values(source, wanted))
    for source in found:
        await source.client.close()
    rows = [row for source in found for row in rows_of(source, rounds[source.broker], options)]
    context.show(listing(MetricRow, rows))


def rows_of(source: Source, rounds: list[Values], options: ShowMetrics) -> list[MetricRow]:
    """The rows of one broker, whose values were read once, or once a second."""
    rows: list[MetricRow] = []
    for (metric, labels), last in sorted(rounds[-1].items()):
        values = [one.get((metric, labels), NOTHING).value for one in rounds]
        rate, trend = None, None
        if options.period is not None:
            known = [value or 0.0 for value in values]
            if last.grows:
                rate = (known[-1] - known[0]) / options.period.s
                known = [after - before for before, after in pairwise(known)]
            trend = sparkline(known)
            if options.changed and len(set(values)) == 1:
                continue
        rows.append(
            {
                "broker": source.broker,
                "metric": metric,
                "labels": labels,
                "value": last.value,
                "rate": rate,
                "trend": trend,
            }
        )
    return rows
