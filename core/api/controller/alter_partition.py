"""AlterPartition (56), versions 2–3: a leader proposes a new ISR (KIP-497, KIP-841). v3 has the
epochs of the brokers in the ISR, so that a proposal with a broker that has since restarted is
rejected (KIP-903)."""

from pk.core.api.controller.decide import active_controller
from pk.core.broker.requests.context import Context
from pk.core.meta import alter_partition
from pk.core.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(context: Context, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Change each partition separately. Raises KafkaError(NOT_CONTROLLER)."""
    config, version = context.broker.config, context.api_version
    return await active_controller(context).submit(
        lambda image: alter_partition.alter_partition(image, request, config, version)
    )
