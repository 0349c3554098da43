"""The clients that a command or a shell session has open."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from pk.cli.client_config import client_config
from pk.cli.settings import Settings
from pk.net.client.admin import Admin, open_admin
from pk.net.client.config import AdminConfig, ClientConfig

_ADMIN_TIMEOUT_MS = "15000"
"""People wait less long than programs: the default of `default.api.timeout.ms` at the command line."""


class Session:
    """Open clients by cluster. A command's session lasts as long as the command, a shell's as long as the shell."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._admins: dict[tuple[str, tuple[tuple[str, str], ...]], Admin] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, traceback)

    async def admin(self, settings: Settings, about: type[ClientConfig] = AdminConfig) -> Admin:
        """The admin client for a cluster. `about` is the kind of client that the command's -X keys are for.

        Raises ConfigError.
        """
        config = client_config(
            AdminConfig, settings, {"default.api.timeout.ms": _ADMIN_TIMEOUT_MS}, about=about
        )
        key = (settings.bootstrap, tuple(sorted((k, str(v)) for k, v in config.items())))
        found = self._admins.get(key)
        if found is None:
            found = await self._stack.enter_async_context(open_admin(settings.bootstrap, config))
            self._admins[key] = found
        return found
