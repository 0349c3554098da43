"""The clients that push metrics, their subscriptions, and their last pushed values (KIP-714).

Subscriptions are configs of resources of type client-metrics. A client gets the union of the
metrics of all subscriptions that match it, and the shortest of their intervals. The result has an
id; a client that pushes with a different id must request the subscription again. A client that
requests its subscription or pushes too early is refused. A client's values are dropped three
intervals after its last push, but not before a minute.

The numbers of clients and of values are limited: further clients are refused, and further values
dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Final
from zlib import crc32

from msgspec import Struct, field

from pk.core.broker.clock import Clock
from pk.core.broker.state import BrokerState
from pk.core.broker.telemetry.otlp import Attributes, Malformed, Pushed, read_metrics
from pk.core.errors import ErrorCode, KafkaError
from pk.core.java_regex import JavaRegex, JavaRegexError
from pk.core.meta.events import CLIENT_METRICS
from pk.core.metrics import Metric, Sample
from pk.core.record.compress import Codec, decompress
from pk.core.values import ZERO_UUID, Uuid, uuid_text

CLIENTS_MAX: Final = 16_384
"""The maximum number of clients, as in Apache Kafka."""
SERIES_MAX: Final = 50_000
"""The maximum number of values of all clients together."""
CLIENT_SERIES_MAX: Final = 2_000
"""The maximum number of values of one client."""
DEFAULT_INTERVAL_MS: Final = 300_000
EXPANSION_MAX: Final = 10
"""The maximum size of a push after decompression, as a multiple of `telemetry.max.bytes`."""
SILENT_S_MIN: Final = 60.0
"""The minimum time before an inactive client is dropped, in seconds, regardless of its interval."""
EARLIEST_PUSH: Final = 0.5
"""The fraction of its interval after which a client may push again, since its clock may differ.
(Its first push comes after 0.5 to 1.5 intervals.)"""
CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
ALL: Final = "*"


class Subscription(Struct, frozen=True):
    """A client's subscription."""

    subscription_id: int
    metrics: tuple[str, ...]
    """Prefixes of names; an empty prefix means all; no prefixes mean none."""
    interval_ms: int


class _Client(Struct):
    """One instance of a client."""

    client_id: str
    subscription: Subscription
    subscribed_at: float
    pushed_at: float | None = None
    terminating: bool = False
    values: dict[tuple[str, Attributes], tuple[float, bool]] = field(
        default_factory=dict[tuple[str, Attributes], tuple[float, bool]]
    )
    """(name, attributes) → value, and whether it is a counter."""

    @property
    def last_seen(self) -> float:
        return (
            self.subscribed_at
            if self.pushed_at is None
            else max(self.subscribed_at, self.pushed_at)
        )


class Peer(Struct, frozen=True):
    """The client of a request, with the fields that subscriptions may match."""

    client_id: str
    software_name: str
    software_version: str
    address: str


