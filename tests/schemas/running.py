"""A registry of pk beside a broker of pk in memory, in a thread of its own, for clients that
block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
from msgspec.structs import replace
from nodes import running_node

from pk.net.schemas.registry import Settings
from pk.net.schemas.serve import Listening, serve_registry

START_S = 60


@dataclass
class Running:
    """A broker and its registries."""

    bootstrap: str = ""
    urls: list[str] = field(default_factory=list)
    call: Callable[..., Any] | None = None
    """Runs an async function in the thread."""

    scopes: list[trio.CancelScope] = field(default_factory=list)
    """One for each registry."""

    @property
    def url(self) -> str:
        """The first registry."""
        return self.urls[0]

    def stop(self, index: int) -> None:
        """End one registry, as a process that ends orderly."""
        assert self.call is not None
        scope = self.scopes[index]

        async def cancel() -> None:
            scope.cancel()

        self.call(cancel)


@contextmanager
def running_registry(
    listening: Listening | None = None,
    *,
    count: int = 1,
    bootstrap: str | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """`count` registries; with a broker of their own unless `bootstrap` names one."""
    found, ready = Running(), threading.Event()
    end: list[Callable[[], None]] = []
    given = replace(listening or Listening(), port=0)

    async def registry(address: str, *, task_status: Any) -> None:
        with trio.CancelScope() as scope:
            found.scopes.append(scope)
            await serve_registry(Settings(address, **settings), given, task_status=task_status)

    async def registries(address: str) -> None:
        token = trio.lowlevel.current_trio_token()
        stopping = trio.Event()
        end.append(lambda: token.run_sync_soon(stopping.set))
        found.bootstrap = address
        found.call = lambda function, *args: trio.from_thread.run(function, *args, trio_token=token)
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                found.urls.append(
                    await nursery.start(
                        lambda task_status: registry(address, task_status=task_status)
                    )
                )
            ready.set()
            await stopping.wait()
            nursery.cancel_scope.cancel()

    async def main() -> None:
        if bootstrap is not None:
            await registries(bootstrap)
            return
        async with running_node() as node:
            await registries(node.address)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(trio.run, main)
        running.add_done_callback(lambda _: ready.set())
        try:
            assert ready.wait(START_S)
            if running.done():
                running.result()
            yield found
        finally:
            for each in end:
                each()
        running.result(START_S)
