"""The configs of the consumer that `pk consume` reads with."""

from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.net.client.config import ConsumerConfig


def consumer_config(context: Context, reset: str | None = None) -> dict[str, object]:
    """The consumer's configs. With `reset` (auto.offset.reset) it joins the group of -g; without, it joins no group."""
    args = context.args
    config = client_config(
        ConsumerConfig,
        context.settings,
        {
            "isolation.level": args.isolation_level,
            "auto.offset.reset": reset or "earliest",
            "max.partition.fetch.bytes": str(4 << 20),
        },
    )
    if args.given("isolation_level"):
        config["isolation.level"] = args.isolation_level
    config["allow.auto.create.topics"] = "false"
    if reset is not None:
        config["group.id"] = args.group
    else:
        config.pop("group.id", None)
        config["enable.auto.commit"] = "false"
    return config
