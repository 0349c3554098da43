"""Options of `pk spark`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Option


@dataclass(frozen=True, kw_only=True)
class Package:
    """Options of `pk spark package`."""

    to: Annotated[
        str,
        Option(
            "--to",
            value="DIR",
            help="The directory for the two files (default: .).",
            complete="directory",
        ),
    ] = "."


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """`pk spark warm-up` has no options of its own."""
