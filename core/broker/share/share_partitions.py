"""The share partitions that this broker leads, and the share sessions of the members that fetch
from them.

A share partition is loaded when a request first needs it. It ends when the partition's leadership
changes, when its topic is deleted, and when the last session of its group on this broker ends. In
the last case nothing is in flight, and offsets that were altered take effect with the next session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from pk.core.broker.coordinator.share_state_client import ShareStateClient
from pk.core.broker.coordinator.timers import Timers
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.share.share_partition import Reset, SharePartition
from pk.core.broker.state import BrokerState
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.meta.events import GROUP
from pk.core.meta.image import Changes, MetadataImage
from pk.core.share.partition_state import SharePartitionSettings
from pk.core.share.records import ShareKey
from pk.core.share.sessions import SessionKey, ShareSession, ShareSessions
from pk.core.values import TopicIdPartition

READ_COMMITTED: Final = "read_committed"

_NOT_LEADER: Final = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class SharePartitions:
    """The share partitions and share sessions of one broker."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        share_state_client: ShareStateClient,
        purgatory: Purgatory,
        start_soon: Callable[..., None],
    ) -> None:
        self._state = state
        self._replicas = replicas
        self._share_state_client = share_state_client
        self.purgatory = purgatory
        self.start_soon = start_soon
        self.clock = replicas.clock
        self.timers: Timers[SharePartition] = Timers()
        self._ticking = False
        self._closed = False
        self._partitions: dict[ShareKey, SharePartition] = {}
        self.sessions = ShareSessions(state.config.group_share_max_share_sessions)
        self._of_config: tuple[BrokerConfig, SharePartitionSettings] | None = None

    # --- share partitions ---

    def find(self, group_id: str, tp: TopicIdPartition) -> SharePartition:
        """Return the share partition, which may still be loading. Raises UNKNOWN_TOPIC_ID, or the
        error for a partition that this broker does not lead, or leads no longer because it is
        stopping."""
        if self._closed:
            raise without_frames(_NOT_LEADER)
        partition = self._partition(tp)
        key = ShareKey(group_id, *tp)
        known = self._partitions.get(key)
        if known is not None and known.partition is partition:
            if known.leader_epoch == partition.leader_epoch:
                known.keep()
                return known
            known.drop(_NOT_LEADER)
        if not self._ticking:
            self._ticking = True
            self.start_soon(self.timers.run, _expire)
        share_partition = SharePartition(
            key,
            partition,
            self._share_state_client,
            self,
        )
        self._partitions[key] = share_partition
        self.start_soon(share_partition.load)
        return share_partition

    def _partition(self, tp: TopicIdPartition) -> Partition:
        topic = self._state.image.topic_by_id(tp.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._replicas.partition(topic.name, tp.partition)
        partition.check_leader()
        return partition

    def dropped(self, share_partition: SharePartition) -> None:
        """Remove an ended share partition (see `SharePartitionOwner`)."""
        if self._partitions.get(share_partition.key) is share_partition:
            del self._partitions[share_partition.key]

    # --- the group's configs ---

    def settings_of(self, group_id: str) -> SharePartitionSettings:
        """Return the group's own settings, limited to the broker's bounds, with the broker's
        settings for the rest."""
        config = self._state.config
        if self._of_config is None or self._of_config[0] is not config:
            self._of_config = (config, _broker_settings(config))
        settings = self._of_config[1]
        own = self._state.image.config(GROUP, group_id)
        return settings if not own else _group_settings(settings, own, config)

    def reads_committed(self, group_id: str) -> bool:
        """Return whether the group gets only records of committed transactions
        (`share.isolation.level`)."""
        own = self._state.image.config(GROUP, group_id)
        return own.get("share.isolation.level") == READ_COMMITTED

    def reset_of(self, group_id: str) -> Reset:
        """See `SharePartitionOwner`."""
        text = self._state.image.config(GROUP, group_id).get("share.auto.offset.reset", "latest")
        if text == "earliest":
            return Reset(earliest=True)
        if text.startswith("by_duration:"):
            ago_ms = duration_ms(text.removeprefix("by_duration:"))
            return Reset(after_ms=max(0, self._replicas.clock.now_ms() - ago_ms))
        return Reset()

    # --- sessions ---

    def end(self, key: SessionKey) -> None:
        """End a member's session, if it has one, and release its records."""
        session = self.sessions.end(key)
        if session is not None:
            self._release_sessions([session])

    def disconnected(self, connection_id: int) -> None:
        """End the sessions that were opened on a closed connection."""
        self._release_sessions(self.sessions.disconnected(str(connection_id)))

    def _release_sessions(self, sessions: Sequence[ShareSession]) -> None:
        for session in sessions:
            group_id, member_id = session.key
            for share_partition in [
                self._partitions.get(ShareKey(group_id, *tp)) for tp in session.partitions
            ]:
                if share_partition is not None:
                    share_partition.release(member_id)
        # First, every session must have released its records, because a share partition ends with
        # its last session.
        for group_id in {session.key.group_id for session in sessions}:
            if not self.sessions.has_group(group_id):
                for key in [key for key in self._partitions if key.group_id == group_id]:
                    self._partitions[key].retire()

    # --- the cluster ---

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """Drop the share partitions whose partitions this broker no longer leads."""
        self.sessions.sessions_max = self._state.config.group_share_max_share_sessions
        deleted = {topic.topic_id for topic in delta.topics_deleted}
        if not deleted and not delta.partitions:
            return
        for key, share_partition in list(self._partitions.items()):
            partition = share_partition.partition
            if key.topic_id in deleted:
                share_partition.drop(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            change = delta.of_topic(partition.tp.topic).get(key.partition)
            if (
                change is not None
                and change.topic.topic_id == key.topic_id
                and not (partition.leads and partition.leader_epoch == share_partition.leader_epoch)
            ):
                share_partition.drop(_NOT_LEADER)

    def close(self) -> None:
        """Stop: requests that wait for a share partition, and all later ones, get an error and go
        to the next leader. A share partition that was loaded again here, in the same epoch, would
        make records available that a member holds."""
        self._closed = True
        for share_partition in list(self._partitions.values()):
            share_partition.drop(_NOT_LEADER)


def _broker_settings(config: BrokerConfig) -> SharePartitionSettings:
    return SharePartitionSettings(
        delivery_count_limit=config.group_share_delivery_count_limit,
        record_locks_max=config.group_share_partition_max_record_locks,
        lock_duration_ms=config.group_share_record_lock_duration_ms,
    )


def _group_settings(
    settings: SharePartitionSettings, own: Mapping[str, str], config: BrokerConfig
) -> SharePartitionSettings:
    changes: dict[str, Any] = {}
    for name, key, low, high in (
        (
            "delivery_count_limit",
            "share.delivery.count.limit",
            config.group_share_min_delivery_count_limit,
            config.group_share_max_delivery_count_limit,
        ),
        (
            "record_locks_max",
            "share.partition.max.record.locks",
            config.group_share_min_partition_max_record_locks,
            config.group_share_max_partition_max_record_locks,
        ),
        (
            "lock_duration_ms",
            "share.record.lock.duration.ms",
            config.group_share_min_record_lock_duration_ms,
            config.group_share_max_record_lock_duration_ms,
        ),
    ):
        if key in own:
            changes[name] = min(max(int(own[key]), low), high)
    if "share.renew.acknowledge.enable" in own:
        changes["renewal"] = own["share.renew.acknowledge.enable"].lower() == "true"
    return replace(settings, **changes) if changes else settings


_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:\.(?P<part>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)


def duration_ms(text: str) -> int:
    """Return an ISO 8601 duration as Java's `Duration` writes it (`P7D`, `PT1H30M`), in ms; 0 for
    any other text."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (
        int(found[name] or 0) for name in ("days", "hours", "minutes", "seconds")
    )
    part_ms = int((found["part"] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + part_ms


def _expire(share_partition: SharePartition, _: Hashable) -> None:
    share_partition.expire()
