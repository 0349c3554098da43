"""The size and header before every message on a connection.

A frame is an int32 size and that many bytes. A request's header is api key, version, correlation id
and client id, and tagged fields from the API's first flexible version on, of which Kafka has none
yet. A response's header is the correlation id, and tagged fields if the version is flexible.
ApiVersions' responses never have them, because its client does not yet know which versions the
broker supports.
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from pk.core.errors import ProtocolError
from pk.core.wire.codec import Buffer, Rest, encode_in_steps, encode_onto, join, part_bytes
from pk.core.wire.emit import uvarint_tail
from pk.core.wire.encoder import NO_BOUND
from pk.core.wire.index import MESSAGES
from pk.core.wire.schema import Message
from pk.core.wire.types import EncodeError, Part

_REQUEST: Final = Struct(">hhih")
_SIZED_REQUEST: Final = Struct(">ihhih")
_PREFIX: Final = Struct(">ii")
_INT32: Final = Struct(">i")
_API_VERSIONS: Final = 18


class RequestHead(NamedTuple):
    """A request's header, and the position of its body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(buffer: Buffer, position: int = 0) -> RequestHead:
    """Parse the header at `position`, which is after the size. Raises ProtocolError.

    Any key and version is accepted; the caller checks whether they are supported. For an unknown
    key, `body_position` is the end of the client id.
    """
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(buffer, position)
        position += 10
        if length < 0:
            client_id = None
        else:
            end = position + length
            if end > len(buffer):
                raise ProtocolError("request header: client id ends beyond the frame")
            client_id = str(buffer[position:end], "utf-8")
            position = end
        api = MESSAGES.get(key)
        if api is not None and api.flexible is not None and version >= api.flexible:
            position = _skip_tags(buffer, position)
    except (StructError, IndexError) as e:
        raise ProtocolError("request header: ends too soon") from e
    except UnicodeDecodeError as e:
        raise ProtocolError("request header: the client id is not UTF-8") from e
    return RequestHead(key, version, correlation_id, client_id, position)


def parse_response_header(buffer: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """Parse the header of a response, in a frame without its size. Returns the correlation id and
    the start of the body.

    Raises ProtocolError.
    """
    try:
        (correlation_id,) = _INT32.unpack_from(buffer, 0)
        if api_key != _API_VERSIONS and MESSAGES[api_key].is_flexible(api_version):
            return correlation_id, _skip_tags(buffer, 4)
    except (StructError, IndexError) as e:
        raise ProtocolError("response header: ends too soon") from e
    return correlation_id, 4


def frame_request(
    message: Message, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Encode `message` as a whole frame, including its size. Raises EncodeError."""
    return join(frame_request_parts(message, api_version, correlation_id, client_id))


async def frame_request_in_steps(
    message: Message, api_version: int, correlation_id: int, client_id: str | None, rest: Rest
) -> bytes:
    """Like `frame_request`, but awaits `rest` between steps."""
    out = _request_start(type(message), api_version, correlation_id, client_id)
    parts = await encode_in_steps(message, api_version, out, rest)
    _INT32.pack_into(out, 0, parts_bytes(parts) - 4)
    return join(parts)


def frame_request_parts(
    message: Message, api_version: int, correlation_id: int, client_id: str | None
) -> list[Part]:
    """Like `frame_request`, but returns pieces: records are not copied. Raises EncodeError."""
    out = _request_start(type(message), api_version, correlation_id, client_id)
    parts = encode_onto(message, api_version, out)
    _INT32.pack_into(out, 0, parts_bytes(parts) - 4)
    return parts


def _request_start(
    cls: type[Message], api_version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    """Encode the header of a request, without its size. Raises EncodeError."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    try:
        out = bytearray(_SIZED_REQUEST.pack(0, cls.API_KEY, api_version, correlation_id, length))
    except StructError as e:
        raise EncodeError(f"request header: {e}") from e
    out += name
    if cls.FLEXIBLE_SINCE is not None and api_version >= cls.FLEXIBLE_SINCE:
        out.append(0)
    return out


def frame_response(
    message: Message,
    api_key: int,
    api_version: int,
    correlation_id: int,
    elements_max: int = NO_BOUND,
) -> list[Part]:
    """Encode `message` as a whole frame in pieces, including its size; records and slices are
    separate pieces.

    Raises EncodeError, TooManyElements.
    """
    out = _response_start(api_key, api_version)
    parts = encode_onto(message, api_version, out, elements_max)
    _PREFIX.pack_into(out, 0, parts_bytes(parts) - 4, correlation_id)
    return parts


async def frame_response_in_steps(
    message: Message, api_key: int, api_version: int, correlation_id: int, rest: Rest
) -> list[Part]:
    """Like `frame_response`, but awaits `rest` between steps."""
    out = _response_start(api_key, api_version)
    parts = await encode_in_steps(message, api_version, out, rest)
    _PREFIX.pack_into(out, 0, parts_bytes(parts) - 4, correlation_id)
    return parts


def _response_start(api_key: int, api_version: int) -> bytearray:
    """Return the header of a response, without its size and correlation id."""
    out = bytearray(8)
    if api_key != _API_VERSIONS and MESSAGES[api_key].is_flexible(api_version):
        out.append(0)
    return out


def parts_bytes(parts: list[Part]) -> int:
    """Return the total size of the pieces in bytes."""
    if len(parts) == 1:
        return part_bytes(parts[0])
    return sum([part_bytes(part) for part in parts])


def _skip_tags(buffer: Buffer, position: int) -> int:
    """Return the position after the tagged fields at `position`."""
    count = buffer[position]
    position += 1
    if not count:
        return position
    if count > 127:
        count, position = uvarint_tail(buffer, position, count)
    for _ in range(count):
        for _ in ("tag", "size"):
            size = buffer[position]
            position += 1
            if size > 127:
                size, position = uvarint_tail(buffer, position, size)
        position += size
        if position > len(buffer):
            raise ProtocolError("header: a tagged field ends beyond the frame")
    return position
