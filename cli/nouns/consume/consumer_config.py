"""The configs of the consumer of `pk consume`."""

from typing import TYPE_CHECKING, Final

from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.net.client.config import ConsumerConfig

if TYPE_CHECKING:
    from pk.cli.nouns.consume.options import Consume


_DATA: Final = ("json", "jsonl", "csv", "yaml", "cbor")
"""Formats that another program reads; output in them is an export."""


def default_isolation(options: "Consume") -> str:
    """The isolation level if none is given: an export has only committed records, and output for
    people has all records, as in Apache's tool."""
    return "read_committed" if options.format in _DATA else "read_uncommitted"


def consumer_config(
    context: Context, options: "Consume", isolation: str, reset: str | None = None
) -> dict[str, object]:
    """The consumer's configs. `isolation` is the isolation level unless the user gave another. The
    consumer joins the group of -g if `reset` (auto.offset.reset) is given, else no group."""
    config = client_config(
        ConsumerConfig,
        context.settings,
        {
            "isolation.level": isolation,
            "auto.offset.reset": reset or "earliest",
            "max.partition.fetch.bytes": str(4 << 20),
        },
    )
    if options.isolation_level is not None:
        config["isolation.level"] = options.isolation_level
    config["allow.auto.create.topics"] = "false"
    if reset is not None:
        config["group.id"] = options.group
    else:
        config.pop("group.id", None)
        config["enable.auto.commit"] = "false"
    return config
