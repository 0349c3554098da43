"""A broker's lifecycle in its cluster: it registers, sends heartbeats, is unfenced, and leaves.

```
register ──► fenced ──(has caught up, and serves)──► unfenced ──► shutting down ──► may shut down
   ▲                                                                    │
   └──────── the controller does not know this incarnation ◄────────────┘
```

A registration is an *incarnation*, with an id of its own, and a broker epoch assigned by the
controller. It has the epoch of the broker's last clean shutdown, so that the controller knows
whether unsynced data may be lost (KIP-966).

Heartbeats are sent every `broker.heartbeat.interval.ms`, and at once if there is news: the broker
serves now, it was fenced although it is alive, a log directory has failed, or it wants to shut
down. The broker epoch makes them idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from pk.core.broker.background import Background
from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_client import NodeToController
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.meta.brokers import register_broker
from pk.core.meta.events import Endpoint
from pk.core.meta.features import supported_features
from pk.core.meta.image import Changes, MetadataImage
from pk.core.values import Uuid
from pk.core.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from pk.core.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)

if TYPE_CHECKING:
    from pk.core.log.log_dirs import LogDirs

logger = logging.getLogger("pk.broker")

RETRY_S: Final = 0.1
"""The pause between attempts to register, and between heartbeats while waiting to be unfenced, in
seconds."""

SHUTDOWN_HEARTBEAT_S: Final = 0.02
"""The pause between heartbeats of a broker that waits to shut down, in seconds. It is short, since
the broker's clients wait too."""

RESPONSE_WAIT_S: Final = 1.5
"""The time without a response after which a broker that shuts down assumes that the controller is
gone too, and stops waiting, in seconds."""

