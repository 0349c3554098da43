"""Looks at single records without joining a group."""

from collections.abc import Mapping

import trio

from pk.cli.client_config import client_config
from pk.cli.commands.reading import first_records
from pk.cli.context import Context
from pk.core.values import TopicPartition
from pk.net.client.config import AdminConfig, ConsumerConfig
from pk.net.client.consumer import open_consumer

_WAIT_S = 5.0


async def record_times(
    context: Context, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The time of the first record from each offset on, as far as they come within a few seconds."""
    config = client_config(
        ConsumerConfig,
        context.settings,
        {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "max.partition.fetch.bytes": "65536",
        },
        about=AdminConfig,
    )
    config.pop("group.id", None)
    config["allow.auto.create.topics"] = "false"
    with trio.move_on_after(_WAIT_S):
        async with open_consumer(context.settings.bootstrap, config) as consumer:
            found = await first_records(consumer, offsets)
            return {tp: record.timestamp for tp, record in found.items()}
    return {}
