"""Message classes behave as type checkers take them for: dataclasses made by keywords alone."""

import copy
import gc
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from wire.values import all_messages

from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.emit import fields_of
from pk.core.wire.messages.fetch import FetchRequest, FetchTopic
from pk.core.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)

ROOT = Path(__file__).resolve().parents[2]


def test_constructor_takes_keywords_and_has_defaults() -> None:
    request = FetchRequest(max_wait_ms=5, topics=[FetchTopic(topic="t")])
    assert (request.max_wait_ms, request.replica_id, request.session_epoch) == (5, -1, -1)
    assert request.topics[0].partitions == []
    assert request.max_bytes == 0x7FFFFFFF
    assert request.cluster_id is None


def test_constructor_refuses_what_is_not_a_field() -> None:
    with pytest.raises(TypeError, match="wait"):
        FetchRequest(wait=5)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="positional"):
        ProduceRequest("id")  # pyright: ignore[reportCallIssue]


def test_attributes_are_slots() -> None:
    with pytest.raises(AttributeError):
        ProduceResponse().throttle = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_defaults_that_can_change_are_not_shared() -> None:
    a, b = ProduceResponse(), ProduceResponse()
    a.responses.append(None)  # pyright: ignore[reportArgumentType]
    assert b.responses == []
    one, other = PartitionProduceResponse(), PartitionProduceResponse()
    one.current_leader.leader_id = 4
    assert other.current_leader == LeaderIdAndEpoch()


def test_equality_is_by_type_and_fields() -> None:
    assert ProduceRequest(acks=1) == ProduceRequest(acks=1)
    assert ProduceRequest(acks=1) != ProduceRequest(acks=0)
    assert ProduceRequest() != ProduceResponse()
    with pytest.raises(TypeError):
        hash(ProduceRequest())


def test_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(ProduceRequest()) == "ProduceRequest()"
    assert repr(FetchRequest(max_wait_ms=5, topics=[FetchTopic(topic="t")])) == (
        "FetchRequest(max_wait_ms=5, topics=[FetchTopic(topic='t')])"
    )


def test_fields_are_in_the_order_of_the_wire() -> None:
    assert list(ProduceRequest.FIELDS) == ["transactional_id", "acks", "timeout_ms", "topic_data"]
    assert ProduceRequest.FIELDS == ProduceRequest(acks=1).FIELDS


def test_the_collector_does_not_look_at_messages() -> None:
    """It would take tens of milliseconds for those of a request that names 100,000 partitions."""
    request = FetchRequest(topics=[FetchTopic(topic="t")])
    assert not gc.is_tracked(request) and not gc.is_tracked(request.topics[0])
    decoded = decode_whole(FetchRequest, encode(request, 12), 12)
    assert not gc.is_tracked(decoded.topics[0])


def test_messages_can_be_copied_and_pickled() -> None:
    request = FetchRequest(max_wait_ms=5, topics=[FetchTopic(topic="t")])
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_declarations_agree_with_themselves() -> None:
    """Tagged fields need a flexible version; versions are in order, every type is known, and every
    default is valid.
    """
    messages = all_messages()
    assert len(messages) > 200
    for cls in messages:
        low, high = cls.VERSIONS
        assert 0 <= low <= high
        for name, _, f in fields_of(cls):
            where = f"{cls.__name__}.{name}"
            assert f.since <= high, where
            assert f.until is None or f.since <= f.until, where
            if f.tag is not None:
                assert cls.FLEXIBLE_SINCE is not None and f.since >= cls.FLEXIBLE_SINCE, where
        cls()


def test_importing_one_api_does_not_import_the_others() -> None:
    code = "import sys, pk.core.wire.index, pk.core.wire.header, pk.core.wire.messages.produce;"
    code += "print([m for m in sys.modules if m.startswith('pk.core.wire.messages.')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "scripts/path")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['pk.core.wire.messages.produce']"