class ClientMetrics:
    """The metrics of a broker's clients."""

    def __init__(self, state: BrokerState, clock: Clock, random: Random) -> None:
        self._state = state
        self._clock = clock
        self._random = random
        self._clients: dict[Uuid, _Client] = {}
        self._software: dict[int, tuple[str, str]] = {}
        """Connection → name and version of its client's software."""
        self._series = 0
        self._configs: object = None
        self._known: Sequence[Mapping[str, str]] = ()
        """The subscriptions in `_configs`."""

    def set_software(self, connection_id: int, name: str, version: str) -> None:
        """Record the name of a client's software (ApiVersions)."""
        self._software[connection_id] = name, version

    def disconnected(self, connection_id: int) -> None:
        """Remove a closed connection."""
        self._software.pop(connection_id, None)

    def software(self, connection_id: int) -> tuple[str, str]:
        """Return the name and version reported by the connection's client."""
        return self._software.get(connection_id, ("", ""))

    def subscription_of(self, instance: Uuid, peer: Peer) -> tuple[Uuid, Subscription]:
        """Return the subscription of a client, and its instance id: a new one if the request has
        none.

        Raises KafkaError THROTTLING_QUOTA_EXCEEDED for a client that repeats the request too early,
        or if there are too many clients.
        """
        now = self._clock.time()
        known = self._clients.get(instance)
        subscription = self._match(instance, peer)
        if known is None:
            self._drop_silent(now)
            if len(self._clients) >= CLIENTS_MAX:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            if instance == ZERO_UUID:
                instance = self._random.randbytes(16)
                subscription = self._match(instance, peer)
            self._clients[instance] = _Client(peer.client_id, subscription, now)
            return instance, subscription
        if known.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "this client has terminated")
        unchanged = subscription == known.subscription
        if (
            unchanged
            and now - known.subscribed_at < EARLIEST_PUSH * known.subscription.interval_ms / 1000
        ):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        known.subscription, known.subscribed_at, known.client_id = subscription, now, peer.client_id
        return instance, subscription

    def check_push(
        self,
        instance: Uuid,
        subscription_id: int,
        compression: int,
        size: int,
        *,
        ends: bool,
        peer: Peer,
    ) -> None:
        """Check that a client may push now. Raises KafkaError."""
        known = self._clients.get(instance)
        if instance == ZERO_UUID or known is None:
            code = (
                ErrorCode.INVALID_REQUEST
                if instance == ZERO_UUID
                else ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            )
            raise KafkaError(code)
        now = self._clock.time()
        if known.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "this client has terminated")
        early = EARLIEST_PUSH * known.subscription.interval_ms / 1000
        if not ends and known.pushed_at is not None and now - known.pushed_at < early:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if (
            subscription_id != known.subscription.subscription_id
            or known.subscription != self._match(instance, peer)
        ):
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if compression != Codec.NONE and compression not in CODECS:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if size > self.bytes_max:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)
        known.pushed_at, known.terminating = now, ends

    @property
    def bytes_max(self) -> int:
        """The maximum size of a push (`telemetry.max.bytes`)."""
        return self._state.config.telemetry_max_bytes

    def read(self, compression: int, data: bytes) -> list[Pushed]:
        """Decode the values of a push. Takes long, so call it in a thread. Raises
        KafkaError(INVALID_RECORD), even if the push is only too large after decompression, as in
        Apache Kafka."""
        try:
            plain = bytes(decompress(Codec(compression), data, EXPANSION_MAX * self.bytes_max))
            return read_metrics(plain)
        except Malformed as e:
            raise KafkaError(ErrorCode.INVALID_RECORD, str(e)) from e
        except KafkaError as e:
            raise KafkaError(ErrorCode.INVALID_RECORD, e.message) from e

    def store(self, instance: Uuid, pushed: list[Pushed]) -> None:
        """Store the pushed values that are in the client's subscription."""
        client = self._clients.get(instance)
        if client is None:
            return
        values = client.values
        for one in pushed:
            if not one.name.startswith(client.subscription.metrics):
                continue
            key = one.name, one.attributes
            before = values.get(key)
            if before is None:
                if self._series >= SERIES_MAX or len(values) >= CLIENT_SERIES_MAX:
                    continue
                self._series += 1
            value = (
                one.value + before[0] if before and one.is_counter and one.is_delta else one.value
            )
            values[key] = value, one.is_counter

    def samples(self) -> list[Metric]:
        """Return the metrics of clients, by their own names.

        Clients choose names and attributes. If several values have the same name and labels, the
        last one is used; if a name is a counter for one client but not for another, the first
        client's kind is used.
        """
        self._drop_silent(self._clock.time())
        found: dict[str, tuple[bool, str, dict[frozenset[tuple[str, str]], Sample]]] = {}
        for instance, client in list(self._clients.items()):
            labels = {"client_id": client.client_id, "client_instance_id": uuid_text(instance)}
            for (name, attributes), (value, is_counter) in list(client.values.items()):
                family = re.sub(r"[^a-z0-9]+", "_", name.lower()).removesuffix("_total") or "_"
                kind, _, samples = found.setdefault(family, (is_counter, name, {}))
                if kind == is_counter:
                    sample = Sample(value, {_label(k): v for k, v in attributes} | labels)
                    samples[frozenset(sample.labels.items())] = sample
        return [
            Metric(
                f"kafka.client:type={family}",
                "counter" if is_counter else "gauge",
                f"Pushed by clients as {name}.",
                list(samples.values()),
            )
            for family, (is_counter, name, samples) in found.items()
        ]

    def _match(self, instance: Uuid, peer: Peer) -> Subscription:
        fields = {
            "client_instance_id": uuid_text(instance),
            "client_id": peer.client_id[:255],
            "client_software_name": peer.software_name[:255],
            "client_software_version": peer.software_version[:255],
            "client_source_address": peer.address,
        }
        metrics: set[str] = set()
        interval_ms = 0
        for own in self._subscriptions():
            if _matches(own.get("match", ""), fields):
                metrics.update(m.strip() for m in own.get("metrics", "").split(",") if m.strip())
                wanted_ms = int(own.get("interval.ms", DEFAULT_INTERVAL_MS))
                interval_ms = min(interval_ms or wanted_ms, wanted_ms)
        names = ("",) if ALL in metrics else tuple(sorted(metrics))
        interval_ms = interval_ms or DEFAULT_INTERVAL_MS
        text = f"{names}{interval_ms}{uuid_text(instance)}"
        return Subscription(crc32(text.encode()) & 0x7FFFFFFF, names, interval_ms)

    def _subscriptions(self) -> Sequence[Mapping[str, str]]:
        image = self._state.image
        if image.configs is not self._configs:
            self._configs = image.configs
            self._known = [
                own for (kind, _), own in image.configs.items() if kind == CLIENT_METRICS
            ]
        return self._known

    def _drop_silent(self, now: float) -> None:
        for instance, client in list(self._clients.items()):
            quiet_s = now - client.last_seen
            if quiet_s > max(3 * client.subscription.interval_ms / 1000, SILENT_S_MIN):
                self._series -= len(client.values)
                del self._clients[instance]


def _label(name: str) -> str:
    """Return the label for an attribute's name."""
    label = re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")
    return f"_{label}" if label[:1].isdigit() else label or "_"


def _matches(patterns: str, fields: Mapping[str, str]) -> bool:
    """Return whether all `name=expression` pairs match."""
    return all(
        (name := pair.partition("=")[0].strip()) in fields
        and _field_matches(pair.partition("=")[2].strip(), fields[name])
        for pair in patterns.split(",")
        if pair.strip()
    )


def _field_matches(expression: str, field: str) -> bool:
    """Return whether a field matches. Nothing matches an expression that only the program that
    stored it could parse."""
    try:
        return _compiled(expression).matches(field)
    except JavaRegexError:
        return False


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> JavaRegex:
    return JavaRegex(expression)
