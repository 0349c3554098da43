"""The open clients of a command or a shell session.

Each client runs in a task of its own, since the code that first uses it may be inside a cancel
scope that ends before the client does. The client library is imported with the first client: `pk
up` has a session and no client.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import trio

from pk.cli.runtime.settings import Settings

if TYPE_CHECKING:
    from pk.net.client.admin import Admin
    from pk.net.client.config import ClientConfig
    from pk.net.client.node import Node

_ADMIN_TIMEOUT_MS = "15000"
_STRAGGLER_MS = "3000"
"""The defaults of `default.api.timeout.ms` and `pk.straggler.timeout.ms` at the command line, since
people are less patient than programs."""


class Session:
    """Open clients by cluster. The session of a command lasts as long as the command, and that of a
    shell as long as the shell."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._opening = trio.Lock()
        self._admins: dict[tuple[str, tuple[tuple[str, str], ...]], Admin] = {}
        self._thorough: weakref.WeakSet[Admin] = weakref.WeakSet()
        self.answered: dict[str, str] = {}
        """Address → the id of the cluster there, for profiles that expect one."""

        self.reported: set[str] = set()
        """Messages that were shown and need not be repeated, such as those about throttles left in
        the cluster."""

    async def admin(self, settings: Settings, about: type[ClientConfig] | None = None) -> Admin:
        """The admin client for a cluster. `about` is the kind of client that the command's -X keys
        are for (None: this one).

        Raises ConfigError.
        """
        from pk.cli.runtime.client_config import client_config
        from pk.net.client.config import AdminConfig

        defaults = {
            "default.api.timeout.ms": _ADMIN_TIMEOUT_MS,
            "pk.straggler.timeout.ms": _STRAGGLER_MS,
        }
        config = client_config(AdminConfig, settings, defaults, about=about)
        key = (settings.bootstrap, tuple(sorted((k, str(v)) for k, v in config.items())))
        async with self._opening:
            found = self._admins.get(key)
            if found is None:
                remember_brokers(settings)
                found = await self._nursery.start(_hold, settings.bootstrap, config)
                self._admins[key] = found
        return found

    def thorough(self, admin: Admin) -> Admin:
        """The same client, for callers that need every answer and would rather wait until another
        broker can give it."""
        from pk.net.client.admin import Admin

        found = Admin(admin.cluster, admin.config)
        found.controller_down = admin.controller_down
        found.thorough = True
        self._thorough.add(found)
        return found

    def opened(self, settings: Settings) -> Admin | None:
        """The admin client for a cluster if it is already open; None if it is not."""
        for (bootstrap, _), admin in self._admins.items():
            if bootstrap == settings.bootstrap:
                return admin
        return None

    @property
    def awaits_controller(self) -> bool:
        """Whether a client waits for an answer that only the controller can give."""
        return any(a.awaiting_controller for a in (*self._admins.values(), *self._thorough))

    def silent(self, for_s: float) -> list[Node]:
        """The brokers that have not answered a request of any client for this many seconds, each
        once."""
        silent = (node for admin in self._admins.values() for node in admin.cluster.silent(for_s))
        found: dict[str, Node] = {}
        for node in silent:
            if node.node_id >= 0 or node.address not in found:
                found[node.address] = node
        return list(found.values())

    @contextmanager
    def beside(self, task: Callable[..., Awaitable[None]], *args: Any) -> Generator[None]:
        """Run `task` during the block."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await task(*args)

        self._nursery.start_soon(run)
        try:
            yield
        finally:
            scope.cancel()


def remember_brokers(settings: Settings) -> None:
    """Let the clients that the calling task opens from now on try brokers of earlier runs."""
    from pk.cli.runtime.known_brokers import KnownBrokers
    from pk.net.client.broker_store import BROKER_STORE

    BROKER_STORE.set(KnownBrokers(settings.profile.name if settings.profile else None))


async def _hold(
    bootstrap: str,
    config: dict[str, object],
    *,
    task_status: trio.TaskStatus[Admin] = trio.TASK_STATUS_IGNORED,
) -> None:
    from pk.cli.runtime.cluster_files import silent_controller
    from pk.net.client.admin import open_admin
    from pk.net.client.errors import ControllerDown

    def down() -> ControllerDown | None:
        known = [*admin.cluster.metadata.brokers.values(), *admin.cluster.bootstrap]
        found = silent_controller(node.address for node in known)
        return None if found is None else ControllerDown(*found)

    async with open_admin(bootstrap, config) as admin:
        admin.controller_down = down
        task_status.started(admin)
        await trio.sleep_forever()


@asynccontextmanager
async def open_session() -> AsyncGenerator[Session]:
    """A session; its clients are closed when the block ends."""
    async with trio.open_nursery() as nursery:
        yield Session(nursery)
        nursery.cancel_scope.cancel()
