"""The server's view of an API: its versions, its handler, and its error response.

A handler is `handle(context, request)`. It returns the response, or an awaitable of it if it must
wait. A plain function that returns a response runs without a checkpoint, and the next frame is
handled at once. A handler that may take long is an `async def` that lets other tasks run
(core/broker/loop_time.py). An awaitable blocks as follows:

- By default the connection handles no other request until it is done, like Kafka for every
  request, since the handler may still use the connection's buffer. If its result is an awaitable,
  that one is parked.
- With `waits=True` it is parked. The connection handles its next requests in the meantime, and
  responses keep their order. This is for requests that wait long and do not use the connection's
  buffer: Fetch, JoinGroup, SyncGroup, and Produce after its append (`parked`).

While a handler lets other tasks run, the image, leaderships and groups may change: the result for
each element is true at its time, as if it had been in a request of its own. Coordinators make the
atomic decisions (core/broker/coordinator).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.schema import Message

Response = TypeVar("Response", bound=Message)


class NoResponse(Enum):
    """The result of a handler if the client wants no response (Produce with acks=0)."""

    NO_RESPONSE = 0


NO_RESPONSE: Final = NoResponse.NO_RESPONSE


Outcome: TypeAlias = Response | NoResponse
"""The final result of a request."""

Answer: TypeAlias = (
    Response | NoResponse | Awaitable[Outcome[Response] | Awaitable[Outcome[Response]]]
)
"""The return value of a handler."""


async def parked(work: Awaitable[Outcome[Response]]) -> Awaitable[Outcome[Response]]:
    """Park `work`, in an API that does not park every request."""
    return work


class Api(Struct, frozen=True):
    """One API on a listener. Its messages are `Any` here, because there are as many types as APIs;
    the handlers themselves are typed."""

    key: int
    versions: tuple[int, int]
    """The first and last versions that are served."""
    handle: Callable[[Context, Any], Answer[Any]]
    error_response: Callable[[Any, KafkaError, int], Any]
    """(request, error, version) → the error response for the whole request. Raises TypeError if the
    API has none; the connection is then closed."""
    waits: bool = False
    """See `ApiKey.waits`."""
    forwarded: bool = False
    """Whether the controller handles the request if a broker forwards it
    (core/api/controller/forward.py)."""


def error_response(response_class: type[Any], error: KafkaError) -> Any:
    """Return the response of an API with a field for the error. Raises TypeError for other APIs."""
    response = response_class()
    if not hasattr(response, "error_code"):
        raise TypeError(f"{response_class.__name__} has no field for {error}")
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
