"""Sends requests to etcd through its JSON gateway (`/v3/…`, since etcd 3.4): POST, with keys and
values in base64.

Every etcd has the gateway, and pk already has an HTTP client on trio; there is none for gRPC,
etcd's own protocol.

A request goes to one server. If that server refuses connections, disconnects, does not answer for a
while, or has no leader, the client tries the next one, and so on until the time limit. The next
request starts with the server that answered last, so a server that dies or hangs delays a request
by at most `try_s`. A retried request may have taken effect twice, or once although the second
answer is a refusal; then `may_have_applied` is set. All requests of the store are idempotent.
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
"""The maximum pause after all servers have failed; pauses double up to it."""

IDLE_MAX: Final = 8
"""The maximum number of idle connections per server."""

INVALID_ARGUMENT: Final = 3
NOT_FOUND: Final = 5
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
OUT_OF_RANGE: Final = 11
UNAUTHENTICATED: Final = 16
"""gRPC status codes, by which etcd names the reason of a refusal."""

_FINAL: Final = frozenset(
    {INVALID_ARGUMENT, NOT_FOUND, 6, 7, FAILED_PRECONDITION, OUT_OF_RANGE, 12}
)
"""Refusals that any other server would repeat, of requests that did not take effect. After the
other codes (14 is a server without a leader, 4 a cluster that does not answer in time) the request
may have taken effect, and is retried."""


class EtcdUnreachable(StoreFailed):
    """No server answered in time."""

    def __init__(self, message: str, *, may_have_applied: bool) -> None:
        super().__init__(message)
        self.may_have_applied = may_have_applied
        """Whether the request may have taken effect."""


class EtcdRefused(StoreFailed):
    """A server refused the request. This attempt had no effect."""

    def __init__(self, code: int, message: str, *, may_have_applied: bool) -> None:
        super().__init__(f"etcd: {message.removeprefix('etcdserver: ')}")
        self.code = code
        self.may_have_applied = may_have_applied
        """Whether an earlier attempt may have taken effect."""

    @property
    def is_full(self) -> bool:
        """Whether the database has used up its quota."""
        return self.code == RESOURCE_EXHAUSTED


class Answer(Struct, frozen=True):
    """An answer of a server."""

    body: dict[str, Any]
    may_have_applied: bool
    """Whether an earlier attempt may have taken effect too."""

    @property
    def revision(self) -> int:
        """The revision of the whole database at the time of the answer."""
        return int(self.body["header"]["revision"])


def encoded(text: str | bytes) -> str:
    """Encode a key or a value for a request."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def decoded(text: str) -> bytes:
    """Decode a key or a value of an answer."""
    return base64.b64decode(text)


