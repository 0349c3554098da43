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
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.schema import Message

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


class Api(Struct, frozen=True):
    """One API as a listener serves it. Its messages are of as many types as there are APIs, so they
    are `Any` here; the handlers themselves are typed."""

    key: int
    versions: tuple[int, int]
    """First and last version that is honored."""
    handle: Callable[[Context, Any], Answer[Any]]
    error_response: Callable[[Any, KafkaError, int], Any]
    """(request, error, version) → the response that says that the whole request failed. Raises
    TypeError if the API has no way to say it; the connection is closed then."""
    parks: bool = False
    forwarded: bool = False
    """Whether the controller answers it when a broker passes it on
    (core/api/controller/forward.py)."""


def error_response(response_class: type[Any], error: KafkaError) -> Any:
    """The response of an API that has a field for the error. Raises TypeError for another."""
    response = response_class()
    if not hasattr(response, "error_code"):
        raise TypeError(f"{response_class.__name__} has no place for {error}")
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
