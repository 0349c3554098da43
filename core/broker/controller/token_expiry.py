"""Removes expired delegation tokens on the active controller, every
`delegation.token.expiry.check.interval.ms`."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from pk.core.broker.controller.active_controller import ActiveController
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.meta.delegation_tokens import remove_expired

logger = logging.getLogger("pk.controller")


class TokenExpiry:
    """Removes expired tokens. One per controller; `run` is one of its duties."""

    def __init__(
        self, controller: ActiveController, state: BrokerState, now_ms: Callable[[], int]
    ) -> None:
        """`now_ms` returns the wall-clock time."""
        self._controller = controller
        self._state = state
        self._now_ms = now_ms

    async def run(self) -> None:
        """Remove expired tokens until cancelled."""
        while True:
            interval_ms = self._state.config.delegation_token_expiry_check_interval_ms
            await trio.sleep(interval_ms / 1000)
            now_ms = self._now_ms()
            if not any(
                token.is_expired(now_ms) for token in self._controller.image.tokens.values()
            ):
                continue
            try:
                count = await self._controller.submit(
                    lambda image, now_ms=now_ms: remove_expired(image, now_ms)
                )
            except KafkaError as e:
                logger.info("expired delegation tokens were not removed: %s", e)
                continue
            logger.info("%d expired delegation tokens were removed", count)
