"""Changes of one partition: which replicas are in sync, eligible, or leader (KIP-455, KIP-966).

A decision about a partition asks for a change (another ISR, other replicas, a replica that may have
lost its tail), and `change` does what the rules allow, in this order:

1. A reassignment whose target replicas are all in the ISR is complete: the removed ones are
dropped.
2. While the ISR is smaller than `min.insync.replicas` nothing is acknowledged and the high
   watermark stands still. So a replica that leaves the ISR then has everything that was
   acknowledged, and stays an *eligible leader replica* until the ISR is large enough again. A
   replica that may have lost what it once had (its broker came back without having shut down
   cleanly) leaves the ISR and is never eligible by virtue of its past.
3. A replica that leaves the ISR and is not eligible stays in `last_known_elr` as long as it may be
the only
   one left with all that was acknowledged: until the leader is known to continue without it, or the
   leader itself reports an ISR that is large enough again. Being in it does not make a replica
   leader; it says whose logs are compared before a leader is chosen (unclean_recovery.py).
4. The leader stays while it may. Otherwise the first replica of the ISR that may lead does; if the
ISR is empty, the first eligible one, which then is the ISR. If both are empty, the logs are
compared, unless there is only one replica. Any other unclean leader needs
`unclean.leader.election.enable`.
5. A new leader, and the loss of a replica, begin a new leader epoch.

The ISR may be empty, then there is no leader. `min.insync.replicas` counts at most as many as there
are replicas, and leaders must count it so too.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta.events import Event, PartitionChanged
from pk.core.meta.image import MetadataImage, PartitionImage, TopicImage
from pk.core.meta.image import changed as after
from pk.core.values import NO_EPOCH, NO_LEADER, NO_NODE, NO_OFFSET, ZERO_UUID, Uuid
from pk.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

Nodes = tuple[int, ...]

MIN_ISR: Final = "min.insync.replicas"

EPOCHS_SINCE: Final = 3
"""The first version of AlterPartition whose ISR has the epochs of its brokers (KIP-903)."""

UNASSIGNED: Final[Uuid] = ZERO_UUID
"""The directory of a replica of which none is known yet (KIP-858)."""
LOST: Final[Uuid] = bytes(15) + b"\x01"
"""That of a replica whose directory failed before it was known."""
MIGRATING: Final[Uuid] = bytes(15) + b"\x02"
SOMEWHERE: Final = frozenset({UNASSIGNED, MIGRATING})
"""Directories that are not known, and believed to work."""


class Rules:
    """The rules for leadership in an image and its configs, built once per decision over many
    partitions."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        """`config` is the controller's own; configs that the cluster stores for all brokers
        override it."""
        self.image = image
        self._config = effective(image, config)
        self.strategy = self._config.unclean_recovery_strategy
        self._topics: dict[str, tuple[int, bool]] = {}
        self._alive = {b.broker_id: b.log_dirs for b in image.brokers.values() if b.may_lead}

    def may_lead(self, node: int, directory: Uuid = UNASSIGNED) -> bool:
        """Whether `node` is there, is to stay, and its replica's directory works."""
        log_dirs = self._alive.get(node)
        return log_dirs is not None and (directory in SOMEWHERE or directory in log_dirs)

    def has_gone_on(self, partition: PartitionImage) -> bool:
        """Whether the partition's leader is known to have acted on the current ISR: replicas that
        left may lack records acknowledged since."""
        brokers = self.image.brokers
        leader = brokers.get(partition.leader)
        if leader is None:
            return False
        left = (n for n in partition.replicas if n not in partition.isr and n in brokers)
        out = (brokers[n].out_offset for n in left)
        return leader.known_offset >= max(out, default=NO_OFFSET)

    def of(self, topic: str) -> tuple[int, bool]:
        """`min.insync.replicas` and `unclean.leader.election.enable` of a topic."""
        known = self._topics.get(topic)
        if known is None:
            config = self._config.topic(self.image.topic_configs(topic))
            known = (config.min_insync_replicas, config.unclean_leader_election_enable)
            self._topics[topic] = known
        return known


