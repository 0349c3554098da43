"""An etcd lease: etcd deletes its keys soon after its holder stops renewing it, so a dead
controller loses its leadership.

etcd measures the lease's time from when it receives a request, this process from when it sends the
request. So the lease expires in this process before it can expire in etcd, unless this process was
paused; etcd then refuses its writes (see etcd.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio

from pk.core.meta.store import StoreFailed
from pk.net.etcd_client import EtcdClient

logger = logging.getLogger("pk.controller")

RENEWALS: Final = 3
"""How often a lease is renewed during its time to live."""


class EtcdLease:
    """A lease that is kept alive until it is lost or revoked. Its task runs in the nursery."""

    def __init__(self, client: EtcdClient, lease_id: str, ttl_s: float, until: float) -> None:
        self.id = lease_id
        self.on_lost: list[Callable[[], None]] = []
        """Called on the loop when the lease may have ended."""
        self._client = client
        self._ttl_s = ttl_s
        self._until = until
        self._scope = trio.CancelScope()

    @classmethod
    async def grant(
        cls, client: EtcdClient, ttl_ms: int, nursery: trio.Nursery, *, within_s: float
    ) -> EtcdLease:
        """Request a new lease. etcd counts in seconds and has a minimum. Raises StoreFailed."""
        sent = trio.current_time()
        body = {"TTL": str(max(1, -(-ttl_ms // 1000)))}
        answer = await client.call("/v3/lease/grant", body, within_s=within_s)
        ttl_s = int(answer.body["TTL"])
        lease = cls(client, answer.body["ID"], ttl_s, sent + ttl_s)
        nursery.start_soon(lease._keep)
        return lease

    @property
    def is_valid(self) -> bool:
        """Whether the lease cannot have expired yet."""
        return trio.current_time() < self._until

    def expire(self) -> None:
        """Treat the lease as expired in this process."""
        if self._until > 0:
            self._until = 0
            self._scope.cancel()
            for call in list(self.on_lost):
                call()

    async def revoke(self, *, within_s: float) -> None:
        """Revoke the lease: etcd deletes its keys at once. If etcd is unreachable, the lease
        expires later."""
        self._until = 0
        self._scope.cancel()
        try:
            await self._client.call("/v3/lease/revoke", {"ID": self.id}, within_s=within_s)
        except StoreFailed as e:
            logger.debug("lease %s could not be revoked: %s", self.id, e)

    async def _keep(self) -> None:
        with self._scope:
            while self.is_valid:
                await trio.sleep(self._ttl_s / RENEWALS)
                sent = trio.current_time()
                try:
                    answer = await self._client.call(
                        "/v3/lease/keepalive", {"ID": self.id}, within_s=self._until - sent
                    )
                except StoreFailed as e:
                    logger.info("lease %s could not be renewed: %s", self.id, e)
                    break
                left_s = int(answer.body.get("TTL", 0))
                if left_s <= 0:
                    break  # it had already expired
                self._until = sent + left_s
            self.expire()
