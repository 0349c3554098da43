"""The machine of groups of every type, with the settings from the config.

It is imported when this broker first leads a partition of `__consumer_offsets`, because the import
takes a tenth of a broker's start time.
"""

from __future__ import annotations

from pk.core.config import BrokerConfig
from pk.core.group.machine import GroupMachine
from pk.core.group.settings import (
    ConsumerGroupSettings,
    GroupSettings,
    MigrationPolicy,
    NewId,
    ShareGroupSettings,
    StreamsGroupSettings,
)


def group_machine(config: BrokerConfig, new_id: NewId) -> GroupMachine:
    """Return a machine without groups. `new_id` generates ids of members and groups."""
    settings = GroupSettings(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer=_consumer_settings(config),
        share=_share_settings(config),
        streams=_streams_settings(config),
    )
    return GroupMachine(settings, new_id)


def _consumer_settings(config: BrokerConfig) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        session_timeout_ms=config.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        session_timeout_bounds_ms=(
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        heartbeat_interval_bounds_ms=(
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        assignment_interval_bounds_ms=(
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
        max_size=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
    )


def _share_settings(config: BrokerConfig) -> ShareGroupSettings:
    return ShareGroupSettings(
        session_timeout_ms=config.group_share_session_timeout_ms,
        heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        assignment_interval_ms=config.group_share_assignment_interval_ms,
        session_timeout_bounds_ms=(
            config.group_share_min_session_timeout_ms,
            config.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_bounds_ms=(
            config.group_share_min_heartbeat_interval_ms,
            config.group_share_max_heartbeat_interval_ms,
        ),
        assignment_interval_bounds_ms=(
            config.group_share_min_assignment_interval_ms,
            config.group_share_max_assignment_interval_ms,
        ),
        max_size=config.group_share_max_size,
    )


def _streams_settings(config: BrokerConfig) -> StreamsGroupSettings:
    return StreamsGroupSettings(
        session_timeout_ms=config.group_streams_session_timeout_ms,
        heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        assignment_interval_ms=config.group_streams_assignment_interval_ms,
        num_standby_replicas=config.group_streams_num_standby_replicas,
        initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        session_timeout_bounds_ms=(
            config.group_streams_min_session_timeout_ms,
            config.group_streams_max_session_timeout_ms,
        ),
        heartbeat_interval_bounds_ms=(
            config.group_streams_min_heartbeat_interval_ms,
            config.group_streams_max_heartbeat_interval_ms,
        ),
        assignment_interval_bounds_ms=(
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
        max_standby_replicas=config.group_streams_max_standby_replicas,
        max_size=config.group_streams_max_size,
    )
