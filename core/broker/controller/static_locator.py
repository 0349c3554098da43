"""Finds the controller from the config: `controller.quorum.voters` or `.bootstrap.servers`."""

from __future__ import annotations

from pk.core.config import BrokerConfig
from pk.core.meta.events import Endpoint
from pk.core.values import NO_NODE


class StaticLocator:
    """A `Locator` that never changes: the embedded store has one controller, at one address."""

    def __init__(self, config: BrokerConfig) -> None:
        name = (config.controller_listener_names or ("CONTROLLER",))[0]
        self._found: tuple[int, Endpoint] | None = None
        for host, port in config.controller_quorum_bootstrap_servers[:1]:
            self._found = NO_NODE, Endpoint(name, host, port, 0)
        for voter in config.controller_quorum_voters[:1]:
            self._found = voter.node_id, Endpoint(name, voter.host, voter.port, 0)

    async def find(self) -> tuple[int, Endpoint] | None:
        """See `Locator`; None if the config has none, because the controller is in this process."""
        return self._found
