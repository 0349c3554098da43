"""The configs of the consumer that `pk consume` reads with."""

from typing import TYPE_CHECKING

from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.net.client.config import ConsumerConfig

if TYPE_CHECKING:
    from pk.cli.nouns.consume.options import Consume


def consumer_config(
    context: Context, options: "Consume", reset: str | None = None
) -> dict[str, object]:
    """The consumer's configs. With `reset` (auto.offset.reset) it joins the group of -g; without,
    it joins no group."""
    config = client_config(
        ConsumerConfig,
        context.settings,
        {
            "isolation.level": options.isolation_level,
            "auto.offset.reset": reset or "earliest",
            "max.partition.fetch.bytes": str(4 << 20),
        },
    )
    if context.given("isolation_level"):
        config["isolation.level"] = options.isolation_level
    config["allow.auto.create.topics"] = "false"
    if reset is not None:
        config["group.id"] = options.group
    else:
        config.pop("group.id", None)
        config["enable.auto.commit"] = "false"
    return config
