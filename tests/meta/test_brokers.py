"""Brokers register, are heard of, shut down and go; what that does to their partitions."""

from __future__ import annotations

from typing import Any

import pytest
from meta.world import (
    beat,
    cluster,
    create,
    register,
    registration,
    topic,
)

from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.brokers import allocate_producer_ids
from pk.core.meta.events import Endpoint

DIR_A, DIR_B, DIR_C = b"a" * 16, b"b" * 16, b"c" * 16


def test_a_broker_registers() -> None:
    request = registration(log_dirs=[DIR_A], features={"f": (1, 2)})
    image, reply = register(cluster(), request)
    broker = image.brokers[1]
    assert (reply.error_code, reply.broker_epoch) == (0, broker.broker_epoch)
    assert broker.endpoints == (Endpoint("PLAINTEXT", "h", 9092, 0),)
    assert (broker.rack, broker.log_dirs, broker.fenced) == ("r", (DIR_A,), True)
    assert broker.features == (("f", 1, 2),)
    later, reply = register(image, registration(incarnation=2))
    assert reply.broker_epoch == later.brokers[1].broker_epoch > broker.broker_epoch


def test_the_same_incarnation_keeps_its_epoch() -> None:
    image, _ = register(cluster(), registration())
    epoch = image.brokers[1].broker_epoch
    again, reply = register(image, registration(), alive=True)
    assert again.offset == image.offset and reply.broker_epoch == epoch
    moved = registration()
    moved.listeners[0].port = 9093
    image, _ = beat(image, 1)
    image, reply = register(image, moved, alive=True)
    broker = image.brokers[1]
    assert (reply.broker_epoch, broker.broker_epoch, broker.fenced) == (epoch, epoch, False)
    assert broker.endpoints[0].port == 9093


@pytest.mark.parametrize(
    "request_, options, code",
    [
        (registration(cluster_id="other"), {}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (registration(1, 7), {"alive": True}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (registration(1, 7), {"alive": False}, ErrorCode.NONE),
        (registration(3, log_dirs=[DIR_A]), {}, ErrorCode.INVALID_REGISTRATION),
        (registration(3, log_dirs=[DIR_B, DIR_B]), {}, ErrorCode.INVALID_REGISTRATION),
        (registration(3, log_dirs=[bytes(15) + b"\x01"]), {}, ErrorCode.INVALID_REGISTRATION),
        (registration(3, log_dirs=[DIR_B]), {}, ErrorCode.NONE),
    ],
)
def test_registrations_are_refused(request_: Any, options: Any, code: ErrorCode) -> None:
    image, _ = register(cluster(), registration(1, 1, log_dirs=[DIR_A]))
    after, reply = register(image, request_, **options)
    assert reply.error_code == code
    assert (after.offset == image.offset) == (code != ErrorCode.NONE)


def test_a_broker_that_returns_leads_in_a_new_epoch() -> None:
    image, _ = register(cluster(), registration(), fenced=False)
    image, _ = create(image, topic("t", 2))
    image, _ = register(image, registration(incarnation=2), fenced=False)
    for partition in image.topics["t"].partitions:
        assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 1)
    fenced, _ = register(image, registration(incarnation=3))
    for partition in fenced.topics["t"].partitions:
        assert (partition.leader, partition.isr, partition.leader_epoch) == (-1, (), 2)
        assert (partition.elr, partition.last_known_elr) == ((), (1,))


def test_a_broker_is_unfenced_when_it_has_seen_its_registration() -> None:
    image, reply = register(cluster(), registration())
    epoch = reply.broker_epoch
    for offset, caught_up in ((-1, False), (epoch - 1, False), (epoch, True), (epoch + 9, True)):
        after, reply = beat(image, 1, current_metadata_offset=offset)
        assert (reply.is_caught_up, reply.is_fenced) == (caught_up, not caught_up)
        assert after.brokers[1].fenced == (not caught_up)
    after, reply = beat(image, 1, want_fence=True)
    assert (reply.is_caught_up, reply.is_fenced, after.offset) == (True, True, image.offset)


@pytest.mark.parametrize("node, epoch", [(1, 99), (2, 1)])
def test_a_stale_heartbeat_changes_nothing(node: int, epoch: int) -> None:
    image, _ = register(cluster(), registration())
    after, reply = beat(image, node, broker_epoch=epoch)
    assert (reply.error_code, after.offset) == (ErrorCode.STALE_BROKER_EPOCH, image.offset)
    assert (reply.is_fenced, reply.should_shut_down) == (True, False)


# --- producer ids ---


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
