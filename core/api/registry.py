"""What an API is to the server: its versions, its handler, and how it says that a request failed.

A handler is `handle(context, request)`. It returns the response, or an awaitable of it where it
must wait. A plain function that returns a response runs without a checkpoint, and the next frame is
handled at once. An awaitable is parked:

- `parks=True`: the requests behind it on the connection are handled meanwhile (answers keep their
  order). For what waits long and owns no view of the connection's buffer: Produce after its append,
  Fetch, JoinGroup, SyncGroup, commits.
- otherwise the connection handles nothing more until it is done, as Kafka does with every request.
- `Holding(awaitable)`: so too, for one request of an API that parks: it still uses the buffer. What
  it comes to may be an awaitable again, which is then parked.

What wraps a handler keeps its types. Only where APIs are found by name (late.py) or stand in one
table are they `AnyApi`: what a table holds is of as many types as there are messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.schema import Message

Request = TypeVar("Request", bound=Message | None)
"""None stands for a request that could not be read: ApiVersions answers it all the same."""
Response = TypeVar("Response", bound=Message)


class NoResponse(Enum):
    """What a handler returns when the client wants no answer (Produce with acks=0)."""

    NO_RESPONSE = 0


NO_RESPONSE: Final = NoResponse.NO_RESPONSE


class Holding(Struct, Generic[Response]):
    """Wait for this before anything else of the connection is handled: it still reads the
    connection's buffer."""

    work: Awaitable[Outcome[Response] | Awaitable[Outcome[Response]]]


Outcome: TypeAlias = Response | NoResponse
"""What a request comes to."""

Answer: TypeAlias = Response | NoResponse | Awaitable[Outcome[Response]] | Holding[Response]
"""What a handler returns."""


class Api(Struct, Generic[Request, Response], frozen=True):
    """One API as this broker serves it."""

    key: int
    versions: tuple[int, int]
    """First and last version that is honoured."""
    handle: Callable[[Context, Request], Answer[Response]]
    error_response: Callable[[Request, KafkaError, int], Response] | None = None
    """(request, error, version) → the response that says so. None: the response's own `error_code`
    (and `error_message`, where it has one)."""
    parks: bool = False
    forwarded: bool = False
    """Whether it is the controller's to answer: a broker passes it on
    (core/api/controller/forward.py)."""


AnyApi: TypeAlias = Api[Any, Any]


def error_response(
    api: AnyApi, response_class: type[Any], request: Any, error: KafkaError, version: int
) -> Any:
    """The response by which `api` says that the whole request failed.

    Raises TypeError where the API has no way to say it; the connection is closed then.
    """
    if api.error_response is not None:
        return api.error_response(request, error, version)
    response = response_class()
    if not hasattr(response, "error_code"):
        raise TypeError(f"{response_class.__name__} has no place for {error}")
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
