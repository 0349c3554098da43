"""Options of `pk share-consume`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.option_sets import (
    FormatterProperties,
    ParseJson,
    QuietTimeout,
    RecordCount,
    RecordFormat,
)
from pk.cli.options.parameters import Argument, Option


@dataclass(frozen=True, kw_only=True)
class ShareConsume:
    """Options of `pk share-consume`."""

    topic: Annotated[tuple[str, ...], Argument("TOPIC", help="The topics.", complete="topic")] = ()
    topics: Annotated[
        tuple[str, ...],
        Option("-t", "--topic", value="TOPIC", help="A topic; repeatable.", complete="topic"),
    ] = ()
    group: Annotated[
        str,
        Option(
            "-g",
            "--group",
            value="GROUP",
            help="The share group to be a member of (default: console-share-consumer).",
            complete="group",
        ),
    ] = "console-share-consumer"
    num: RecordCount = None
    timeout_ms: QuietTimeout = None
    release: Annotated[
        bool, Option("--release", help="Give each record back to the group after it was shown.")
    ] = False
    reject: Annotated[
        bool,
        Option("--reject", help="Reject each record after it was shown: no member gets it again."),
    ] = False
    format: RecordFormat = None
    formatter_properties: FormatterProperties = ()
    parse_json: ParseJson = False
    skip_message_on_error: Annotated[
        bool,
        Option(
            "--skip-message-on-error",
            "--reject-message-on-error",
            help="Continue after a record that cannot be shown, and reject it.",
        ),
    ] = False
