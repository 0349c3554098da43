"""The client quotas of one node: what its clients have taken, and how long they must wait (KIP-13,
KIP-124, KIP-219, KIP-599).

The quotas are those of the image in force; core/quota says which one counts for a client. A request
is charged when it is answered: the bytes of a Produce request, the records of a Fetch response, the
time that any request took. Where a rate is above its limit, the answer says how long the client
must wait (`throttle_time_ms`), and its connection is not read for as long. A client that heeds the
answer sends nothing meanwhile; one that does not is held back all the same.

A rate is of one node, as in Apache Kafka: a client that produces to three brokers may take three
times as much.

`request_percentage` is of the broker's one loop: 100 is all of it. What threads do for a request
(decompression, reads from the disk) is not counted. Requests of other brokers are exempt.

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
"""Rates that are kept; beyond them those of idle clients are forgotten, then the oldest."""

PERCENT: Final = 100.0


class Client(Protocol):
    """Who is charged, as a `Context` knows it."""

    client_id: str | None
    principal: KafkaPrincipal
    own: bool


AMONG_NODES: Final = frozenset(row.key for row in API_KEYS.values() if row.is_among_nodes)
"""APIs that only brokers and controllers use among themselves."""
ADD_PARTITIONS_TO_TXN: Final = 24
FETCH: Final = 1
VERSION_OF_BROKERS: Final = 4
"""From here on AddPartitionsToTxn is a broker's."""


class Request(Protocol):
    """What a request came as, as a `Context` knows it."""

    api_key: int
    api_version: int


def is_exempt(head: Request, request: Any) -> bool:
    """Whether a request is no client's: another broker sent it, which must not be held back by what
    its clients do."""
    key = head.api_key
    if key in AMONG_NODES:
        return True
    if key == ADD_PARTITIONS_TO_TXN:
        return head.api_version >= VERSION_OF_BROKERS
    replica_id = getattr(request, "replica_id", -1)
    if key == FETCH:
        replica_id = max(replica_id, request.replica_state.replica_id)
    return replica_id >= 0


class ClientQuotas:
    """Of one node."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        self._samples = config.quota_window_num
        self._sample_s = float(config.quota_window_size_seconds)
        self._mutation_samples = config.controller_quota_window_num
        self._mutation_sample_s = float(config.controller_quota_window_size_seconds)
        self._quotas: Quotas = NO_QUOTAS
        self._tables: dict[str, QuotaTable] = {}
        """By key; only those with a quota."""
        self._rates: dict[tuple[str, tuple[str, str]], SampledRate] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.is_on = False
        """Whether users or client ids have quotas."""
        self.measures_time = False
        """Whether a quota limits the time of requests."""

    def image_changed(self, image: MetadataImage, found: Changes) -> None:
        """An image takes effect."""
        if image.quotas is self._quotas:
            return
        self._quotas = image.quotas
        tables = {key: QuotaTable(image.quotas, key) for key in CLIENT_KEYS}
        self._tables = {key: table for key, table in tables.items() if table}
        self.is_on = bool(self._tables)
        self.measures_time = REQUEST_PERCENTAGE in self._tables
        if not self.is_on:
            self._rates, self._buckets = {}, {}

    def produced(self, client: Client, count: int) -> int:
        """So many bytes came in a Produce request: how long its client must wait, in ms."""
        return self._charge(PRODUCER_BYTE_RATE, client, count)

    def worked(self, client: Client, seconds: float) -> int:
        """A request took so long: how long its client must wait, in ms; a sample at most."""
        wait_ms = self._charge(REQUEST_PERCENTAGE, client, seconds * PERCENT)
        return min(wait_ms, round(self._sample_s * 1000)) if wait_ms else 0

    def fetched(self, client: Client, count: int) -> int:
        """So many bytes would go out in a Fetch response: how long its client must wait, in ms. If
        it must, nothing must be sent, and nothing is charged."""
        wait_ms = self._charge(CONSUMER_BYTE_RATE, client, count)
        if wait_ms:
            self._charge(CONSUMER_BYTE_RATE, client, -count)
        return wait_ms

    def sent(self, client: Client, count: int) -> int:
        """So many bytes go out to a consumer in any case: how long it must wait, in ms."""
        return self._charge(CONSUMER_BYTE_RATE, client, count)

    def fetch_bytes_max(self, client: Client) -> int | None:
        """The most that one fetch can get within the client's quota; None without one."""
        limit = self._limit(CONSUMER_BYTE_RATE, client)
        if limit is None:
            return None
        return int(min(limit.value * (self._samples - 1) * self._sample_s, (1 << 31) - 1))

    def mutations(self, client: Client, *, strict: bool) -> Mutations | None:
        """What a request may change in the cluster's topics; None where nothing limits it."""
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
            self._make_room(now_s)
            rate = SampledRate(limit.value, self._samples, self._sample_s)
            self._rates[key, limit.group] = rate
        rate.limit = limit.value
        rate.record(value, now_s)
        return rate.wait_ms(now_s)

    def _make_room(self, now_s: float) -> None:
        if len(self._rates) < RATES_MAX:
            return
        oldest_s = now_s - self._samples * self._sample_s
        self._rates = {who: rate for who, rate in self._rates.items() if rate.last_s > oldest_s}
        if len(self._rates) >= RATES_MAX:
            kept = list(self._rates.items())[RATES_MAX // 2 :]
            self._rates = dict(kept)