class EtcdClient:
    """A client of the servers of one etcd cluster. It is used within one trio run; `close` ends
    it."""

    def __init__(
        self,
        hosts: str,
        *,
        tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None,
        user: str | None = None,
        password: str | None = None,
        try_s: float = 1.0,
    ) -> None:
        """Initialize the client. `hosts` is `h:p,h:p`. `tls` returns the context of the next
        connection; without it, connections are plain. `try_s` is the timeout of one server; each
        further round over all servers doubles it."""
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
        """Send a request and return the answer. Raises EtcdRefused; EtcdUnreachable after
        `within_s`."""
        data = json.dumps(body).encode()
        try_s, pause_s = try_s or self.try_s, PAUSE_S_MIN
        may_have_applied, why = False, "no time was left"
        with trio.move_on_after(max(0.0, within_s)):
            while True:
                for _ in range(len(self._servers)):
                    before, may_have_applied = may_have_applied, True
                    try:
                        return Answer(await self._try(path, data, try_s), before)
                    except _TryNext as e:
                        may_have_applied, why = before or e.may_have_applied, str(e)
                    except EtcdRefused as e:
                        e.may_have_applied = before
                        raise
                await trio.sleep(pause_s)
                pause_s, try_s = min(2 * pause_s, PAUSE_S_MAX), 2 * try_s
        raise EtcdUnreachable(
            f"etcd at {self.hosts} did not answer within {within_s:.1f} s ({why}); is it running, "
            "and does pk.metadata.store have its address?",
            may_have_applied=may_have_applied,
        )

    async def wait_for_change(self, key: str, revision: int) -> None:
        """Wait until a key may have changed after `revision`, or until the watch on it has ended;
        the caller then reads the key. Raises nothing. May wait forever for a silent server."""
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
        await trio.sleep(PAUSE_S_MIN)  # avoid reading in a tight loop if the key cannot be watched

    async def close(self) -> None:
        """Close the connections that are not in use."""
        for server in self._servers:
            await self._forget(server)

    async def _try(self, path: str, data: bytes, try_s: float) -> dict[str, Any]:
        """Send the request to the first server. If that fails, move the next server to the front
        and raise _TryNext."""
        server = self._servers[0]
        try:
            if self._login is not None and self._token is None:
                await self._log_in(server, try_s)
            return _body(await self._ask(server, path, data, try_s))
        except _TryNext as e:
            if e.is_login:
                if self._login is None:
                    raise EtcdRefused(
                        UNAUTHENTICATED,
                        "it requires a login: set pk.etcd.user and pk.etcd.password",
                        may_have_applied=False,
                    ) from e
                self._token = None
            else:
                await self._next(server)
            raise
        except OSError as e:  # no connection: nothing was sent
            await self._next(server)
            raise _TryNext(f"{server.url}: {e.strerror or e}", may_have_applied=False) from e
        except (HttpError, trio.TooSlowError) as e:
            await self._next(server)
            why = "no answer" if isinstance(e, trio.TooSlowError) else str(e)
            raise _TryNext(f"{server.url}: {why}", may_have_applied=True) from e
        except TlsError as e:
            raise _TryNext(str(e), may_have_applied=False) from e

    async def _log_in(self, server: Address, try_s: float) -> None:
        assert self._login is not None
        body = {"name": self._login[0], "password": self._login[1]}
        data = json.dumps(body).encode()
        try:
            answer = _body(await self._ask(server, "/v3/auth/authenticate", data, try_s))
        except EtcdRefused as e:
            if e.code != FAILED_PRECONDITION:
                raise
            answer = {"token": ""}  # authentication is disabled: every client may do everything
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
        # If a request were retried here, its outcome would be unknown once more.
        return HttpClient(server, tls=tls, timeout_s=float("inf"), retry_once=False)

    def _request(self, path: str, data: bytes) -> Request:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = self._token
        return Request("POST", path, headers, data)

    async def _next(self, server: Address) -> None:
        """Move another server to the front, unless that has already happened."""
        if self._servers[0] == server:
            self._servers = [*self._servers[1:], server]
        await self._forget(server)

    async def _forget(self, server: Address) -> None:
        for client in self._idle.pop(server, []):
            await client.close()


class _TryNext(Exception):
    """This server failed, according to what is known; another may succeed."""

    def __init__(self, message: str, *, may_have_applied: bool, is_login: bool = False) -> None:
        super().__init__(message)
        self.may_have_applied = may_have_applied
        self.is_login = is_login
        """Whether the client must authenticate again."""


def _address(scheme: str, host: str) -> Address:
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, str(PORT)
    return Address(scheme, name.removeprefix("[").removesuffix("]"), int(port))


def _body(response: Response) -> dict[str, Any]:
    """Return the JSON object of an answer. Raises EtcdRefused, _TryNext."""
    try:
        body: dict[str, Any] = response.json()
        error: Any = body.get("error")
        if error is None and response.status == 200:
            return body.get("result", body)
        # In a stream, the error is an object.
        said: dict[str, Any] = cast(dict[str, Any], error) if isinstance(error, dict) else body
        code, message = (
            int(said["grpc_code"] if "grpc_code" in said else said["code"]),
            str(said["message"]),
        )
    except (HttpError, AttributeError, KeyError, TypeError, ValueError):
        if response.status == 404:
            raise EtcdRefused(
                12,
                "it has no JSON gateway under /v3; pk needs etcd 3.4 or newer",
                may_have_applied=False,
            ) from None
        text = response.body[:200].decode(errors="replace").strip()
        if 400 <= response.status < 500:
            # For example credentials together with a certificate that has a common name, which the
            # gateway refuses.
            raise EtcdRefused(INVALID_ARGUMENT, text, may_have_applied=False) from None
        raise _TryNext(f"HTTP status {response.status} {text}", may_have_applied=True) from None
    if code == UNAUTHENTICATED or "auth store is old" in message or "user name is empty" in message:
        raise _TryNext(message, may_have_applied=False, is_login=True)
    if code in _FINAL or (code == RESOURCE_EXHAUSTED and "space exceeded" in message):
        raise EtcdRefused(code, message, may_have_applied=False)
    raise _TryNext(message, may_have_applied=code != RESOURCE_EXHAUSTED)
