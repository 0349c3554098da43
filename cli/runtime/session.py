"""The clients that a command or a shell session has open.

Each client lives in a task of its own: whoever asks for it first may be deep inside cancel scopes that end before it does.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import trio

from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.settings import Settings
from pk.net.client.admin import Admin, open_admin
from pk.net.client.config import AdminConfig, ClientConfig
from pk.net.client.results import Node

_ADMIN_TIMEOUT_MS = "15000"
_STRAGGLER_MS = "3000"
"""People wait less long than programs: the defaults of `default.api.timeout.ms` and `pk.straggler.timeout.ms` at the
command line."""


class Session:
    """Open clients by cluster. A command's session lasts as long as the command, a shell's as long as the shell."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._opening = trio.Lock()
        self._admins: dict[tuple[str, tuple[tuple[str, str], ...]], Admin] = {}
        self.answered: dict[str, str] = {}
        """The cluster that was found to answer at each address, where a profile wants to know."""

        self.told: set[str] = set()
        """What was said once and need not be said again, such as what is left behind in the cluster."""

    async def admin(self, settings: Settings, about: type[ClientConfig] = AdminConfig) -> Admin:
        """The admin client for a cluster. `about` is the kind of client that the command's -X keys are for.

        Raises ConfigError.
        """
        defaults = {
            "default.api.timeout.ms": _ADMIN_TIMEOUT_MS,
            "pk.straggler.timeout.ms": _STRAGGLER_MS,
        }
        config = client_config(AdminConfig, settings, defaults, about=about)
        key = (settings.bootstrap, tuple(sorted((k, str(v)) for k, v in config.items())))
        async with self._opening:
            found = self._admins.get(key)
            if found is None:
                found = await self._nursery.start(_hold, settings.bootstrap, config)
                self._admins[key] = found
        return found

    def thorough(self, admin: Admin) -> Admin:
        """The same client for who needs every answer, and rather waits until another broker can give it."""
        found = Admin(admin.cluster, admin.config)
        found.thorough = True
        return found

    def opened(self, settings: Settings) -> Admin | None:
        """An admin client for a cluster that is open already; None where nobody needed one."""
        for (bootstrap, _), admin in self._admins.items():
            if bootstrap == settings.bootstrap:
                return admin
        return None

    def silent(self, for_s: float) -> list[Node]:
        """Brokers that were asked and have not answered for so many seconds, each once, by whatever client."""
        silent = (node for admin in self._admins.values() for node in admin.cluster.silent(for_s))
        found: dict[str, Node] = {}
        for node in silent:
            if node.node_id >= 0 or node.address not in found:
                found[node.address] = node
        return list(found.values())

    @contextmanager
    def beside(self, task: Callable[..., Awaitable[None]], *args: Any) -> Generator[None]:
        """Runs `task` beside the block, and ends it with the block."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await task(*args)

        self._nursery.start_soon(run)
        try:
            yield
        finally:
            scope.cancel()


async def _hold(
    bootstrap: str,
    config: dict[str, object],
    *,
    task_status: trio.TaskStatus[Admin] = trio.TASK_STATUS_IGNORED,
) -> None:
    async with open_admin(bootstrap, config) as admin:
        task_status.started(admin)
        await trio.sleep_forever()


@asynccontextmanager
async def open_session() -> AsyncGenerator[Session]:
    """A session; its clients are closed when the block ends."""
    async with trio.open_nursery() as nursery:
        yield Session(nursery)
        nursery.cancel_scope.cancel()
