"""Limits the number of partitions that one request may create or delete (KIP-599). Each partition
takes one token."""

from __future__ import annotations

from pk.core.errors import ErrorCode, KafkaError
from pk.core.quota.rates import TokenBucket


class Mutations:
    """The tokens that one request takes. If `strict`, a topic is refused while the bucket is below
    zero; clients that know the error wait and retry. Otherwise, for older clients, no topic is
    refused, and the response only says how long to wait."""

    def __init__(self, bucket: TokenBucket, now_s: float, *, strict: bool) -> None:
        self._bucket = bucket
        self._now_s = now_s
        self._strict = strict
        self._taken = 0
        self._refused = False

    def begin(self) -> None:
        """Begin a decision. If the decision is repeated, the tokens that it took before are given
        back first."""
        if self._taken:
            self._bucket.take(-self._taken, self._now_s)
        self._taken, self._refused = 0, False

    def take(self, partitions: int) -> None:
        """Take tokens to create or delete partitions. Raises
        KafkaError(THROTTLING_QUOTA_EXCEEDED)."""
        if self._strict and self._bucket.wait_ms(self._now_s):
            self._refused = True
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.take(partitions, self._now_s)
        self._taken += partitions

    def wait_ms(self) -> int:
        """Return how long the client must wait after the decision, in ms."""
        if self._refused or (self._taken and not self._strict):
            return self._bucket.wait_ms(self._now_s)
        return 0
