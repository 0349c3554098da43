"""What an API is to the server: its versions, its handler, and how it says that a request failed.

A handler is `handle(context, request)`. It returns the response, or an awaitable of it if it must
wait. A plain function that returns a response runs without a checkpoint, and the next frame is
handled at once. A handler that may be long is an `async def` that lets others run
(core/broker/loop_time.py). What an awaitable keeps waiting depends:

- By default the connection handles nothing more until it is done, as Kafka does with every
  request: it may still use the connection's buffer. If it comes to an awaitable, that is parked.
- `parks=True`: it is parked. The requests behind it on the connection are handled meanwhile, and
  answers keep their order. For what waits long and does not use the connection's buffer: Fetch,
  JoinGroup, SyncGroup, and Produce after its append (`parked`).

While a handler lets others run, the image, leaderships and groups may change: what is said of an
element is true when it is said, as if each had come in a request of its own. What must be decided
as one is the coordinator's (core/broker/coordinator).
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
    """What a handler returns when the client wants no answer (Produce with acks=0)."""

    NO_RESPONSE = 0


NO_RESPONSE: Final = NoResponse.NO_RESPONSE


Outcome: TypeAlias = Response | NoResponse
"""What a request comes to."""

Answer: TypeAlias = (
    Response | NoResponse | Awaitable[Outcome[Response] | Awaitable[Outcome[Response]]]
)
"""What a handler returns."""


async def parked(work: Awaitable[Outcome[Response]]) -> Awaitable[Outcome[Response]]:
    """For one request of an API that does not park: `work` is."""
    return work


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