def effective(image: MetadataImage, config: BrokerConfig) -> BrokerConfig:
    """The controller's configuration with the cluster's overrides, except those for a single
    broker."""
    cluster = image.broker_configs(None)
    if not config.dynamic and config.dynamic_default == cluster:
        return config
    return config.with_dynamic(cluster, {})


def change(
    rules: Rules,
    topic: TopicImage,
    old: PartitionImage,
    *,
    isr: Nodes | None = None,
    by_leader: bool = False,
    lost: int = NO_NODE,
    emptied: int = NO_NODE,
    replicas: Nodes | None = None,
    adding: Nodes | None = None,
    removing: Nodes | None = None,
    directories: Mapping[int, Uuid] | None = None,
    recovering: bool | None = None,
    preferred: bool = False,
    unclean: bool | None = None,
    chosen: int = NO_LEADER,
    lossy: bool = False,
    new_epoch: bool = False,
) -> PartitionChanged | None:
    """Apply the rules at the top of this file to `old` with the given changes (None: unchanged);
    return None if nothing changes.

    `by_leader`: the leader asks for this ISR. `lost` is a replica that may have lost its tail,
    `emptied` one that has lost everything; `preferred` makes the first replica leader if it may
    lead; `unclean` overrules the topic's config; `chosen` leads, though not eligible, if there is
    no leader, and with `lossy` that may cost records; `new_epoch` begins a leader epoch in any
    case.
    """
    isr = old.isr if isr is None else isr
    if lost != NO_NODE or emptied != NO_NODE:
        isr = tuple(n for n in isr if n not in (lost, emptied))
    replicas = old.replicas if replicas is None else replicas
    adding = old.adding if adding is None else adding
    removing = old.removing if removing is None else removing
    if adding or removing:
        replicas, adding, removing, isr = _reassigned(replicas, adding, removing, isr)
    placed = _placed(old, replicas, directories)
    isr_min, allowed = rules.of(topic.name)
    isr_min = min(isr_min, len(replicas))
    enough = len(isr) >= isr_min
    elr: Nodes = ()
    if not enough:
        were = {*old.isr, *old.elr} - {*isr, lost, emptied}
        elr = tuple(n for n in replicas if n in were)
    known = () if by_leader and enough else _last_known(rules, old, isr, elr, enough, isr_min)
    known = tuple(n for n in known if n in replicas and n != emptied)
    leader, epoch = old.leader, None
    if (
        preferred
        or chosen != NO_LEADER
        or leader not in isr
        or not rules.may_lead(leader, _directory(leader, replicas, placed))
    ):
        if unclean is None:
            unclean = allowed
        if leader in replicas and leader not in isr and leader != emptied:
            known = (leader, *without(known, leader))
        leader, forced = chosen, True
        if chosen == NO_LEADER:
            safe = isr or elr
            leader, forced = _elect(rules, old, replicas, placed, safe, known, preferred, unclean)
            lossy = forced and len(replicas) > 1
        if lossy:
            epoch = old.leader_epoch + 1
        if forced:
            known = () if lossy or isr_min <= 1 else _unique((*known, *elr))
            isr, elr, recovering = (leader,), (), True
        elif leader in elr:
            isr, elr = (leader,), without(elr, leader) if isr_min > 1 else ()
        if leader != NO_LEADER:
            known = tuple(n for n in known if n not in (*isr, *elr))
    found = (
        leader if new_epoch or leader != old.leader or _shrunk(old, replicas) else None,
        None if isr == old.isr else isr,
        None if elr == old.elr else elr,
        None if known == old.last_known_elr else known,
        None if replicas == old.replicas else replicas,
        None if adding == old.adding else adding,
        None if removing == old.removing else removing,
        None if placed == old.directories else placed,
        None if recovering is None or recovering == old.recovering else recovering,
        epoch,
    )
    return None if found == _NOTHING else PartitionChanged(topic.topic_id, old.partition, *found)


