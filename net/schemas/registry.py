"""One instance of the registry: follows the log, takes part in the election, and makes changes if
it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import trio
from msgspec import Struct, field

from pk.core.errors import KafkaError
from pk.core.schemas.registry import errors, records
from pk.core.schemas.registry.decisions import Decider, Decision
from pk.core.schemas.registry.records import Record
from pk.core.schemas.registry.state import State
from pk.net.client.cluster import open_cluster
from pk.net.client.config import ConsumerConfig, parse
from pk.net.client.errors import ClientError
from pk.net.schemas.election import HEARTBEAT_MS, Election, Identity
from pk.net.schemas.log import REPLICATION_FACTOR, TOPIC, Log, Writer, prepare

logger = logging.getLogger("pk.schemas")

GROUP: Final = "schema-registry"
WRITE_TIMEOUT_S: Final = 30.0
LEADER_TIMEOUT_S: Final = 15.0
"""How long a change waits for an election: a session timeout plus a margin."""

T = TypeVar("T")


class Settings(Struct, frozen=True):
    """The settings of a registry instance."""

    bootstrap: str
    client: Mapping[str, object] = field(default_factory=dict[str, object])
    """Kafka's keys for connections, such as security."""

    topic: str = TOPIC
    group: str = GROUP
    replication_factor: int = REPLICATION_FACTOR
    eligible: bool = True
    """Whether this instance may become the leader."""


class NotLeader(Exception):
    """A change was requested, but this instance does not lead."""

    def __init__(self, leader: Identity | None) -> None:
        super().__init__("another instance leads" if leader else "no instance leads")
        self.leader = leader


class Registry:
    """An instance of the registry. `run` is its task."""

    def __init__(self, settings: Settings, own: Identity) -> None:
        self.settings = settings
        self.own = own
        client = dict(settings.client)
        self._log = Log(settings.bootstrap, client, settings.topic, f"pk-schemas-{settings.group}")
        self._decider = Decider(self._log.state)
        self._checker = Decider(self._log.state)
        self._checking = trio.Lock()
        self._election: Election | None = None
        self._writer: Writer | None = None
        self._writing = trio.Lock()
        self._leads = trio.Event()
        self._must_restart = trio.Event()

    @property
    def state(self) -> State:
        """The state of the log, as far as this instance has replayed it."""
        return self._log.state

    @property
    def leader(self) -> Identity | None:
        """The leader, as far as this instance knows."""
        return self._election.leader if self._election is not None else None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Calls `started` once the log has been replayed and a leader is
        known. Raises LogError, KafkaError, ClientError if the log cannot be used.
        """
        settings = self.settings
        client = dict(settings.client)
        await prepare(settings.bootstrap, client, settings.topic, settings.replication_factor)
        config = parse(ConsumerConfig, {**client, "group.id": settings.group})
        async with (
            open_cluster(settings.bootstrap, config) as cluster,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(self._log.follow)
            self._election = Election(cluster, settings.group, self.own)
            nursery.start_soon(self._election.run)
            nursery.start_soon(self._lead)
            while self.leader is None or (self.leader == self.own and self._writer is None):
                await self._next_change()
            task_status.started()

    async def _next_change(self) -> None:
        assert self._election is not None
        async with trio.open_nursery() as nursery:

            async def wait(event: Callable[[], Any]) -> None:
                await event()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait, self._election.changed)
            nursery.start_soon(wait, self._leads.wait)

    async def _lead(self) -> None:
        election = self._election
        assert election is not None
        while True:
            if not election.leads:
                # A late heartbeat makes this instance the leader again, and changes nothing else.
                with trio.move_on_after(HEARTBEAT_MS / 1000):
                    await election.changed()
                continue
            try:
                async with self._log.writer() as writer:
                    # The previous leader is fenced now. Its records come before this one.
                    await writer.append([Record(records.NOOP)])
                    self._writer = writer
                    self._leads.set()
                    logger.info("%s leads the schema registry", self.own.url)
                    self._must_restart = trio.Event()
                    await self._until_replaced(election)
                    # From here on, changes wait for an election: closing the producer may take
                    # minutes if brokers are down.
                    self._writer = None
                    self._leads = trio.Event()
            except (KafkaError, ClientError) as e:
                logger.warning("the schema registry cannot write to %s: %s", self._log.topic, e)
                await trio.sleep(1)
            finally:
                self._writer = None
                self._leads = trio.Event()

    async def _until_replaced(self, election: Election) -> None:
        async with trio.open_nursery() as nursery:

            async def watch(wait: Callable[[], Any]) -> None:
                await wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch, election.changed)
            nursery.start_soon(watch, self._must_restart.wait)

    async def change(self, decide: Callable[[Decider], Decision]) -> tuple[Any, int]:
        """Decide on a change, write it, and wait until it is in the state. Returns the decision's
        reply and the offset of its last record. Waits while no instance leads.

        Raises RegistryError, NotLeader.
        """
        with trio.move_on_after(WRITE_TIMEOUT_S) as scope:
            await self._wait_for_leader()
            async with self._writing:
                scope.deadline = trio.current_time() + WRITE_TIMEOUT_S
                election, writer = self._election, self._writer
                if election is None or writer is None or not election.leads:
                    raise NotLeader(None if self.leader == self.own else self.leader)
                decision = await trio.to_thread.run_sync(decide, self._decider)
                if not decision.records:
                    return decision.reply, self._log.replayed
                try:
                    offset = await writer.append(decision.records)
                except BaseException as e:
                    # The change may be in the log but not in the state, from which the next change
                    # would be decided. The next leader will have replayed the whole log.
                    self._must_restart.set()
                    election.step_down()
                    if isinstance(e, KafkaError | ClientError):
                        raise errors.RegistryError(
                            50001, f"Register operation failed: error while writing to the log: {e}"
                        ) from None
                    raise
                return decision.reply, offset
        raise errors.RegistryError(50002, "Operation timed out")

    async def _wait_for_leader(self) -> None:
        with trio.move_on_after(LEADER_TIMEOUT_S):
            while self.leader is None or (self.leader == self.own and self._writer is None):
                await self._next_change()

    async def check(self, question: Callable[[Decider], T]) -> T:
        """Answer a question that may need to parse schemas. This runs in a thread, since it can
        take long. Raises RegistryError.
        """
        async with self._checking:
            return await trio.to_thread.run_sync(question, self._checker)

    async def wait_for(self, offset: int) -> None:
        """Wait at most a few seconds until this instance has replayed the leader's record."""
        with trio.move_on_after(5):
            await self._log.wait_for(offset)
