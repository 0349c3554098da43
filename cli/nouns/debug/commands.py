"""The command `pk debug bundle`, with its options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.debug.rows import BundledRow
from pk.cli.options.option_sets import Connection, Listing
from pk.cli.options.parameters import Option

DEBUG = Noun("debug")


@dataclass(frozen=True, kw_only=True)
class MakeBundle:
    """Options of `pk debug bundle`."""

    to: Annotated[
        str | None,
        Option(
            "--to",
            value="FILE",
            help="The zip file to write (default: pk-debug-TIME.zip here).",
            complete="file",
        ),
    ] = None
    logs: Annotated[
        tuple[str, ...],
        Option(
            "--log",
            value="FILE",
            help="Add the last megabyte of this log; repeatable.",
            complete="file",
        ),
    ] = ()


DEBUG.command(
    "bundle",
    help="Write what a bug report needs into a zip file, without secrets.",
    worker="bundle:bundle",
    options=MakeBundle,
    takes=(Listing, Connection),
    examples=("pk debug bundle", "pk debug bundle --to report.zip --log /var/lib/pk/pk.log"),
    notes=(
        "It holds versions, brokers, the APIs of each, topics with their partitions, groups, "
        "configs of brokers and topics that differ from the default, and the ends of the logs "
        "given with --log. Values of secret configs are left out, and what looks like a password, "
        "token or key in a log is replaced by [hidden]. It contains no records, but names of "
        "topics, groups and hosts: read it before you send it to others."
    ),
    shows=BundledRow,
)
