"""Every API that is served, by brokers and by controllers, in key order."""

import logging
from typing import Any, Final

from pk.core.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    consumer_group_describe,
    consumer_group_heartbeat,
    controller_registration,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    envelope,
    fetch,
    fetch_snapshot,
    find_coordinator,
    forward,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    metadata_fetch,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from pk.core.api.registry import AnyApi, error_response
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.index import MESSAGES

logger = logging.getLogger("pk.controller")

_BROKER: Final = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    offset_commit.API,
    offset_fetch.API,
    find_coordinator.API,
    join_group.API,
    heartbeat.API,
    leave_group.API,
    sync_group.API,
    describe_groups.API,
    list_groups.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    add_partitions_to_txn.API,
    add_offsets_to_txn.API,
    end_txn.API,
    write_txn_markers.API,
    txn_offset_commit.API,
    describe_acls.API,
    create_acls.API,
    delete_acls.API,
    describe_configs.API,
    alter_configs.API,
    alter_replica_log_dirs.API,
    describe_log_dirs.API,
    create_partitions.API,
    delete_groups.API,
    elect_leaders.API,
    incremental_alter_configs.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    offset_delete.API,
    describe_quorum.API,
    update_features.API,
    describe_cluster.API,
    describe_producers.API,
    unregister_broker.API,
    describe_transactions.API,
    list_transactions.API,
    consumer_group_heartbeat.API,
    consumer_group_describe.API,
    list_config_resources.API,
    describe_topic_partitions.API,
)

APIS: Final[tuple[AnyApi, ...]] = tuple(
    forward.through(api) if api.forwarded else api for api in _BROKER
)
"""What brokers serve to clients and to each other; what is the controller's is passed on."""

_DECIDED: Final = (
    create_topics.API,
    delete_topics.API,
    alter_configs.CONTROLLER_API,
    create_partitions.API,
    elect_leaders.API,
    incremental_alter_configs.CONTROLLER_API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    describe_quorum.API,
    update_features.API,
    unregister_broker.API,
)

CONTROLLER_APIS: Final[tuple[AnyApi, ...]] = tuple(
    sorted(
        (
            *_DECIDED,
            metadata_fetch.API,
            api_versions.CONTROLLER_API,
            describe_configs.API,
            alter_partition.API,
            envelope.serving(_DECIDED),
            fetch_snapshot.API,
            describe_cluster.CONTROLLER_API,
            broker_registration.API,
            broker_heartbeat.API,
            allocate_producer_ids.API,
            controller_registration.API,
            assign_replicas_to_dirs.API,
        ),
        key=lambda api: api.key,
    )
)
"""What controllers' listeners serve: to brokers, and to operators who ask a controller itself."""

_AT_CONTROLLER: Final = {api.key: api for api in CONTROLLER_APIS}


async def dispatch(context: Context, request: Any) -> Any:
    """What this process's controller answers, as its listener would, without a socket. Raises KafkaError where it is to be
    asked again: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
    api = _AT_CONTROLLER[request.API_KEY]
    try:
        return await envelope.answer(api, context, request)
    except KafkaError:
        raise
    except Exception as e:
        # A fault of ours: it must not end the task that asked, whose next request may be a good one.
        logger.exception("api %d of this node's controller failed", api.key)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, type(e).__name__)
        response_class = MESSAGES[api.key].response
        return error_response(api, response_class, request, error, context.api_version)
