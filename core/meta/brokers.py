"""Brokers and controllers of a cluster: registration, heartbeats, shutdown (KIP-631, KIP-841,
KIP-858, KIP-919, KIP-966).

The states of a broker, and the heartbeats that change them:

    registered, fenced ──caught up──► unfenced ──want_shut_down──► in controlled shutdown
        ▲    ▲                           │                                  │ leads nothing
        │    └──want_fence, no session───┘                                  ▼
        └────────────────a new incarnation registers────────────── may go, fenced

A broker that is fenced or in controlled shutdown leads no partition and is in no ISR. It may still
be eligible to lead the partitions with which it was in sync (see partition_change_builder.py). A
broker that returns without the epoch of its last clean shutdown is removed from every ISR and is no
longer an eligible leader replica, before its registration takes effect, because it may have lost
unsynced records.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta import elections
from pk.core.meta.events import (
    BROKER,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    ControllerRegistered,
    Endpoint,
    Event,
    FeatureRange,
)
from pk.core.meta.image import BrokerImage, MetadataImage
from pk.core.meta.partition_rules import MIN_ISR, PartitionRules, effective
from pk.core.values import NO_OFFSET, Uuid
from pk.core.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from pk.core.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from pk.core.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from pk.core.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

_Registration = BrokerRegistrationRequest | ControllerRegistrationRequest

_RESERVED_DIRECTORIES: Final = 100
"""Directory ids up to this number have special meanings (KIP-858)."""


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    config: BrokerConfig,
    *,
    alive: bool = False,
    fenced: bool = True,
) -> Decision[Event, BrokerRegistrationResponse]:
    """Decide a BrokerRegistration request; the reply is its response, with the new broker epoch.

    The broker epoch is the offset of the registration in the metadata log, so it only rises.
    `alive` is whether the incarnation that is registered under this id still has a session. If so,
    another incarnation is refused with DUPLICATE_BROKER_REGISTRATION. A repeated request with the
    same incarnation id gets the same epoch. A broker that shares its process with the only
    controller sends no heartbeats: it registers with `fenced=False` and may lead at once.

    A new incarnation leaves every ISR. It stays eligible only if it gives, as
    `previous_broker_epoch`, the epoch of the registration it replaces, which means that it shut
    down cleanly. Other errors: INCONSISTENT_CLUSTER_ID, INVALID_REGISTRATION (log directories),
    UNSUPPORTED_VERSION (a finalized feature that it does not support).
    """
    code = _objection(image, request, alive)
    if code != ErrorCode.NONE:
        return Decision(reply=BrokerRegistrationResponse(error_code=code))
    old = image.brokers.get(request.broker_id)
    if old is not None and old.incarnation_id == request.incarnation_id:
        again = _registered(request, old.broker_epoch, old.fenced, old.in_controlled_shutdown)
        records = [] if _is_unchanged(old, again) else [again]
        return Decision([*records], reply=BrokerRegistrationResponse(broker_epoch=old.broker_epoch))
    clean = old is not None and old.broker_epoch == request.previous_broker_epoch
    # The rules judge the image with the new registration. Its epoch depends on their events.
    then = image.apply([_registered(request, image.offset, fenced)])
    changes = list(
        elections.broker_registered(
            then, PartitionRules(then, config), request.broker_id, clean=clean
        )
    )
    records: list[Event] = [*_min_isr(image, config), *changes] if fenced else [*changes]
    epoch = image.offset + len(records)
    return Decision(
        [*records, _registered(request, epoch, fenced)],
        reply=BrokerRegistrationResponse(broker_epoch=epoch),
    )


def _min_isr(image: MetadataImage, config: BrokerConfig) -> Iterator[Event]:
    """Store the controller's `min.insync.replicas` for all brokers at the first registration: in a
    cluster of several nodes all must use the same value, even if their files differ (KIP-966)."""
    if MIN_ISR not in image.broker_configs(None):
        yield ConfigChanged(BROKER, "", MIN_ISR, str(effective(image, config)[MIN_ISR]))


def _objection(image: MetadataImage, request: BrokerRegistrationRequest, alive: bool) -> ErrorCode:
    node = request.broker_id
    old = image.brokers.get(node)
    if request.cluster_id != image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if alive and old is not None and old.incarnation_id != request.incarnation_id:
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    taken = {d for b in image.brokers.values() if b.broker_id != node for d in b.log_dirs}
    for directory in request.log_dirs:
        if directory in taken or int.from_bytes(directory, "big") < _RESERVED_DIRECTORIES:
            return ErrorCode.INVALID_REGISTRATION
    if len(set(request.log_dirs)) < len(request.log_dirs):
        return ErrorCode.INVALID_REGISTRATION
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    for name, level in image.features.items():
        low, high = ranges.get(name, (0, 0))
        if not low <= level <= high:
            return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def _registered(
    request: BrokerRegistrationRequest, epoch: int, fenced: bool, shutdown: bool = False
) -> BrokerRegistered:
    return BrokerRegistered(
        request.broker_id,
        epoch,
        request.incarnation_id,
        _endpoints(request),
        request.rack,
        tuple(request.log_dirs),
        _features(request),
        fenced,
        shutdown,
    )


def _endpoints(request: _Registration) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners)


def _features(request: _Registration) -> tuple[FeatureRange, ...]:
    return tuple(
        FeatureRange(f.name, f.min_supported_version, f.max_supported_version)
        for f in request.features
    )


def _is_unchanged(old: BrokerImage, new: BrokerRegistered) -> bool:
    return (old.endpoints, old.rack, old.log_dirs, old.features) == (
        new.endpoints,
        new.rack,
        new.log_dirs,
        new.features,
    )


def heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    config: BrokerConfig,
    *,
    may_shut_down: bool = True,
) -> Decision[Event, BrokerHeartbeatResponse]:
    """Decide a BrokerHeartbeat request; the reply is its response (or STALE_BROKER_EPOCH, also if
    no broker is registered under the id: the broker must register again).

    `current_metadata_offset` is the offset of the last event that the broker has applied (its
    image's `offset` less one); the broker is caught up when it has applied its own registration,
    and is not unfenced before that. A broker that wants to shut down first loses its leaderships
    and leaves its ISRs. A later heartbeat lets it shut down if `may_shut_down` is set, which means
    that the other brokers know the new leaders. A broker that is fenced, wants to be, or leads
    nothing may shut down at once.
    """
    node = request.broker_id
    if image.is_stale(node, request.broker_epoch):
        return Decision(reply=BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    broker = image.brokers[node]
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    records: list[Event] = []
    fenced, go = broker.fenced, False
    if request.want_shut_down and (
        fenced
        or request.want_fence
        or (broker.in_controlled_shutdown and may_shut_down)
        or not (broker.in_controlled_shutdown or elections.leads(image, node))
    ):
        fenced = go = True
        records += _fenced(image, broker, config)
    elif broker.in_controlled_shutdown:
        # Only a new registration ends a controlled shutdown.
        pass
    elif request.want_shut_down:
        records += _shutting_down(image, broker, config)
    elif request.want_fence:
        fenced = True
        records += _fenced(image, broker, config)
    elif fenced and caught_up:
        fenced = False
        records += _unfenced(image, broker, config)
    if request.offline_log_dirs:
        then = image.apply(records)
        records += _directories_failed(then, node, request.offline_log_dirs, config)
    if not broker.fenced and not records:
        records += _known_offset(image, broker, request.current_metadata_offset)
    return Decision(
        records,
        reply=BrokerHeartbeatResponse(
            is_caught_up=caught_up, is_fenced=fenced, should_shut_down=go
        ),
    )


def _known_offset(image: MetadataImage, broker: BrokerImage, offset: int) -> Iterator[Event]:
    """Note that a broker has applied the events that removed other brokers from ISRs: its
    partitions continue without them (partition_change_builder.py, step 3). Writes one event for
    each such removal."""
    others = (b.out_offset for b in image.brokers.values() if b is not broker)
    if broker.known_offset < max(others, default=NO_OFFSET) <= offset:
        yield BrokerChanged(broker.broker_id, broker.broker_epoch, known_offset=offset)


def _unfenced(image: MetadataImage, broker: BrokerImage, config: BrokerConfig) -> Iterator[Event]:
    change = BrokerChanged(broker.broker_id, broker.broker_epoch, fenced=False)
    then = image.apply([change])
    yield change
    yield from elections.broker_unfenced(then, PartitionRules(then, config), broker.broker_id)


def _fenced(image: MetadataImage, broker: BrokerImage, config: BrokerConfig) -> Iterator[Event]:
    if broker.fenced:
        return
    change = BrokerChanged(broker.broker_id, broker.broker_epoch, fenced=True)
    yield from _remove_from_isrs(image, change, config)
    yield change


def _shutting_down(
    image: MetadataImage, broker: BrokerImage, config: BrokerConfig
) -> Iterator[Event]:
    change = BrokerChanged(broker.broker_id, broker.broker_epoch, in_controlled_shutdown=True)
    yield change
    yield from _remove_from_isrs(image, change, config)


def _remove_from_isrs(
    image: MetadataImage, change: BrokerChanged, config: BrokerConfig
) -> Iterator[Event]:
    then = image.apply([change])
    return elections.remove_from_isrs(then, PartitionRules(then, config), change.broker_id)


def _directories_failed(
    image: MetadataImage, node: int, offline: Sequence[Uuid], config: BrokerConfig
) -> Iterator[Event]:
    """Fail log directories (KIP-858): their replicas stop leading and leave the ISR."""
    broker = image.brokers[node]
    lost = frozenset(offline).intersection(broker.log_dirs)
    if not lost:
        return
    left = tuple(d for d in broker.log_dirs if d not in lost)
    change = BrokerChanged(node, broker.broker_epoch, log_dirs=left)
    then = image.apply([change])
    yield from elections.remove_from_isrs(then, PartitionRules(then, config), node, lost)
    yield change


def fence_broker(
    image: MetadataImage, broker_id: int, broker_epoch: int, config: BrokerConfig
) -> Decision[Event, bool]:
    """Fence a broker whose session has expired. Does nothing if it is already fenced or has
    registered again. The reply is whether anything changed."""
    if image.is_stale(broker_id, broker_epoch):
        return Decision(reply=False)
    records = list(_fenced(image, image.brokers[broker_id], config))
    return Decision(records, reply=bool(records))


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, config: BrokerConfig
) -> Decision[Event, UnregisterBrokerResponse]:
    """Decide an UnregisterBroker request: removes the broker from every ISR and from the cluster.
    Its replicas stay assigned. Partitions for which it was eligible wait for an unclean election,
    or until the broker registers again, which does not count as a clean return. Error:
    BROKER_ID_NOT_REGISTERED."""
    node = request.broker_id
    broker = image.brokers.get(node)
    if broker is None:
        return Decision(
            reply=UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {node} is not currently registered",
            )
        )
    event = BrokerUnregistered(node, broker.broker_epoch)
    then = image.apply([event])
    changes = elections.remove_from_isrs(then, PartitionRules(then, config), node)
    return Decision([*changes, event], reply=UnregisterBrokerResponse(error_message=None))


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[Event, ControllerRegistrationResponse]:
    """Decide a ControllerRegistration request (KIP-919): the addresses of a node that may become
    the controller. A repeated registration with the same addresses changes nothing."""
    event = ControllerRegistered(
        request.controller_id,
        request.incarnation_id,
        _endpoints(request),
        _features(request),
    )
    known = image.controllers.get(request.controller_id)
    same = known is not None and known == image.apply([event]).controllers[request.controller_id]
    return Decision(
        [] if same else [event], reply=ControllerRegistrationResponse(error_message=None)
    )
