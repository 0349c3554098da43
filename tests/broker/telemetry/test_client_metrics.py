"""Metrics that clients push (KIP-714): the rules, by a broker's clock, and bytes that are no
metrics."""

import contextlib
import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.core.broker.state import BrokerState
from pk.core.broker.telemetry import client_metrics as module
from pk.core.broker.telemetry.client_metrics import ClientMetrics, Peer
from pk.core.broker.telemetry.otlp import SERIES_MAX, Malformed, Pushed, read_metrics
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import CLIENT_METRICS
from pk.core.meta.image import MetadataImage
from pk.core.record.compress import Codec, compress
from pk.core.values import ZERO_UUID

SHOP = Peer("shop-1", "librdkafka", "2.5.0", "127.0.0.1")


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def time(self) -> float:
        return self.seconds


class World:
    def __init__(self, **subscriptions: dict[str, str]) -> None:
        config = BrokerConfig.parse(
            {"node.id": "1", "log.dirs": "/d", "telemetry.max.bytes": "1000"}
        )
        self.state = BrokerState(config, node_id=1, cluster_id="c")
        self.clock = Clock()
        self.metrics = ClientMetrics(self.state, self.clock, Random(1))
        self.subscribe(**subscriptions)

    def subscribe(self, **subscriptions: dict[str, str]) -> None:
        configs = {(CLIENT_METRICS, name): keys for name, keys in subscriptions.items()}
        self.state.image = MetadataImage(cluster_id="c", configs=configs)

    def push(self, instance: bytes, subscription: int, data: bytes, **more: int | bool) -> None:
        ends, compression = bool(more.get("ends", False)), int(more.get("compression", 0))
        self.metrics.check_push(
            instance, subscription, compression, len(data), ends=ends, peer=SHOP
        )
        self.metrics.store(instance, self.metrics.read(compression, data))

    def values(self) -> dict[str, float]:
        return {
            m.prometheus: s.value  # type: ignore[misc]
            for m in self.metrics.samples()
            for s in m.samples
        }