_UNKNOWN_INCARNATION: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
_RETRIABLE: Final = (
    ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""A registration refused with one of these errors is repeated: the last incarnation's session may
expire, a controller may be elected, or its disk may have space again."""


_REFUSALS: Final = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another running process is broker {node}",
    ErrorCode.INCONSISTENT_CLUSTER_ID: (
        "the controller belongs to another cluster, this broker to {cluster}"
    ),
    ErrorCode.INVALID_REGISTRATION: (
        "a log directory has the same directory.id as another log directory of this or another "
        "broker; it may be a copy"
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of the controller's metadata log is full",
    ErrorCode.UNSUPPORTED_VERSION: (
        "the cluster uses a feature that this version does not support"
    ),
}


class RegistrationFailed(Exception):
    """The controller did not accept this broker; the message is one sentence for the operator."""


class BrokerLifecycle:
    """The lifecycle of this broker."""

    def __init__(
        self,
        state: BrokerState,
        controller_client: NodeToController,
        dirs: LogDirs,
        endpoints: Sequence[Endpoint],
        background: Background,
        *,
        new_id: Callable[[], Uuid],
    ) -> None:
        """`endpoints` are those of the listeners for brokers and clients; `new_id` generates
        incarnation ids. `background` ends the node if this broker cannot continue."""
        self._state = state
        self._controller_client = controller_client
        self._dirs = dirs
        self._endpoints = list(endpoints)
        self._clean_epoch = dirs.clean_broker_epoch
        self._registered_dirs: set[Uuid] = set()
        self._reported_failed: set[Uuid] = set()
        self._failed_since: dict[Uuid, float] = {}
        self._serves = False
        self._shutting_down = False
        self._sends_heartbeats = False
        self._unfenced = trio.Event()
        self._may_shut_down = trio.Event()
        self._responded_at = 0.0
        self.last_error = ""
        """The reason why the controller has not accepted this broker yet; empty if it has, or did
        not respond."""
        self._wake = trio.Event()
        """Set to send the next heartbeat at once."""
        self._outdated = trio.Event()
        """Set if the current heartbeat is outdated."""
        self._new_id = new_id
        self._background = background
        self.registered_again: list[Callable[[], None]] = []
        """Called when this broker has a new epoch: an image with that epoch may have arrived too
        early to be used."""

    async def register_first(self, controller: Controller) -> None:
        """Register with a controller in this process that no other broker knows; the broker is
        unfenced and leads at once.

        Raises RegistrationFailed.
        """
        config, request = self._state.config, self._request()
        self._accept(
            await controller.submit(
                lambda image: register_broker(image, request, config, fenced=False)
            )
        )
        self._serves = True

    async def register(self) -> None:
        """Register with the active controller, in any process. Raises RegistrationFailed, at the
        latest after `initial.broker.registration.timeout.ms`."""
        timeout_ms = self._state.config.initial_broker_registration_timeout_ms
        await self._register(timeout_ms)

    async def serve(self) -> None:
        """Report that the broker serves; returns when the controller has unfenced it."""
        self._serves = True
        self._heartbeat_now()
        await self._unfenced.wait()

    async def run(self) -> None:
        """Send heartbeats until cancelled; register again if the controller does not know this
        incarnation."""
        self._sends_heartbeats = True
        while True:
            self._wake, self._outdated = trio.Event(), trio.Event()
            sent = trio.current_time()
            answer: BrokerHeartbeatResponse | None = None
            request = self._heartbeat()
            async with trio.open_nursery() as nursery:
                # A heartbeat with news is not delayed by a request that waits for a controller to
                # be elected.
                nursery.start_soon(_cancel_when, self._outdated, nursery.cancel_scope)
                answer = await self._send(request)
                nursery.cancel_scope.cancel()
            if answer is not None:
                await self._handle_response(request, answer)
            with trio.CancelScope(deadline=sent + self._interval_s()):
                await self._wake.wait()

    async def controlled_shutdown(self, timeout_s: float) -> None:
        """Request that the controller move leadership away from this broker, and wait until the
        broker may shut down, for at most `timeout_s` seconds. Does nothing with
        `controlled.shutdown.enable=false`, or if no heartbeats are sent."""
        if not self._sends_heartbeats or not self._state.config.controlled_shutdown_enable:
            return
        self._shutting_down = True
        self._heartbeat_now()
        deadline = trio.current_time() + timeout_s
        self._responded_at = trio.current_time()
        while not self._may_shut_down.is_set():
            response_deadline = self._responded_at + RESPONSE_WAIT_S
            if trio.current_time() >= min(deadline, response_deadline):
                logger.warning("the controller did not confirm the shutdown of this broker")
                return
            with trio.CancelScope(deadline=min(deadline, response_deadline)):
                await self._may_shut_down.wait()

    def directory_failed(self) -> None:
        """Report a failed log directory to the controller at once."""
        self._heartbeat_now()

    def _heartbeat_now(self) -> None:
        """Send a heartbeat with the current state now."""
        self._outdated.set()
        self._wake.set()

    def _interval_s(self) -> float:
        if self._shutting_down and not self._may_shut_down.is_set():
            return SHUTDOWN_HEARTBEAT_S
        if self._serves and not self._unfenced.is_set():
            return RETRY_S
        return self._state.config.broker_heartbeat_interval_ms / 1000

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """Note whether a new image fences or unfences this broker."""
        me = image.brokers.get(self._state.node_id)
        if me is None or me.broker_epoch != self._state.broker_epoch:
            return
        if me.fenced:
            if self._unfenced.is_set():
                self._unfenced = trio.Event()
            if self._serves:
                self._wake.set()
        else:
            self._unfenced.set()
        if self._shutting_down:
            self._wake.set()

    # --- heartbeats ---

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        state = self._state
        return BrokerHeartbeatRequest(
            broker_id=state.node_id,
            broker_epoch=state.broker_epoch,
            # `image.offset` is the offset of the next event, and this field that of the last
            # applied one.
            current_metadata_offset=state.image.offset - 1,
            want_fence=not self._serves,
            want_shut_down=self._shutting_down,
            offline_log_dirs=self._failed_dirs(),
        )

    async def _send(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse | None:
        # A controller that is slow to respond is alive. Half the session leaves time to try another
        # controller, or to retry.
        timeout_ms = self._state.config.broker_session_timeout_ms / 2
        try:
            return await self._controller_client.request(request, timeout_ms=timeout_ms)
        except KafkaError as e:
            logger.info("the heartbeat failed: %s", e)
            return None

    async def _handle_response(
        self, request: BrokerHeartbeatRequest, answer: BrokerHeartbeatResponse
    ) -> None:
        if answer.error_code in _UNKNOWN_INCARNATION:
            if self._shutting_down:
                self._may_shut_down.set()
                return
            await self._register_again(answer.error_code)
        elif answer.error_code:
            logger.warning("the heartbeat was refused: %s", error_name(answer.error_code))
        else:
            self._responded_at = trio.current_time()
            self._reported_failed.update(request.offline_log_dirs)
            if answer.should_shut_down:
                self._may_shut_down.set()

    def _failed_dirs(self) -> list[Uuid]:
        """Return the registered directories that have failed. If one could not be reported to the
        controller for too long, stop the broker, since its partitions would have no leader
        (KIP-858)."""
        now = trio.current_time()
        limit_s = self._state.config.log_dir_failure_timeout_ms / 1000
        failed = [
            directory.directory_id
            for directory in self._dirs.directories
            if directory.failed and directory.directory_id in self._registered_dirs
        ]
        for one in failed:
            since = self._failed_since.setdefault(one, now)
            if one not in self._reported_failed and now - since > limit_s:
                self._background.fail(
                    f"could not report within {limit_s:g} s to the controller that a log directory "
                    "failed"
                )
        return failed

    # --- registration ---

    async def _register_again(self, code: int) -> None:
        """Register as a new incarnation. The process did not end, so its data is still that of the
        last epoch."""
        state = self._state
        logger.warning("the controller does not know this broker: %s", error_name(code))
        self._clean_epoch = state.broker_epoch
        try:
            await self._register(state.config.initial_broker_registration_timeout_ms)
        except RegistrationFailed as e:
            self._background.fail(str(e).rstrip("."))
        else:
            for callback in self.registered_again:
                callback()

    async def _register(self, timeout_ms: int) -> None:
        request = self._request()
        reason = "no controller was found"
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                try:
                    answer = await self._controller_client.request(request, timeout_ms=timeout_ms)
                except KafkaError as e:
                    answer = BrokerRegistrationResponse(error_code=e.code)
                    reason, self.last_error = str(e), ""
                else:
                    reason = self.last_error = self._refusal(answer.error_code)
                if answer.error_code not in _RETRIABLE:
                    self._accept(answer)
                    return
                await trio.sleep(RETRY_S)
        raise RegistrationFailed(
            f"broker {self._state.node_id} could not register within {timeout_ms} ms: {reason}"
        )

    def _request(self) -> BrokerRegistrationRequest:
        state = self._state
        self._registered_dirs = {directory.directory_id for directory in self._dirs.usable}
        return BrokerRegistrationRequest(
            broker_id=state.node_id,
            cluster_id=state.cluster_id,
            incarnation_id=self._new_id(),
            listeners=[
                Listener(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in self._endpoints
            ],
            features=supported_features(),
            rack=state.config.broker_rack,
            log_dirs=[directory.directory_id for directory in self._dirs.usable],
            previous_broker_epoch=self._clean_epoch,
        )

    def _refusal(self, code: int) -> str:
        """Return the error in a registration response, by name and in words; empty for no error."""
        if not code:
            return ""
        if code not in _REFUSALS:
            return error_name(code)
        state = self._state
        description = _REFUSALS[ErrorCode(code)].format(
            node=state.node_id, cluster=state.cluster_id
        )
        return f"{error_name(code)}, {description}"

    def _accept(self, answer: BrokerRegistrationResponse) -> None:
        if answer.error_code:
            raise RegistrationFailed(
                f"the controller refused broker {self._state.node_id}: "
                f"{self._refusal(answer.error_code)}"
            )
        self._state.broker_epoch = answer.broker_epoch
        if self._unfenced.is_set():  # otherwise, keep the event for which a task may be waiting
            self._unfenced = trio.Event()
        self._reported_failed.clear()
        self._failed_since.clear()


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
