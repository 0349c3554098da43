"""A session with ZooKeeper on the trio loop, which hides kazoo's threads.

kazoo runs a thread that owns the socket, one that calls completions and one that calls watches.
These threads touch our objects only through `TrioToken.run_sync_soon`, and the loop never waits for
them: requests use kazoo's `..._async` calls, which queue them and return.

The danger of a session is not that it expires, but that its owner learns of that too late.
ZooKeeper measures the session's time from the last byte that it received from us; we measure from
the last byte that we received from ZooKeeper. kazoo gives up a connection after two thirds of the
session timeout without an answer, so `SUSPENDED` comes before ZooKeeper may delete our ephemeral
nodes, unless this process itself was paused. So from `SUSPENDED` on, everything tied to the session
(a leadership, a place in the queue) is treated as lost, even if the same session is resumed; and if
we were paused, ZooKeeper refuses our writes (see zookeeper.py). `age` counts these losses. kazoo's
thread increments it at once, which invalidates decisions taken before the loop has learned of the
loss.

While the connection is down, no request is passed to kazoo, which would queue it and send it later,
possibly in another session. The request fails, and the caller decides what to do.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import trio
from kazoo.client import KazooClient  # pyright: ignore[reportMissingTypeStubs]
from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError  # pyright: ignore[reportMissingTypeStubs]
from kazoo.handlers.threading import KazooTimeoutError  # pyright: ignore[reportMissingTypeStubs]
from kazoo.protocol.states import KazooState, KeeperState  # pyright: ignore[reportMissingTypeStubs]
from kazoo.retry import KazooRetry  # pyright: ignore[reportMissingTypeStubs]

from pk.core.meta.store import StoreFailed

logger = logging.getLogger("pk.zookeeper")

CLOSE_S: Final = 3.0
"""How long closing a session may take; after that, the session expires by itself."""

RETRY_FIRST_S: Final = 0.05
RETRY_LAST_S: Final = 1.0

WINDOW: Final = 64
"""How many requests of one `call_all` are in flight at a time."""

Zk: TypeAlias = Any
"""A KazooClient, whose methods have no types."""
Start = Callable[[Zk], Any]
"""Starts a request with one of kazoo's `..._async` calls, and returns kazoo's result object."""


class SessionLost(StoreFailed):
    """The connection was lost during a request, whose outcome is unknown."""


class ZooKeeperSession:
    """A ZooKeeper client that connects on first use, and reconnects whenever it loses its server.
    It is used within one trio run; `close` ends it.
    """

    def __init__(
        self, hosts: str, *, session_timeout_ms: int = 6000, connect_timeout_ms: int = 15_000
    ) -> None:
        """Initialize the session. `session_timeout_ms` is only requested: the server limits it (by
        default to between 2 and 20 ticks). `connect_timeout_ms` is how long `ready` waits for a
        server."""
        self.hosts = hosts
        self.age = 0
        """How often the connection was lost. kazoo's thread increments it at once."""
        self.on_lost: list[Callable[[], None]] = []
        """Called on the loop after the connection was lost."""
        self._session_timeout_ms = session_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._client: Zk | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._connected = False
        self._changed = trio.Event()
        self._starting = trio.Lock()
        self._closed = False
        self._waiting: set[trio.Event] = set()

    @property
    def connected(self) -> bool:
        """Whether the session is connected, as far as this process knows."""
        return self._connected and not self._closed

    @property
    def away(self) -> bool:
        """Whether there is no connection, and the client is trying to make one."""
        client = self._client
        return (
            client is not None
            and not self._connected
            and not self._closed
            and client.client_state != KeeperState.CLOSED
        )

    @property
    def session_id(self) -> int:
        """The id of the current session; 0 if there is none."""
        known = self._client.client_id if self._client is not None else None
        return known[0] if known is not None and known[0] is not None else 0

    async def ready(self) -> int:
        """Wait until the session is connected. Returns its `age`. Raises StoreFailed if no server
        answers in time."""
        if self._client is None:
            async with self._starting:
                await self._start()
        with trio.move_on_after(self._connect_timeout_ms / 1000):
            while not self._connected and not self._closed:
                await self._changed.wait()
        if not self.connected:
            self._drop_stopped_client()
            why = "closed" if self._closed else f"not reached within {self._connect_timeout_ms} ms"
            raise StoreFailed(
                f"ZooKeeper at {self.hosts}: {why}"
                + (
                    ""
                    if self._closed
                    else "; is it running, and does pk.metadata.store have its address?"
                )
            )
        return self.age

    async def wait(self, event: trio.Event, age: int) -> None:
        """Wait for `event`, which a watch sets. Raises SessionLost if the connection was lost since
        the session had `age`."""
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)
        if self._closed or self.age != age:
            raise SessionLost(f"ZooKeeper at {self.hosts}: the connection was lost")

    async def call(self, start: Start) -> Any:
        """Return the result of the request that `start(client)` makes (one of kazoo's `..._async`
        calls).

        Raises SessionLost if the connection is down or lost, and kazoo's own exceptions for
        refusals of the server. A cancelled caller leaves the request in flight.
        """
        [result] = await self.call_all([start])
        return result

    async def call_all(self, starts: Sequence[Start]) -> list[Any]:
        """Like `call` for each of `starts`, in order, with many requests in flight at a time."""
        results: list[Any] = []
        for first in range(0, len(starts), WINDOW):
            begun = [self._begin(start) for start in starts[first : first + WINDOW]]
            results += [await self._finish(*one) for one in begun]
        return results

    def _begin(self, start: Start) -> tuple[Any, trio.Event]:
        client = self._client
        if client is None or not self.connected:
            raise SessionLost(f"ZooKeeper at {self.hosts}: no connection")
        done = trio.Event()
        result: Any = start(client)

        def finished(_: object) -> None:
            self._call_soon(done.set)

        result.rawlink(finished)
        return result, done

    async def _finish(self, result: Any, done: trio.Event) -> Any:
        self._waiting.add(done)
        try:
            await done.wait()
            return result.get_nowait()
        except (ConnectionLoss, SessionExpiredError, KazooTimeoutError) as e:
            raise SessionLost(f"ZooKeeper at {self.hosts}: {type(e).__name__}") from e
        finally:
            self._waiting.discard(done)

    def watcher(self, call: Callable[[], None]) -> Callable[[Any], None]:
        """Return a watch for kazoo that runs `call()` on the loop, once; also if the connection,
        and so the watch, is lost."""
        return lambda _: self._call_soon(call)

    async def close(self) -> None:
        """End the session: ZooKeeper deletes its ephemeral nodes at once. Tasks that wait for an
        answer get SessionLost."""
        self._closed = True
        self._announce()
        for done in list(self._waiting):
            done.set()
        client, self._client = self._client, None
        if client is None:
            return

        def stop() -> None:
            client.stop()
            client.close()

        with trio.move_on_after(CLOSE_S, shield=True) as scope:
            try:
                await trio.to_thread.run_sync(stop, abandon_on_cancel=True)
            except (KazooException, OSError) as e:
                logger.debug("the session with %s did not end cleanly: %s", self.hosts, e)
        if scope.cancelled_caught:
            logger.warning(
                "ZooKeeper at %s does not answer; the session ends by its timeout", self.hosts
            )

    async def _start(self) -> None:
        if self._client is not None or self._closed:
            return
        self._token = trio.lowlevel.current_trio_token()
        retry = KazooRetry(
            max_tries=-1, delay=RETRY_FIRST_S, backoff=2, max_jitter=0.2, max_delay=RETRY_LAST_S
        )
        client: Zk = cast(
            Zk,
            KazooClient(
                hosts=self.hosts,
                timeout=self._session_timeout_ms / 1000,
                connection_retry=retry,
                logger=_quiet,
            ),
        )
        client.add_listener(self._state_changed)
        self._client = client
        # This joins threads of an earlier start. There are none, but run it off the loop all the
        # same.
        await trio.to_thread.run_sync(client.start_async)

    def _drop_stopped_client(self) -> None:
        """Make the next `ready` start another client if kazoo's thread has ended, which only a bug
        can cause."""
        client = self._client
        if client is not None and client.client_state == KeeperState.CLOSED:
            logger.error("the client of ZooKeeper at %s stopped; starting another one", self.hosts)
            client.remove_listener(self._state_changed)
            self._client = None

    def _state_changed(self, state: str) -> None:
        """Handle a change of state, on kazoo's thread."""
        connected = state == KazooState.CONNECTED
        if not connected:
            self._connected = False
            self.age += 1
        self._call_soon(lambda: self._set_connected(connected))

    def _set_connected(self, connected: bool) -> None:
        # States arrive in order. The last one counts, which may be newer than this one.
        client = self._client
        if client is None:
            return
        self._connected = connected and client.state == KazooState.CONNECTED
        if self._connected:
            logger.info("connected to ZooKeeper at %s", self.hosts)
        elif not connected:
            logger.warning("lost the connection to ZooKeeper at %s", self.hosts)
        self._announce()
        if not connected:
            for call in list(self.on_lost):
                call()

    def _announce(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _call_soon(self, call: Callable[[], None]) -> None:
        """Run `call()` on the loop. May be called in any thread."""
        assert self._token is not None
        # If the loop has ended, so has every waiting task.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(call)


class _Quiet(logging.LoggerAdapter[logging.Logger]):
    """kazoo's logger: logs reconnection attempts at debug level only."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        super().log(min(level, logging.DEBUG), msg, *args, **kwargs)

    def warn(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """Like `warning`; kazoo calls it by its old name."""
        self.log(logging.DEBUG, msg, *args, **kwargs)


_quiet = _Quiet(logging.getLogger("pk.zookeeper.client"), {})
