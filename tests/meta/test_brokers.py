"""Brokers register, are heard of, shut down and go; what that does to their partitions."""

from __future__ import annotations

from typing import Any

import pytest
from meta.world import CONFIG, beat, cluster, create, first, register, registration, topic

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.meta.brokers import (
    fence_broker,
    register_broker,
    register_controller,
    unregister_broker,
)
from pk.core.meta.events import Endpoint, FeatureChanged
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.controller_registration import ControllerRegistrationRequest, Listener
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest

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


def leading(*replicas: int) -> MetadataImage:
    """Three brokers, and topic t on `replicas`."""
    image, (answer,) = create(cluster(None, None, None), topic("t", -1, -1, {0: list(replicas)}))
    assert answer.error_code == 0
    return image


def test_a_broker_that_shuts_down_hands_over_first() -> None:
    image, reply = beat(leading(1, 2), 1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    assert image.brokers[1].in_controlled_shutdown and not image.brokers[1].may_lead
    assert (first(image).leader, first(image).isr, first(image).leader_epoch) == (2, (2,), 1)
    waits, reply = beat(image, 1, want_shut_down=True, may_shut_down=False)
    assert (reply.should_shut_down, waits.offset) == (False, image.offset)
    still, reply = beat(image, 1)
    assert (reply.should_shut_down, still.offset) == (False, image.offset)
    image, reply = beat(image, 1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    assert image.brokers[1].fenced
    again, reply = beat(image, 1, want_shut_down=True)
    assert (reply.should_shut_down, again.offset) == (True, image.offset)
    stays, reply = beat(image, 1)
    assert (reply.is_fenced, stays.offset) == (True, image.offset), "it must register again"
    image, _ = register(image, registration(1, 2, previous=image.brokers[1].broker_epoch))
    image, reply = beat(image, 1)
    assert not reply.is_fenced and not image.brokers[1].in_controlled_shutdown


def test_the_last_one_may_shut_down_too_and_leads_when_it_is_back() -> None:
    image, _ = beat(leading(1), 1, want_shut_down=True)
    assert (first(image).leader, first(image).isr, first(image).elr) == (-1, (), (1,))
    image, reply = beat(image, 1, want_shut_down=True)
    assert reply.should_shut_down
    image, _ = register(image, registration(1, 2, previous=image.brokers[1].broker_epoch))
    assert (first(image).leader, first(image).elr) == (-1, (1,))
    image, _ = beat(image, 1)
    assert (first(image).leader, first(image).isr, first(image).recovering) == (1, (1,), False)


@pytest.mark.parametrize(
    "node, fields",
    [(3, {}), (1, {"want_fence": True}), (2, {})],
    ids=["leads nothing", "wants to be fenced", "only follows"],
)
def test_who_may_go_at_once(node: int, fields: Any) -> None:
    image, reply = beat(leading(1, 2), node, want_shut_down=True, **fields)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    assert image.brokers[node].fenced and node not in first(image).isr


def test_a_broker_may_ask_to_be_fenced() -> None:
    image, reply = beat(leading(1, 2), 1, want_fence=True)
    assert (reply.is_fenced, reply.should_shut_down, first(image).leader) == (True, False, 2)


def test_a_silent_broker_is_fenced_once_and_only_in_its_own_epoch() -> None:
    image = leading(1, 2)
    epoch = image.brokers[1].broker_epoch
    for node, stale in ((1, epoch + 1), (9, 0)):
        decision = fence_broker(image, node, stale, CONFIG)
        assert (decision.records, decision.reply) == ([], False)
    decision = fence_broker(image, 1, epoch, CONFIG)
    assert decision.reply is True
    image = image.apply(decision.records)
    assert (image.brokers[1].fenced, first(image).leader) == (True, 2)
    decision = fence_broker(image, 1, epoch, CONFIG)
    assert (decision.records, decision.reply) == ([], False)


def test_an_unregistered_broker_is_forgotten_and_its_replicas_stay() -> None:
    image = leading(1, 2)
    decision = unregister_broker(image, UnregisterBrokerRequest(broker_id=1), CONFIG)
    assert decision.reply.error_code == 0
    image = image.apply(decision.records)
    assert 1 not in image.brokers
    assert (first(image).replicas, first(image).isr, first(image).leader) == ((1, 2), (2,), 2)
    decision = unregister_broker(image, UnregisterBrokerRequest(broker_id=1), CONFIG)
    assert decision.reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert decision.records == []


def test_a_broker_supports_what_is_finalized_or_stays_out() -> None:
    image = cluster().apply([FeatureChanged("f", 2)])
    for features, code in (
        ({}, ErrorCode.UNSUPPORTED_VERSION),
        ({"f": (0, 1)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"f": (3, 4)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"f": (0, 2), "g": (1, 1)}, ErrorCode.NONE),
    ):
        _, reply = register(image, registration(features=features))
        assert reply.error_code == code, features


def test_all_brokers_count_in_sync_replicas_as_the_controller_does() -> None:
    config = BrokerConfig.parse({"node.id": "1", "min.insync.replicas": "2"})
    decision = register_broker(cluster(), registration(), config)
    image = cluster().apply(decision.records)
    assert image.broker_configs(None) == {"min.insync.replicas": "2"}
    image, _ = register(image, registration(2, 2))
    assert image.broker_configs(None) == {"min.insync.replicas": "2"}
    alone, _ = register(cluster(), registration(), fenced=False)
    assert alone.broker_configs(None) == {}, "it is the controller's own process"


# --- controllers ---


def test_a_controller_registers() -> None:
    request = ControllerRegistrationRequest(
        controller_id=3,
        incarnation_id=b"i" * 16,
        listeners=[Listener(name="CONTROLLER", host="h", port=9, security_protocol=0)],
    )
    decision = register_controller(cluster(), request)
    assert decision.reply.error_code == 0
    image = cluster().apply(decision.records)
    assert image.controllers[3].endpoints == (Endpoint("CONTROLLER", "h", 9, 0),)
    assert register_controller(image, request).records == []
    request.incarnation_id = b"j" * 16
    image = image.apply(register_controller(image, request).records)
    assert image.controllers[3].incarnation_id == b"j" * 16
