"""A cluster of processes on this machine, with logs in memory, for a block: `pk up --brokers N`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import trio

from pk.core.values import TopicPartition
from pk.core.wire.messages.pk_faults import PkFaultsRequest, PkFaultsResponse
from pk.net.client.admin import Admin, open_admin
from pk.net.client.results import NewTopic
from pk.testing.faults import Faults, reason_of
from pk.testing.records import Records

T = TypeVar("T")

STOP_S: Final = 60.0
"""How long the processes on a busy machine may take to end before they are killed."""


class ClusterError(Exception):
    """The cluster did not start. The message has its output."""


class Cluster(Faults, Records):
    """A cluster of processes; see the top of this file. Use it in `with Cluster(3) as kafka:`, or
    call `start` and `stop`."""

    def __init__(self, brokers: int = 3, config: Mapping[str, str] | None = None) -> None:
        """Initialize the cluster. `config` takes Kafka's broker keys, for all brokers."""
        self._brokers = brokers
        self._config = {"pk.faults.enable": "true", **(config or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._url = ""

    def start(self) -> Self:
        """Start the cluster. It serves when this returns. Raises ClusterError, and RuntimeError if
        the cluster runs already."""
        if self._process is not None:
            raise RuntimeError("the cluster is already running")
        words = ["up", "--brokers", str(self._brokers), "--memory", "--port", "0"]
        for key, value in self._config.items():
            words += ["-X", f"{key}={value}"]
        ready, notify = os.pipe()
        with os.fdopen(ready, "rb") as answer:
            try:
                process = self._process = subprocess.Popen(
                    [sys.executable, "-m", "pk.cli.main", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=os.environ | {"PK_READY_FD": str(notify)},
                    pass_fds=(notify,),
                )
            finally:
                os.close(notify)
            written: list[bytes] = []
            output = process.stdout
            assert output is not None
            self._reader = threading.Thread(target=lambda: written.extend(output), daemon=True)
            self._reader.start()
            self._url = answer.readline().decode().strip()  # empty if the process has ended
        if self._url:
            return self
        self.stop()
        raise ClusterError(b"".join(written).decode(errors="replace") or "the cluster ended")

    def stop(self) -> None:
        """End all processes of the cluster. Does nothing if the cluster does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGTERM):  # the second does not drain
            process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(STOP_S)
        if process.stdout is not None:
            process.stdout.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The brokers' addresses, for `bootstrap.servers`. Raises RuntimeError if the cluster does
        not run."""
        if self._process is None:
            raise RuntimeError("the cluster is not running")
        return self._url

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> str:
        """Create a topic, and return its name. By default, it is replicated to every broker (up to
        three). Raises KafkaError."""
        factor = min(3, self._brokers) if replication_factor is None else replication_factor

        async def create(admin: Admin) -> None:
            new = NewTopic(name, partitions, factor, configs=dict(config or {}))
            (await admin.create_topics([new])).value(name)

        self._admin(create)
        return name

    def move_leader(self, topic: str, partition: int = 0) -> int:
        """Make another replica the leader of a partition. Returns the id of the new leader. Raises
        KafkaError."""

        async def move(admin: Admin) -> int:
            return await admin.move_leader(TopicPartition(topic, partition))

        return self._admin(move)

    def rebalance(self, group: str) -> None:
        """Make a consumer group assign its partitions again. Raises KafkaError
        GROUP_ID_NOT_FOUND."""

        async def ask(admin: Admin) -> None:
            coordinator = await admin.cluster.coordinator(group)
            await admin.ask_faults(PkFaultsRequest(action="rebalance", group=group), [coordinator])

        self._admin(ask)

    def _ask(self, request: PkFaultsRequest) -> Sequence[PkFaultsResponse]:
        async def ask(admin: Admin) -> Sequence[PkFaultsResponse]:
            return list((await admin.ask_faults(request)).values())

        return self._admin(ask)

    def _admin(self, work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        """Do work with an admin client, in a thread of its own, because the caller's thread may run
        an event loop."""
        url, done = self.url, Future[T]()

        async def main() -> T:
            async with open_admin(url) as admin:
                return await work(admin)

        def run() -> None:
            try:
                done.set_result(trio.run(main))
            except BaseException as e:  # noqa: BLE001 (it is raised in the caller's thread)
                done.set_exception(reason_of(e))

        thread = threading.Thread(target=run, name="pk.testing admin")
        thread.start()
        thread.join()
        return done.result()


def cluster(brokers: int = 3, config: Mapping[str, str] | None = None) -> Cluster:
    """Return a cluster for a `with` block. `config` takes Kafka's broker keys, for all brokers."""
    return Cluster(brokers, config)
