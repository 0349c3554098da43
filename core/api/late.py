"""APIs whose handlers are imported with the first request for them.

Together the handlers and the machines behind them take a quarter of the time in which a broker
starts, and the first record needs few of them. What the server must know before (versions, whether
a request parks, whether it is forwarded) stands in the table of index.py. `import_all` imports the
rest soon after the start, so that a broker does not depend on files that may be replaced while it
runs.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from pk.core.api.registry import AnyApi, Api, error_response
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.index import MESSAGES

_OTHERS: Final = ("pk.core.broker.coordinator.group_machine",)
"""What is imported late elsewhere, for the same reason."""


class Late(NamedTuple):
    """An API that is imported late: where it is, and how the server sees it."""

    module: str
    name: str
    api: AnyApi


LATE: Final[list[Late]] = []
"""All of them."""


def late(
    where: str,
    key: int,
    first: int,
    last: int,
    *,
    parks: bool = False,
    forwarded: bool = False,
) -> AnyApi:
    """The API at `where` in core/api (`join_group.API`) as the server sees it; what is given of it
    must be as it says itself."""
    file, _, name = where.rpartition(".")
    module = f"{__package__}.{file}"

    @cache
    def load() -> AnyApi:
        return getattr(import_module(module), name)

    def handle(context: Context, request: Any) -> Any:
        return load().handle(context, request)

    def failure(request: Any, error: KafkaError, version: int) -> Any:
        return error_response(load(), MESSAGES[key].response, request, error, version)

    api = Api(key, (first, last), handle, failure, parks, forwarded)
    LATE.append(Late(module, name, api))
    return api


def late_modules() -> list[str]:
    """The modules that are imported late."""
    return list(dict.fromkeys([*(each.module for each in LATE), *_OTHERS]))


def import_all() -> None:
    """Import all of them."""
    for module in late_modules():
        import_module(module)


def import_apis(keys: Collection[int]) -> None:
    """Import those of these API keys, and what is imported late elsewhere."""
    for module in [*(each.module for each in LATE if each.api.key in keys), *_OTHERS]:
        import_module(module)
