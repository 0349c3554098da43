"""Tracks which brokers are alive, on the active controller, and fences the others.

A broker has a session, which each heartbeat extends by `broker.session.timeout.ms`, by trio's
clock. To wait until the session expires is the last resort, since a process that dies breaks its
connections at once. When the connection of a broker's last heartbeat breaks, the broker's own
listener is probed. If the connection is refused, the process is gone, and the broker is fenced at
once. That is always safe: if the broker is alive after all, its next heartbeat unfences it. If only
the connection broke, the broker accepts the probe, and nothing happens. A probe without a result is
not a refusal: a slow machine or network gets the rest of its session.

A new controller has not received heartbeats yet. It gives every broker a whole session, and probes
all of them at once, because one may have died together with the previous controller. The broker on
that controller's node gets less: its process was silent for so long that it lost its leadership in
the store, so one failed probe is enough. (Without this rule, a stopped node would leave its
partitions without a leader for two sessions, the store's and then the broker's.)

A controller that was itself stopped for a while (SIGSTOP, a suspended machine) would find every
session expired, with the heartbeats that extend them still unread. Therefore, if its own timer
fires far too late, every session is restarted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import trio
from msgspec import Struct

from pk.core.broker.controller.active_controller import ActiveController, OffLoopDecision
from pk.core.broker.peers import PeerLost, Peers
from pk.core.broker.state import BrokerState
from pk.core.config import BrokerConfig
from pk.core.errors import KafkaError
from pk.core.machine import Decision
from pk.core.meta.brokers import fence_broker
from pk.core.meta.events import Endpoint, Event
from pk.core.meta.image import BrokerImage, MetadataImage

logger = logging.getLogger("pk.controller")

PROBE_S: Final = 1.0
"""The timeout of one probe of a broker whose connection broke, in seconds."""

PROBE_PAUSE_S_MIN: Final = 0.002
"""The pause between the first probes of a broker that neither accepts nor refuses, in seconds,
doubling up to `PROBE_PAUSE_S_MAX`: a dying process may still accept a connection, and drop it."""

PROBE_PAUSE_S_MAX: Final = 0.5
"""The pause between probes of a broker that accepts them, until it sends a heartbeat, in
seconds."""

PAUSED_S: Final = 1.0
"""A timer that is this late, in seconds, means that this process was not running."""

FENCE_RETRY_S: Final = 1.0
"""The pause before brokers are fenced again after a decision that failed, for example because the
metadata log had no space, in seconds."""

SHUTDOWN_WAIT_S: Final = 1.0
"""The maximum time that a broker that shuts down waits until the other brokers know the new
leaders, in seconds."""

NO_CONNECTION: Final = -1


class _Session(Struct, eq=False):
    broker_id: int
    broker_epoch: int
    deadline: float
    connection_id: int = NO_CONNECTION
    """The connection of the last heartbeat; -1 before the first heartbeat, and after the connection
    broke."""
    probing: bool = False
    suspect: bool = False
    """Whether this broker was the previous controller, and has not sent a heartbeat since."""


class _Shutdown(Struct):
    offset: int
    """The log end after the event that moved leadership away from the broker."""
    since: float


class HeartbeatManager:
    """Tracks the brokers' sessions. One per controller; `run` is one of its duties."""

    def __init__(self, controller: ActiveController, state: BrokerState, peers: Peers) -> None:
        """`state` belongs to this process's broker: its config, and its progress."""
        self._controller = controller
        self._state = state
        self._peers = peers
        self._sessions: dict[int, _Session] = {}
        self._shutdowns: dict[int, _Shutdown] = {}
        self._nursery: trio.Nursery | None = None
        self._changed = trio.Event()
        controller.commit_listeners.append(self._on_commit)

    async def run(self) -> None:
        """Watch the brokers until cancelled."""
        image = self._controller.image
        self._sessions.clear()
        self._shutdowns.clear()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._on_commit(MetadataImage(), image)
                for session in list(self._sessions.values()):
                    session.suspect = session.broker_id == self._controller.predecessor
                    self._probe_soon(session)
                while True:
                    await self._expire(await self._wait_for_expiry())
        finally:
            self._nursery = None

    def record_heartbeat(self, broker_id: int, broker_epoch: int, connection_id: int) -> None:
        """Record a heartbeat with the broker's current epoch."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._start_session(broker_id, broker_epoch)
        session.deadline = trio.current_time() + self._timeout_s
        session.connection_id = connection_id

    def is_alive(self, broker_id: int) -> bool:
        """Return whether a broker has sent a heartbeat within its session, on a connection that is
        still open. If so, no other process may register with its id."""
        session = self._sessions.get(broker_id)
        if session is None or session.connection_id == NO_CONNECTION:
            return False
        return session.deadline > trio.current_time()

    def may_shut_down(self, broker_id: int) -> bool:
        """Return whether the other brokers know the new leaders of the partitions that this broker
        led, or have had `SHUTDOWN_WAIT_S` to learn them."""
        shutdown = self._shutdowns.get(broker_id)
        if shutdown is None or trio.current_time() >= shutdown.since + SHUTDOWN_WAIT_S:
            return True
        controller = self._controller
        for broker in controller.image.brokers.values():
            if broker.fenced or broker.broker_id == broker_id:
                continue
            if broker.broker_id == controller.controller_id:
                offset = self._state.image.offset
            else:
                observer = controller.observers.get(broker.broker_id)
                offset = observer.offset if observer is not None else -1
            if offset < shutdown.offset:
                return False
        return True

    @property
    def _timeout_s(self) -> float:
        return self._state.config.broker_session_timeout_ms / 1000

    def _start_session(self, broker_id: int, broker_epoch: int) -> _Session:
        deadline = trio.current_time() + self._timeout_s
        session = self._sessions[broker_id] = _Session(broker_id, broker_epoch, deadline)
        self._changed.set()
        return session

    def _on_commit(self, before: MetadataImage, image: MetadataImage) -> None:
        """Give a session to each unfenced broker, except the broker of this process, which lives as
        long as the controller."""
        if self._nursery is None or before.brokers is image.brokers:
            return
        for node, broker in image.brokers.items():
            session = self._sessions.get(node)
            if session is not None and session.broker_epoch != broker.broker_epoch:
                del self._sessions[node]
                session = None
            if not broker.fenced and session is None and node != self._controller.controller_id:
                self._start_session(node, broker.broker_epoch)
            if broker.in_controlled_shutdown and not broker.fenced:
                if node not in self._shutdowns:
                    self._shutdowns[node] = _Shutdown(image.offset, trio.current_time())
            else:
                self._shutdowns.pop(node, None)
        for node in [n for n in self._sessions if n not in image.brokers]:
            del self._sessions[node]

    async def _wait_for_expiry(self) -> float:
        """Wait until a session may have expired. Returns how long this process was paused in the
        meantime, in seconds."""
        while True:
            self._changed = trio.Event()
            first = min((s.deadline for s in self._sessions.values()), default=float("inf"))
            with trio.CancelScope(deadline=first):
                await self._changed.wait()
                continue
            late = trio.current_time() - first
            return late if late > PAUSED_S else 0.0

    async def _expire(self, paused_s: float) -> None:
        """Fence all brokers whose sessions have expired, in one decision."""
        now = trio.current_time()
        if paused_s:
            logger.warning(
                "this controller was paused for %.1f s; heartbeats missed in that time do not "
                "fence brokers",
                paused_s,
            )
            for session in self._sessions.values():
                session.deadline = now + self._timeout_s
            return
        expired = [s for s in self._sessions.values() if s.deadline <= now]
        for session in expired:
            del self._sessions[session.broker_id]
        if expired:
            await self._fence(expired, "no heartbeat arrived within broker.session.timeout.ms")

    async def _fence(self, sessions: Sequence[_Session], reason: str) -> None:
        brokers = [(s.broker_id, s.broker_epoch) for s in sessions]
        config = self._state.config
        try:
            fenced = await self._controller.submit(
                OffLoopDecision(lambda: lambda image: fence_brokers(image, brokers, config))
            )
        except KafkaError as e:
            logger.info("brokers %s could not be fenced: %s", [i for i, _ in brokers], e)
            for session in sessions:  # try again, if this is still the controller
                self._sessions.setdefault(session.broker_id, session)
                session.deadline = trio.current_time() + FENCE_RETRY_S
            self._changed.set()
            return
        for broker_id in fenced:
            logger.warning("broker %d is fenced: %s", broker_id, reason)

    # --- probes ---

    def disconnected(self, connection_id: int) -> None:
        """Handle the end of a connection to this process's listeners."""
        for session in self._sessions.values():
            if session.connection_id == connection_id:
                session.connection_id = NO_CONNECTION
                self._probe_soon(session)

    def _probe_soon(self, session: _Session) -> None:
        nursery = self._nursery
        if nursery is None or session.probing:
            return
        if not nursery.cancel_scope.cancel_called:  # when this process ends, so do its connections
            session.probing = True
            nursery.start_soon(self._probe, session)

    async def _probe(self, session: _Session) -> None:
        """Probe the broker's listener until its state is known, and fence the broker if it is
        gone."""
        try:
            if await self._is_unreachable(session):
                await self._fence([session], "it could not be reached at its address")
        finally:
            session.probing = False

    async def _is_unreachable(self, session: _Session) -> bool:
        """Return True if no process listens at the broker's address, or a suspect does not respond;
        False if the broker sends a heartbeat again, or its session ends in another way."""
        pause_s = PROBE_PAUSE_S_MIN
        while (endpoint := self._endpoint(session)) is not None:
            try:
                channel = await self._peers.connect(
                    endpoint.host, endpoint.port, timeout_ms=PROBE_S * 1000
                )
            except PeerLost as e:
                if e.answered:
                    session.suspect = False
                elif e.refused or session.suspect:
                    return self._endpoint(session) is not None
            else:
                # The broker is alive, but it may still die before its next heartbeat gives us a
                # connection to watch.
                channel.close()
                session.suspect = False
                pause_s = PROBE_PAUSE_S_MAX
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, PROBE_PAUSE_S_MAX)
        return False

    def _endpoint(self, session: _Session) -> Endpoint | None:
        """Return the endpoint to probe, or None if there is no longer a reason: the broker has sent
        a heartbeat, was fenced, or has registered again."""
        if self._sessions.get(session.broker_id) is not session:
            return None
        broker = self._controller.image.brokers.get(session.broker_id)
        known = broker is not None and broker.broker_epoch == session.broker_epoch
        if broker is None or not known or broker.fenced or session.connection_id != NO_CONNECTION:
            return None
        return probed_endpoint(broker, self._state.config)


def probed_endpoint(broker: BrokerImage, config: BrokerConfig) -> Endpoint | None:
    """Return the listener on which a broker is probed: the one for brokers, else the first."""
    wanted = broker.endpoint(config.inter_broker_listener_name)
    return wanted or next(iter(broker.endpoints), None)


def fence_brokers(
    image: MetadataImage, brokers: Iterable[tuple[int, int]], config: BrokerConfig
) -> Decision[Event, list[int]]:
    """Fence all these brokers, given as (id, epoch), in one decision. The reply has the ids of
    those that were not fenced yet."""
    fenced: list[int] = []
    decision: Decision[Event, list[int]] = Decision(reply=fenced)
    applied = 0
    for broker_id, broker_epoch in brokers:
        image = image.apply(decision.records[applied:])
        applied = len(decision.records)
        one = fence_broker(image, broker_id, broker_epoch, config)
        decision.records += one.records
        if one.reply:
            fenced.append(broker_id)
    return decision
