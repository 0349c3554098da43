"""Producer ids, from blocks that the controller allocates (KIP-730): no id is ever assigned twice
in a cluster."""

import trio

from pk.core.broker.controller.controller_client import NodeToController
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.meta.producer_ids import ProducerIdBlock
from pk.core.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest


class ProducerIds:
    """The producer ids that this broker may assign. The rest of a block is lost when the broker
    stops."""

    def __init__(self, state: BrokerState, controller_client: NodeToController) -> None:
        self._state = state
        self._controller_client = controller_client
        self._next: int = 0
        self._end: int = 0
        self._allocating = trio.Lock()

    async def next(self) -> int:
        """Return an unused producer id. Raises the controller client's errors if the controller is
        unreachable."""
        if self._next == self._end:
            async with self._allocating:
                if self._next == self._end:
                    block = await self._allocate()
                    self._next, self._end = block.first, block.first + block.count
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _allocate(self) -> ProducerIdBlock:
        """Return a block of ids from the controller. Raises KafkaError."""
        state = self._state
        request = AllocateProducerIdsRequest(
            broker_id=state.node_id, broker_epoch=state.broker_epoch
        )
        answer = await self._controller_client.request(
            request, timeout_ms=state.config.request_timeout_ms
        )
        if answer.error_code:
            raise KafkaError(answer.error_code, "the controller assigned no producer ids")
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len)
