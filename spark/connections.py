"""Connections to clusters that a Python process keeps: one trio loop in a thread of its own, one
client for each set of options.

Spark calls sources and sinks from plain Python, and a worker process serves one task after another.
A client for each task would connect, negotiate versions and request metadata again each time; in a
stream of small batches that takes longer than the batch. So each process has one loop, started when
it is first needed (Spark forks its workers, and a thread does not survive that), and its clients
live as long as the process.
"""

import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, TypeVarTuple

import trio

from pk.net.client.cluster import Cluster, open_cluster
from pk.net.client.config import ClientConfig

T = TypeVar("T")
Args = TypeVarTuple("Args")

THREAD: Final = "pk connections"


class Job:
    """Work that runs in the loop while its caller continues. Made by `Connections.start`."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.over = threading.Event()


class Connections:
    """The loop and its clients. Use `connections()`, which gives each process its own."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.jobs: set[Job] = set()
        """The jobs that were started and have not ended."""

        self._clusters: dict[tuple[str, ClientConfig], Cluster] = {}
        self._opening = trio.Lock()
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self.thread.start()
        self._ready.wait()

    def _run(self) -> None:
        trio.run(self._main)

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery, self._token = nursery, trio.lowlevel.current_trio_token()
            self._ready.set()
            await trio.sleep_forever()

    def run(self, work: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Run `work` in the loop and wait for its result. Raises the exceptions of `work`."""
        return trio.from_thread.run(work, *args, trio_token=self._token)

    def start(self, work: Callable[[], Awaitable[None]]) -> Job:
        """Start `work` in the loop. It must not raise anything but trio.Cancelled."""
        job = Job()
        self.jobs.add(job)

        async def run() -> None:
            try:
                with job.scope:
                    await work()
            finally:
                self.jobs.discard(job)
                job.over.set()

        self.call_soon(lambda: self.nursery.start_soon(run))
        return job

    def cancel(self, job: Job) -> None:
        """End a job and wait until it has ended. Idempotent."""
        if not job.over.is_set() and not sys.is_finalizing():
            self.call_soon(job.scope.cancel)
            job.over.wait()

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call `call` in the loop, from any thread. Does not wait."""
        assert self._token is not None
        self._token.run_sync_soon(call)

    @property
    def nursery(self) -> trio.Nursery:
        """A nursery for tasks that live as long as the process. Use it only in the loop."""
        assert self._nursery is not None
        return self._nursery

    async def cluster(self, bootstrap: str, config: ClientConfig) -> Cluster:
        """The client for these options, created at its first use. Only for use in the loop. Raises
        ConfigError."""
        key = bootstrap, config
        async with self._opening:
            if key not in self._clusters:
                self._clusters[key] = await self.nursery.start(self._keep, bootstrap, config)
        return self._clusters[key]

    async def _keep(
        self,
        bootstrap: str,
        config: ClientConfig,
        task_status: trio.TaskStatus[Cluster] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async with open_cluster(bootstrap, config) as cluster:
            task_status.started(cluster)
            await trio.sleep_forever()


_lock: Final = threading.Lock()
_kept: list[Connections] = []


def connections() -> Connections:
    """This process's loop and clients."""
    with _lock:
        # A forked process has no threads, and a bug in pk may have ended the thread of this one.
        if not _kept or _kept[0].process_id != os.getpid() or not _kept[0].thread.is_alive():
            _kept[:] = [Connections()]
        return _kept[0]
