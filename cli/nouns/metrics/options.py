"""The options of `pk metrics`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import span
from pk.core.durations import Duration


@dataclass(frozen=True, kw_only=True)
class ShowMetrics:
    """Options of `pk metrics`."""

    pattern: Annotated[
        str | None,
        Argument("PATTERN", help="Only metrics whose name contains this regular expression."),
    ] = None
    period: Annotated[
        Duration | None,
        Option(
            "--for",
            value="DURATION",
            parser=span,
            help="Watch for this long, and show rates and the trend.",
        ),
    ] = None
    url: Annotated[
        tuple[str, ...],
        Option(
            "--url",
            value="URL",
            help=(
                "The URL of metrics, such as http://127.0.0.1:9404; repeatable (default: from "
                "the brokers' configs)."
            ),
        ),
    ] = ()
    changed: Annotated[bool, Option("--changed", help="Only what changed during --for.")] = False
