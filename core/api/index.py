"""All APIs of brokers and controllers, in key order: the table of core/api_keys.py with the
handlers.

A handler's module is imported at its first request. Importing all handlers, and the state machines
that they use, would take a quarter of a broker's start time, and the first requests need few of
them. `import_all` imports the others soon after the start, so that a broker does not depend on
files that may be replaced while it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from importlib import import_module
from inspect import isawaitable
from typing import Any, Final

from pk.core.api.authorization import check_needs
from pk.core.api.registry import Api, error_response
from pk.core.api_keys import API_KEYS, BROKER, CONTROLLER, DIVIDED, FORWARDED, ApiKey
from pk.core.broker.controller.controller_client import RETRIABLE, Forwarded
from pk.core.broker.requests.context import Context
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.needs import Refusal
from pk.core.wire.index import MESSAGES

logger = logging.getLogger("pk.controller")

_FORWARD: Final = f"{__package__}.controller.forward"
_OTHERS: Final = ("pk.core.broker.coordinator.group_machine",)
"""Modules imported lazily elsewhere, for the same reason."""


def at_broker(key: ApiKey) -> Api:
    """Return the API on brokers' listeners."""
    # The controller checks the permissions for the requests that it handles.
    passed_on = key.served == FORWARDED
    return Api(
        key.key,
        key.served_versions,
        _handler(_FORWARD, ["forward_to_controller"])
        if passed_on
        else _handler(_module(key), ["handle"], key),
        _failure(key, _module(key)),
        key.waits,
        passed_on or key.served == DIVIDED,
    )


def at_controller(key: ApiKey) -> Api:
    """Return the API on controllers' listeners."""
    module = _controller_module(key)
    return Api(
        key.key,
        key.served_versions if key.controller_module is None else key.versions,
        _handler(module, ["handle_at_controller", "handle"], key),
        _failure(key, module),
        key.waits,
        key.served in (FORWARDED, DIVIDED),
    )


def _module(key: ApiKey) -> str:
    return f"{__package__}.{key.folder}.{key.module}"


def _controller_module(key: ApiKey) -> str:
    other = key.controller_module
    return _module(key) if other is None else f"{__package__}.controller.{other}"


def _handler(
    module: str, functions: Collection[str], checked: ApiKey | None = None
) -> Callable[[Context, Any], Any]:
    """Return the first of these functions that the module has. With `checked`, the client's
    permissions for the whole request are checked before the call."""
    needs = [need for need in checked.needs if need.refusal is Refusal.REQUEST] if checked else []
    found: Callable[[Context, Any], Any] | None = None

    def find() -> Callable[[Context, Any], Any]:
        nonlocal found
        imported = import_module(module)
        handler = next(getattr(imported, name) for name in functions if hasattr(imported, name))
        found = handler
        return handler

    def handle(context: Context, request: Any) -> Any:
        return (found or find())(context, request)

    def check_and_handle(context: Context, request: Any) -> Any:
        check_needs(context, request, needs)
        return (found or find())(context, request)

    return check_and_handle if needs else handle


def _failure(key: ApiKey, module: str) -> Callable[[Any, KafkaError, int], Any]:
    def respond(request: Any, error: KafkaError, version: int) -> Any:
        own = getattr(import_module(module), "error_response", None)
        if own is not None:
            return own(request, error, version)
        return error_response(MESSAGES[key.key].response, error)

    return respond


_AT_BROKERS: Final = tuple(at_broker(key) for key in API_KEYS.values() if key.served != CONTROLLER)

APIS: Final = tuple(api for api in _AT_BROKERS if API_KEYS[api.key].only_with is None)
"""The APIs that every broker serves, to clients and other brokers."""

CONTROLLER_APIS: Final = tuple(
    at_controller(key) for key in API_KEYS.values() if key.served != BROKER
)
"""The APIs on controllers' listeners, for brokers and for operators that connect to a controller
directly."""

AT_CONTROLLER: Final = {api.key: api for api in CONTROLLER_APIS}


def apis_of(config: BrokerConfig) -> tuple[Api, ...]:
    """Return the APIs of a broker with this config."""
    return tuple(
        api
        for api in _AT_BROKERS
        if (only_with := API_KEYS[api.key].only_with) is None
        or getattr(config, only_with.replace(".", "_"))
    )


async def dispatch(context: Context, request: Any) -> Forwarded:
    """Return the response of this process's controller, as from its listener but without a socket.
    Raises KafkaError if the caller must repeat the request: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
    api = AT_CONTROLLER[request.API_KEY]
    try:
        response = await answer(api, context, request)
    except KafkaError:
        raise
    except Exception as e:
        # An internal error must not end the calling task, whose next request may succeed.
        logger.exception("api %d of this node's controller failed", api.key)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, type(e).__name__)
        response = api.error_response(request, error, context.api_version)
    return Forwarded(response, context.image_offset)


async def answer(api: Api, context: Context, request: Any) -> Any:
    """Return the handler's response, or its error response. Raises KafkaError (NOT_CONTROLLER or
    REQUEST_TIMED_OUT), since not every API version has a field in which the forwarding broker could
    find these errors."""
    try:
        response: Any = api.handle(context, request)
        return await response if isawaitable(response) else response
    except KafkaError as e:
        if e.code in RETRIABLE:
            raise
        return api.error_response(request, e, context.api_version)


def handler_modules(keys: Collection[int] = API_KEYS) -> list[str]:
    """Return the modules imported at the first request of these APIs."""
    rows = [API_KEYS[key] for key in keys]
    modules = [m for row in rows for m in (_module(row), _controller_module(row))]
    return list(dict.fromkeys([*modules, _FORWARD, *_OTHERS]))


def import_all() -> None:
    """Import the modules of all APIs."""
    import_apis(API_KEYS)


def import_apis(keys: Collection[int]) -> None:
    """Import the handlers of these API keys, and the modules imported lazily elsewhere."""
    for module in handler_modules(keys):
        import_module(module)