_NOTHING: Final = (None,) * 10


def _last_known(
    rules: Rules, old: PartitionImage, isr: Nodes, elr: Nodes, enough: bool, isr_min: int
) -> Nodes:
    """The replicas that may be needed in addition to the ISR and the eligible ones. A replica
    needed while too few are in sync stays needed until enough are, since nothing is acknowledged
    until then."""
    gone_on = rules.has_gone_on(old)
    stays = old.last_known_elr
    if gone_on and (enough or len(old.isr) >= isr_min):
        stays = ()
    left = old.isr if enough and gone_on else (*old.isr, *old.elr)
    # The last leader may be eligible as well.
    stays = tuple(n for n in stays if n not in elr or old.leader == NO_LEADER)
    left = tuple(n for n in left if n not in elr)
    return _unique(n for n in (*stays, *left) if n not in isr)


def _unique(nodes: Iterable[int]) -> Nodes:
    return tuple(dict.fromkeys(nodes))


def without(nodes: Nodes, node: int) -> Nodes:
    """`nodes` but `node`."""
    return tuple(n for n in nodes if n != node) if node in nodes else nodes


def _reassigned(
    replicas: Nodes, adding: Nodes, removing: Nodes, isr: Nodes
) -> tuple[Nodes, Nodes, Nodes, Nodes]:
    """The same four, with the reassignment finished if it is complete."""
    target = tuple(n for n in replicas if n not in removing)
    if target and all(n in isr for n in target):
        return target, (), (), tuple(n for n in isr if n in target)
    return replicas, adding, removing, isr


def _placed(
    old: PartitionImage, replicas: Nodes, directories: Mapping[int, Uuid] | None
) -> tuple[Uuid, ...]:
    """The directory of each replica: as given, or as it was; that of a new one is not known."""
    if directories is None and replicas == old.replicas:
        return old.directories
    given = directories or {}
    found = tuple(given.get(n) or old.directory(n) for n in replicas)
    return found if any(d != UNASSIGNED for d in found) else ()


def _directory(node: int, replicas: Nodes, placed: tuple[Uuid, ...]) -> Uuid:
    return placed[replicas.index(node)] if placed and node in replicas else UNASSIGNED


def _shrunk(old: PartitionImage, replicas: Nodes) -> bool:
    """Whether a replica is gone: it must not be taken for one of the same leader epoch."""
    return replicas is not old.replicas and any(n not in replicas for n in old.replicas)


def _elect(
    rules: Rules,
    old: PartitionImage,
    replicas: Nodes,
    placed: tuple[Uuid, ...],
    safe: Nodes,
    known: Nodes,
    preferred: bool,
    unclean: bool,
) -> tuple[int, bool]:
    """The leader, and whether its election is unclean. Replicas in `safe` have every acknowledged
    record, those in `known` may have."""
    there = [n for n in replicas if rules.may_lead(n, _directory(n, replicas, placed))]
    candidates = [n for n in there if n in safe]
    if candidates:
        moves = preferred and candidates[0] == replicas[0]
        return (candidates[0] if moves or old.leader not in candidates else old.leader), False
    if len(replicas) == 1 and known == replicas and there:
        return replicas[0], True  # no log to compare its own with
    if unclean and there:
        return there[0], True
    return NO_LEADER, False


