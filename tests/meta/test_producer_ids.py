"""The controller gives brokers blocks of producer ids."""

import pytest
from meta.world import cluster, register, registration

from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.producer_ids import allocate_producer_ids


def test_blocks_of_producer_ids_never_overlap() -> None:
    image, _ = register(cluster(), registration())
    seen: set[int] = set()
    for _ in range(3):
        decision = allocate_producer_ids(image, 1, image.brokers[1].broker_epoch)
        image = image.apply(decision.records)
        block = range(decision.reply.first, decision.reply.first + decision.reply.count)
        assert seen.isdisjoint(block)
        seen.update(block)
    assert image.producer_id_next == 3000


@pytest.mark.parametrize("node, epoch", [(2, 0), (1, -1)])
def test_only_a_registered_broker_gets_producer_ids(node: int, epoch: int) -> None:
    image, _ = register(cluster(), registration())
    with pytest.raises(KafkaError) as caught:
        allocate_producer_ids(image, node, epoch)
    assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH
