"""Limits the partitions that one request may create or delete (KIP-599); each takes one token."""

from __future__ import annotations

from pk.core.errors import ErrorCode, KafkaError
from pk.core.quota.rates import TokenBucket


class Mutations:
    """The tokens of one request. A strict one refuses a topic while the bucket is below zero;
    clients that know the error wait and retry. A permissive one, for older clients, refuses
    nothing, and only says how long to wait.
    """

    def __init__(self, bucket: TokenBucket, now_s: float, *, strict: bool) -> None:
        self._bucket = bucket
        self._now_s = now_s
        self._strict = strict
        self._taken = 0
        self._refused = False

    def begin(self) -> None:
        """Start a decision. A repeated decision first gives back the tokens it took before."""
        if self._taken:
            self._bucket.take(-self._taken, self._now_s)
        self._taken, self._refused = 0, False

    def take(self, partitions: int) -> None:
        """Take tokens for creating or deleting partitions. Raises
        KafkaError(THROTTLING_QUOTA_EXCEEDED)."""
        if self._strict and self._bucket.wait_ms(self._now_s):
            self._refused = True
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.take(partitions, self._now_s)
        self._taken += partitions

    def wait_ms(self) -> int:
        """How long the client must wait after the decision, in ms."""
        if self._refused or (self._taken and not self._strict):
            return self._bucket.wait_ms(self._now_s)
        return 0