def stale(image: MetadataImage, broker_id: int, broker_epoch: int) -> bool:
    """Whether this is not the epoch of a registered broker: answered STALE_BROKER_EPOCH."""
    broker = image.brokers.get(broker_id)
    return broker is None or broker.broker_epoch != broker_epoch


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, config: BrokerConfig, version: int
) -> Decision[Event, AlterPartitionResponse]:
    """Decide an AlterPartition request (KIP-497, KIP-841, KIP-903) of a leader; the reply is its
    response.

    Each partition is decided by itself. A new ISR that completes a reassignment may move leadership
    away from the broker that asks. The answer is then NEW_LEADER_ELECTED, and the change is still
    made.

    A leader that learns that a replica may not join continues without it. An earlier copy of the
    request may still arrive from a connection that was since dropped; if that copy were accepted
    later, a replica would join for which no leader waits. So the refusal begins a new partition
    epoch, which invalidates such copies.
    """
    decision: Decision[Event, AlterPartitionResponse] = Decision()
    if stale(image, request.broker_id, request.broker_epoch):
        decision.reply = AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return decision
    rules = Rules(image, config)
    decision.reply = response = AlterPartitionResponse()
    changed: dict[tuple[Uuid, int], PartitionImage] = {}
    for asked in request.topics:
        topic = image.topic_by_id(asked.topic_id)
        answer = ResponseTopicData(topic_id=asked.topic_id)
        response.topics.append(answer)
        for data in asked.partitions:
            if topic is None:
                answer.partitions.append(_refused(data, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            key = (topic.topic_id, data.partition_index)
            partition = changed.get(key) or topic.partition(data.partition_index)
            if partition is None:
                answer.partitions.append(_refused(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            isr = _epochs(data, version)
            code = _objection(image, rules, partition, request.broker_id, data, isr)
            if code != ErrorCode.NONE:
                answer.partitions.append(_refused(data, code))
                if code == ErrorCode.INELIGIBLE_REPLICA and _joins(partition, isr):
                    void = PartitionChanged(topic.topic_id, partition.partition)
                    decision.records.append(void)
                    changed[key] = after(partition, void)
                continue
            event = change(
                rules,
                topic,
                partition,
                isr=tuple(node for node, _ in isr),
                by_leader=True,
                recovering=bool(data.leader_recovery_state),
            )
            if event is not None:
                decision.records.append(event)
                partition = changed[key] = after(partition, event)
            answer.partitions.append(_answer(partition, request.broker_id))
    return decision


def _epochs(data: PartitionData, version: int) -> list[tuple[int, int]]:
    """The ISR asked for, with the broker epochs that the leader knows, or -1."""
    if version < EPOCHS_SINCE:
        return [(node, NO_EPOCH) for node in data.new_isr]
    return [(state.broker_id, state.broker_epoch) for state in data.new_isr_with_epochs]


def _objection(
    image: MetadataImage,
    rules: Rules,
    partition: PartitionImage,
    leader: int,
    data: PartitionData,
    isr: list[tuple[int, int]],
) -> ErrorCode:
    """The reason to refuse this ISR, or NONE."""
    nodes = [node for node, _ in isr]
    # A leader that is ahead of this image heard from another controller, which is the true one.
    if data.leader_epoch > partition.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(nodes)) < len(nodes) or not set(nodes).issubset(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if leader not in nodes:
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in (0, 1):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state and (len(nodes) > 1 or not partition.recovering):
        return ErrorCode.INVALID_REQUEST
    for node, epoch in isr:
        if not rules.may_lead(node, partition.directory(node)):
            return ErrorCode.INELIGIBLE_REPLICA
        if epoch not in (NO_EPOCH, image.brokers[node].broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _joins(partition: PartitionImage, isr: list[tuple[int, int]]) -> bool:
    return any(node not in partition.isr for node, _ in isr)


def _refused(data: PartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=data.partition_index, error_code=code)


def _answer(partition: PartitionImage, asked_by: int) -> ResponsePartitionData:
    if partition.leader != asked_by:
        return ResponsePartitionData(
            partition_index=partition.partition, error_code=ErrorCode.NEW_LEADER_ELECTED
        )
    return ResponsePartitionData(
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=int(partition.recovering),
        partition_epoch=partition.partition_epoch,
    )
