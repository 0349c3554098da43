"""Requests to etcd by its JSON gateway (`/v3/…`, since etcd 3.4): POST, and keys and values in
base64.

Every etcd has the gateway, and pk has a client for HTTP on trio already; gRPC, etcd's own protocol,
has none.

A request goes to one server. If that server refuses connections, breaks off, does not answer for a
while, or has no leader, the next one is asked, and so on until the time is over; the server that
answered last is asked first the next time. So a server that dies or hangs delays a request by
`try_s` at most. The request may then have taken effect twice, or once although the second answer
refuses it: `doubt` says so. Every request of the store means the same however often it is sent.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import trio
from msgspec import Struct

from pk.core.meta.store import StoreFailed
from pk.net.http.address import Address
from pk.net.http.client import HttpClient
from pk.net.http.messages import HttpError, Request, Response
from pk.net.tls.contexts import TlsError

PORT: Final = 2379

PAUSE_S_MIN: Final = 0.05
PAUSE_S_MAX: Final = 0.5
"""After all servers were asked in vain, doubling."""

IDLE_MAX: Final = 8
"""How many connections to a server are kept."""

INVALID_ARGUMENT: Final = 3
NOT_FOUND: Final = 5
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
OUT_OF_RANGE: Final = 11
UNAUTHENTICATED: Final = 16
"""Codes of gRPC, by which etcd says why it refuses a request."""

_FINAL: Final = frozenset(
    {INVALID_ARGUMENT, NOT_FOUND, 6, 7, FAILED_PRECONDITION, OUT_OF_RANGE, 12}
)
"""Refusals that another server would repeat, of requests that did not happen. After the other codes
(14 is a server without a leader, 4 a cluster that does not answer in time) the request may have
happened, and is sent again."""


class EtcdUnreachable(StoreFailed):
    """No server answered in time."""

    def __init__(self, message: str, *, doubt: bool) -> None:
        super().__init__(message)
        self.doubt = doubt
        """Whether what was asked may have happened."""


class EtcdRefused(StoreFailed):
    """A server refused the request: this time it did not happen."""

    def __init__(self, code: int, message: str, *, doubt: bool) -> None:
        super().__init__(f"etcd: {message.removeprefix('etcdserver: ')}")
        self.code = code
        self.doubt = doubt
        """Whether an earlier try may have happened."""

    @property
    def is_full(self) -> bool:
        """Whether the quota of the database is used up."""
        return self.code == RESOURCE_EXHAUSTED


class Answer(Struct, frozen=True):
    """What a server said."""

    body: dict[str, Any]
    doubt: bool
    """Whether a try before this one may have happened too."""

    @property
    def revision(self) -> int:
        """Of the whole database, when the request was answered."""
        return int(self.body["header"]["revision"])


def encoded(text: str | bytes) -> str:
    """A key or a value, as a request holds it."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def decoded(text: str) -> bytes:
    """A key or a value of an answer."""
    return base64.b64decode(text)