def code_of(call: object, *args: object, **more: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(*args, **more)  # type: ignore[operator]
    return ErrorCode(caught.value.code)


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def f(number: int, data: bytes | int) -> bytes:
    """One field."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    return varint(number << 3 | 2) + varint(len(data)) + data


def point(value: float, **attributes: str) -> bytes:
    pairs = b"".join(f(7, f(1, k.encode()) + f(2, f(1, v.encode()))) for k, v in attributes.items())
    return varint(4 << 3 | 1) + struct.pack("<d", value) + pairs


def message(*metrics: bytes) -> bytes:
    return f(1, f(2, b"".join(f(2, metric) for metric in metrics)))


def gauge(name: str, value: float, **attributes: str) -> bytes:
    return f(1, name.encode()) + f(5, f(1, point(value, **attributes)))


def counter(name: str, value: float, *, delta: bool) -> bytes:
    return f(1, name.encode()) + f(7, f(1, point(value)) + f(2, 1 if delta else 2) + f(3, 1))


def test_who_is_asked_for_what() -> None:
    world = World(
        all={"metrics": "org.apache.", "interval.ms": "60000"},
        shops={"metrics": "x.y", "interval.ms": "1000", "match": "client_id=shop-.*"},
        java={"metrics": "*", "match": "client_software_name=apache-kafka-java,client_id=.*"},
    )
    instance, subscription = world.metrics.subscription_of(ZERO_UUID, SHOP)
    assert instance != ZERO_UUID
    assert (subscription.metrics, subscription.interval_ms) == (("org.apache.", "x.y"), 1000)
    java = Peer("other", "apache-kafka-java", "4.0", "127.0.0.1")
    assert world.metrics.subscription_of(ZERO_UUID, java)[1].metrics == ("",)
    _, nobody = World().metrics.subscription_of(ZERO_UUID, SHOP)
    assert (nobody.metrics, nobody.interval_ms) == ((), 300_000)


def test_a_client_comes_in_its_time() -> None:
    world = World(all={"metrics": "*", "interval.ms": "1000"})
    instance, subscription = world.metrics.subscription_of(ZERO_UUID, SHOP)
    assert (
        code_of(world.metrics.subscription_of, instance, SHOP)
        == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    )
    data = message(gauge("a", 1))
    world.push(instance, subscription.subscription_id, data)
    early = code_of(world.push, instance, subscription.subscription_id, data)
    assert early == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.clock.seconds += 1
    world.push(instance, subscription.subscription_id, data)
    world.push(
        instance, subscription.subscription_id, data, ends=True
    )  # the last one may come at any time
    for call in (world.push, world.push):
        assert (
            code_of(call, instance, subscription.subscription_id, data) == ErrorCode.INVALID_REQUEST
        )
    assert code_of(world.metrics.subscription_of, instance, SHOP) == ErrorCode.INVALID_REQUEST


def test_what_is_refused() -> None:
    world = World(all={"metrics": "*", "interval.ms": "1000"})
    instance, subscription = world.metrics.subscription_of(ZERO_UUID, SHOP)
    push, known = world.push, subscription.subscription_id
    assert code_of(push, ZERO_UUID, known, b"") == ErrorCode.INVALID_REQUEST
    assert code_of(push, b"?" * 16, known, b"") == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert code_of(push, instance, known + 1, b"") == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    other = code_of(push, instance, known, b"", compression=7)
    assert other == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code_of(push, instance, known, b"x" * 1001) == ErrorCode.TELEMETRY_TOO_LARGE
    assert code_of(push, instance, known, b"\xff") == ErrorCode.INVALID_RECORD
    world.clock.seconds += 1
    bomb = bytes(compress(Codec.GZIP, bytes(100_000)))
    assert len(bomb) < 1000
    assert code_of(push, instance, known, bomb, compression=1) == ErrorCode.INVALID_RECORD
    world.clock.seconds += 1
    world.subscribe(all={"metrics": "a"})
    changed = code_of(push, instance, known, b"")
    assert changed == ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "it asks again"


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_values_are_kept(codec: Codec) -> None:
    world = World(all={"metrics": "wanted", "interval.ms": "1000"})
    instance, subscription = world.metrics.subscription_of(ZERO_UUID, SHOP)
    for _ in range(2):
        data = message(
            gauge("wanted.now", 7, node="1"),
            counter("wanted.delta", 3, delta=True),
            counter("wanted.total", 3, delta=False),
            gauge("other", 1),
        )
        sent = bytes(compress(codec, data)) if codec else data
        world.push(instance, subscription.subscription_id, sent, compression=int(codec))
        world.clock.seconds += 1
    assert world.values() == {
        "kafka_client_wanted_now": 7,
        "kafka_client_wanted_delta": 6,
        "kafka_client_wanted": 3,
    }
    (labels,) = [s.labels for m in world.metrics.samples() for s in m.samples if "node" in s.labels]
    assert labels["client_id"] == "shop-1" and labels["node"] == "1"
    world.clock.seconds += 61
    assert world.values() == {}, "a silent client is forgotten"


def test_names_that_collide() -> None:
    """A client's names are its own; what Prometheus reads stays whole."""
    world = World(all={"metrics": "*", "interval.ms": "1000"})
    instance, subscription = world.metrics.subscription_of(ZERO_UUID, SHOP)
    data = message(
        gauge("a.b", 1), gauge("a_b", 2), counter("A-B", 3, delta=False), gauge("", 4),
        gauge("é", 5, __name__="x", client_id="not mine"),
    )  # fmt: skip
    world.push(instance, subscription.subscription_id, data)
    found = world.metrics.samples()
    assert len({m.prometheus for m in found}) == len(found)
    for metric in found:
        keys = [frozenset(sample.labels.items()) for sample in metric.samples]
        assert len(set(keys)) == len(keys)
        assert all(s.labels["client_id"] == "shop-1" for s in metric.samples)
        assert not [label for s in metric.samples for label in s.labels if label[:2] == "__"]


def test_clients_and_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 2)
    monkeypatch.setattr(module, "SERIES_MAX", 3)
    world = World(all={"metrics": "*", "interval.ms": "1000"})
    instance, subscription = world.metrics.subscription_of(ZERO_UUID, SHOP)
    world.metrics.subscription_of(ZERO_UUID, SHOP)
    refused = code_of(world.metrics.subscription_of, ZERO_UUID, SHOP)
    assert refused == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.push(
        instance, subscription.subscription_id, message(*(gauge(f"g{n}", n) for n in range(9)))
    )
    assert len(world.values()) == 3
    world.clock.seconds += 61
    world.metrics.subscription_of(ZERO_UUID, SHOP)  # the silent ones made room
    with pytest.raises(Malformed, match="more than"):
        read_metrics(message(*(gauge("g", 1) for _ in range(SERIES_MAX + 1))))


def test_what_is_read() -> None:
    whole = message(gauge("a", 1.5, k="v"), counter("b", 2, delta=True))
    assert read_metrics(whole) == [
        Pushed("a", (("k", "v"),), 1.5, False, False),
        Pushed("b", (), 2.0, True, True),
    ]
    for size in range(len(whole)):  # truncated at every length: refused, or read so far
        with contextlib.suppress(Malformed):
            read_metrics(whole[:size])


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for one in (data, message(data), message(f(5, data)), message(f(7, data))):
        with contextlib.suppress(Malformed):
            read_metrics(one)
