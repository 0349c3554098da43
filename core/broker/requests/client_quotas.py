"""The client quotas of one node: the usage of its clients, and how long they must wait (KIP-13,
KIP-124, KIP-219, KIP-599).

The quotas are those of the current image; core/quota decides which one applies to a client. A
request is charged when its response is ready: the bytes of a Produce request, the records of a
Fetch response, the time that any request took. If a rate is above its limit, the response tells the
client how long it must wait (`throttle_time_ms`), and its connection is not read for that time, so
that a client that ignores the response is throttled too.

A rate applies to one node, as in Apache Kafka: a client that produces to three brokers may use
three times as much. `request_percentage` is a share of the broker's one event loop: 100 is all of
it. The work of threads for a request (decompression, reads from the disk) is not counted. Requests
of other brokers are exempt.

While there are no quotas, `is_on` is False, and nothing is looked up or counted.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from pk.core.api_keys import API_KEYS
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.clock import Clock
from pk.core.config import BrokerConfig
from pk.core.meta.image import Changes, MetadataImage
from pk.core.quota.entity import (
    CLIENT_KEYS,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    NO_QUOTAS,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
    Quotas,
    QuotaTable,
)
from pk.core.quota.mutations import Mutations
from pk.core.quota.rates import SampledRate, TokenBucket

RATES_MAX: Final = 10_000
"""The number of rates that are kept. Beyond it, those of idle clients are dropped, then the
oldest."""

PERCENT: Final = 100.0


class Client(Protocol):
    """The client that is charged: the part of a `Context` that is used here."""

    client_id: str | None
    principal: KafkaPrincipal
    own: bool


AMONG_NODES: Final = frozenset(row.key for row in API_KEYS.values() if row.is_among_nodes)
"""APIs that only brokers and controllers use."""
ADD_PARTITIONS_TO_TXN: Final = 24
FETCH: Final = 1
FIRST_BROKER_VERSION: Final = 4
"""The first version of AddPartitionsToTxn that only brokers use."""


class Request(Protocol):
    """The API and client of a request: the part of a `Context` that is used here."""

    api_key: int
    api_version: int


def is_exempt(head: Request, request: Any) -> bool:
    """Return whether another broker sent a request. Such a request must not be throttled for what
    clients do."""
    key = head.api_key
    if key in AMONG_NODES:
        return True
    if key == ADD_PARTITIONS_TO_TXN:
        return head.api_version >= FIRST_BROKER_VERSION
    replica_id = getattr(request, "replica_id", -1)
    if key == FETCH:
        replica_id = max(replica_id, request.replica_state.replica_id)
    return replica_id >= 0


class ClientQuotas:
    """The client quotas of one node."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        self._samples = config.quota_window_num
        self._sample_s = float(config.quota_window_size_seconds)
        self._mutation_samples = config.controller_quota_window_num
        self._mutation_sample_s = float(config.controller_quota_window_size_seconds)
        self._quotas: Quotas = NO_QUOTAS
        self._tables: dict[str, QuotaTable] = {}
        """The quotas by key, for the keys that have any."""
        self._rates: dict[tuple[str, tuple[str, str]], SampledRate] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.is_on = False
        """Whether users or client ids have quotas."""
        self.measures_time = False
        """Whether a quota limits the time of requests."""

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """Use the quotas of a new image."""
        if image.quotas is self._quotas:
            return
        self._quotas = image.quotas
        tables = {key: QuotaTable(image.quotas, key) for key in CLIENT_KEYS}
        self._tables = {key: table for key, table in tables.items() if table}
        self.is_on = bool(self._tables)
        self.measures_time = REQUEST_PERCENTAGE in self._tables
        if not self.is_on:
            self._rates, self._buckets = {}, {}

    def charge_produce(self, client: Client, count: int) -> int:
        """Charge the bytes of a Produce request. Returns how long its client must wait, in ms."""
        return self._charge(PRODUCER_BYTE_RATE, client, count)

    def charge_time(self, client: Client, seconds: float) -> int:
        """Charge the time of a request. Returns how long its client must wait, in ms; at most one
        sample."""
        wait_ms = self._charge(REQUEST_PERCENTAGE, client, seconds * PERCENT)
        return min(wait_ms, round(self._sample_s * 1000)) if wait_ms else 0

    def charge_fetch(self, client: Client, count: int) -> int:
        """Charge the bytes of a Fetch response, unless its client must wait. Returns how long, in
        ms; if it is not 0, nothing is charged and no records may be sent."""
        wait_ms = self._charge(CONSUMER_BYTE_RATE, client, count)
        if wait_ms:
            self._charge(CONSUMER_BYTE_RATE, client, -count)
        return wait_ms

    def charge_sent(self, client: Client, count: int) -> int:
        """Charge bytes that are sent to a consumer in any case. Returns how long it must wait, in
        ms."""
        return self._charge(CONSUMER_BYTE_RATE, client, count)

    def fetch_bytes_max(self, client: Client) -> int | None:
        """Return the most bytes that one fetch can get within the client's quota, or None without a
        quota."""
        limit = self._limit(CONSUMER_BYTE_RATE, client)
        if limit is None:
            return None
        return int(min(limit.value * (self._samples - 1) * self._sample_s, (1 << 31) - 1))

    def mutations(self, client: Client, *, strict: bool) -> Mutations | None:
        """Return the limit of a request's changes to the cluster's topics, or None if there is no
        limit."""
        limit = self._limit(CONTROLLER_MUTATION_RATE, client)
        if limit is None:
            return None
        now_s = self._clock.time()
        bucket = self._buckets.get(limit.group)
        if bucket is None:
            if len(self._buckets) >= RATES_MAX:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[limit.group] = TokenBucket(
                limit.value, self._mutation_samples, self._mutation_sample_s, now_s
            )
        elif bucket.limit != limit.value:
            bucket.set_limit(limit.value, now_s)
        return Mutations(bucket, now_s, strict=strict)

    def _limit(self, key: str, client: Client) -> Limit | None:
        table = self._tables.get(key)
        if table is None or client.own:
            return None
        return table.limit(client.principal.name, client.client_id or "")

    def _charge(self, key: str, client: Client, value: float) -> int:
        limit = self._limit(key, client)
        if limit is None:
            return 0
        now_s = self._clock.time()
        rate = self._rates.get((key, limit.group))
        if rate is None:
            self._evict_rates(now_s)
            rate = SampledRate(limit.value, self._samples, self._sample_s)
            self._rates[key, limit.group] = rate
        rate.limit = limit.value
        rate.record(value, now_s)
        return rate.wait_ms(now_s)

    def _evict_rates(self, now_s: float) -> None:
        if len(self._rates) < RATES_MAX:
            return
        oldest_s = now_s - self._samples * self._sample_s
        self._rates = {key: rate for key, rate in self._rates.items() if rate.last_s > oldest_s}
        if len(self._rates) >= RATES_MAX:
            kept = list(self._rates.items())[RATES_MAX // 2 :]
            self._rates = dict(kept)