class EtcdClient:
    """A client of the servers of one cluster. Used from one trio run; `close` ends it."""

    def __init__(
        self,
        hosts: str,
        *,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
        user: str | None = None,
        password: str | None = None,
        try_s: float = 1.0,
    ) -> None:
        """`hosts` is `h:p,h:p`. `tls` gives the context of the next connection; without it they are
        plain. `try_s`: how long one server is waited for; the servers that are asked again are
        given twice the time, and so on."""
        scheme = "http" if tls is None else "https"
        self._servers = [_address(scheme, host) for host in hosts.split(",")]
        self.hosts = hosts
        self.try_s = try_s
        self._tls = tls
        self._login = (user, password or "") if user else None
        self._token: str | None = None
        self._idle: dict[Address, list[HttpClient]] = {}

    async def call(
        self, path: str, body: dict[str, Any], *, within_s: float, try_s: float | None = None
    ) -> Answer:
        """The answer to a request. Raises EtcdRefused; EtcdUnreachable after `within_s`."""
        data = json.dumps(body).encode()
        try_s, pause_s = try_s or self.try_s, PAUSE_S_MIN
        doubt, why = False, "there was no time"
        with trio.move_on_after(max(0.0, within_s)):
            while True:
                for _ in range(len(self._servers)):
                    before, doubt = doubt, True
                    try:
                        return Answer(await self._try(path, data, try_s), before)
                    except _Again as e:
                        doubt, why = before or e.doubt, str(e)
                    except EtcdRefused as e:
                        e.doubt = before
                        raise
                await trio.sleep(pause_s)
                pause_s, try_s = min(2 * pause_s, PAUSE_S_MAX), 2 * try_s
        raise EtcdUnreachable(
            f"etcd at {self.hosts} did not answer within {within_s:.1f} s ({why}); is it running, "
            "and is pk.metadata.store its address?",
            doubt=doubt,
        )

    async def wait_for_change(self, key: str, revision: int) -> None:
        """Wait until a key may have changed after `revision`, or the watch on it has ended: read it
        then. Raises nothing; a server that says nothing may be waited for in vain."""
        request = {"create_request": {"key": encoded(key), "start_revision": str(revision + 1)}}
        client: HttpClient | None = None
        try:
            client = await self._connection(self._servers[0])
            with trio.fail_after(self.try_s):
                head = await client.begin(self._request("/v3/watch", json.dumps(request).encode()))
            data = b""
            while part := await client.more():
                *lines, data = (data + part).split(b"\n")
                for line in lines:
                    said: dict[str, Any] = json.loads(line)
                    if head.status != 200 or not said.get("result", {}).get("created"):
                        return
        except (HttpError, OSError, TlsError, ValueError, trio.TooSlowError):
            pass
        finally:
            if client is not None:
                await client.close()
        await trio.sleep(PAUSE_S_MIN)  # what cannot be watched is not read without end

    async def close(self) -> None:
        """Close the connections that are not in use."""
        for server in self._servers:
            await self._forget(server)

    async def _try(self, path: str, data: bytes, try_s: float) -> dict[str, Any]:
        """Ask the first server. Raises _Again after the next one has become the first."""
        server = self._servers[0]
        try:
            if self._login is not None and self._token is None:
                await self._log_in(server, try_s)
            return _body(await self._ask(server, path, data, try_s))
        except _Again as e:
            if e.is_login:
                if self._login is None:
                    raise EtcdRefused(
                        UNAUTHENTICATED,
                        "it asks for a user: set pk.etcd.user and pk.etcd.password",
                        doubt=False,
                    ) from e
                self._token = None
            else:
                await self._next(server)
            raise
        except OSError as e:  # no connection: nothing was sent
            await self._next(server)
            raise _Again(f"{server.url}: {e.strerror or e}", doubt=False) from e
        except (HttpError, trio.TooSlowError) as e:
            await self._next(server)
            why = "no answer" if isinstance(e, trio.TooSlowError) else str(e)
            raise _Again(f"{server.url}: {why}", doubt=True) from e
        except TlsError as e:
            raise _Again(str(e), doubt=False) from e

    async def _log_in(self, server: Address, try_s: float) -> None:
        assert self._login is not None
        body = {"name": self._login[0], "password": self._login[1]}
        data = json.dumps(body).encode()
        try:
            answer = _body(await self._ask(server, "/v3/auth/authenticate", data, try_s))
        except EtcdRefused as e:
            if e.code != FAILED_PRECONDITION:
                raise
            answer = {"token": ""}  # authentication is not enabled: everybody may do everything
        self._token = answer["token"]

    async def _ask(self, server: Address, path: str, data: bytes, try_s: float) -> Response:
        idle = self._idle.setdefault(server, [])
        client = idle.pop() if idle else await self._connection(server)
        try:
            with trio.fail_after(try_s):
                response = await client.ask(self._request(path, data))
        except BaseException:
            await client.close()
            raise
        if len(idle) < IDLE_MAX:
            idle.append(client)
        else:
            await client.close()
        return response

    async def _connection(self, server: Address) -> HttpClient:
        tls = await self._tls() if self._tls is not None else None
        # A request that is sent again here would be one more of unknown fate.
        return HttpClient(server, tls=tls, timeout_s=float("inf"), again=False)

    def _request(self, path: str, data: bytes) -> Request:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = self._token
        return Request("POST", path, headers, data)

    async def _next(self, server: Address) -> None:
        """Ask another one first from now on, unless that is so already."""
        if self._servers[0] == server:
            self._servers = [*self._servers[1:], server]
        await self._forget(server)

    async def _forget(self, server: Address) -> None:
        for client in self._idle.pop(server, []):
            await client.close()


class _Again(Exception):
    """This server did not do it, as far as it is known; another may."""

    def __init__(self, message: str, *, doubt: bool, is_login: bool = False) -> None:
        super().__init__(message)
        self.doubt = doubt
        self.is_login = is_login
        """Whether the server wants to know again who asks."""


def _address(scheme: str, host: str) -> Address:
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, str(PORT)
    return Address(scheme, name.removeprefix("[").removesuffix("]"), int(port))


def _body(response: Response) -> dict[str, Any]:
    """The object that an answer holds. Raises EtcdRefused, _Again."""
    try:
        body: dict[str, Any] = response.json()
        error: Any = body.get("error")
        if error is None and response.status == 200:
            return body.get("result", body)
        # In a stream it is an object.
        said: dict[str, Any] = cast(dict[str, Any], error) if isinstance(error, dict) else body
        code, message = (
            int(said["grpc_code"] if "grpc_code" in said else said["code"]),
            str(said["message"]),
        )
    except (HttpError, AttributeError, KeyError, TypeError, ValueError):
        if response.status == 404:
            raise EtcdRefused(
                12, "it has no JSON gateway under /v3; pk needs etcd 3.4 or newer", doubt=False
            ) from None
        text = response.body[:200].decode(errors="replace").strip()
        if 400 <= response.status < 500:
            # Such as users and certificates with a common name at once, which its gateway refuses.
            raise EtcdRefused(INVALID_ARGUMENT, text, doubt=False) from None
        raise _Again(f"HTTP status {response.status} {text}", doubt=True) from None
    if code == UNAUTHENTICATED or "auth store is old" in message or "user name is empty" in message:
        raise _Again(message, doubt=False, is_login=True)
    if code in _FINAL or (code == RESOURCE_EXHAUSTED and "space exceeded" in message):
        raise EtcdRefused(code, message, doubt=False)
    raise _Again(message, doubt=code != RESOURCE_EXHAUSTED)
