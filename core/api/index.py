"""Every API that is served, by brokers and by controllers, in key order."""

import logging
from typing import Any, Final

from pk.core.api.authorization import guarded
from pk.core.api.cluster import api_versions
from pk.core.api.controller import envelope, forward
from pk.core.api.late import late
from pk.core.api.records import fetch, produce
from pk.core.api.registry import AnyApi, error_response
from pk.core.api.topics import metadata
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.index import MESSAGES

logger = logging.getLogger("pk.controller")

_BROKER: Final = (
    produce.API,
    fetch.API,
    late("records.list_offsets.API", 2, 0, 11),
    metadata.API,
    late("groups.offset_commit.API", 8, 0, 10, parks=True),
    late("groups.offset_fetch.API", 9, 0, 10, parks=True),
    late("groups.find_coordinator.API", 10, 0, 6),
    late("groups.join_group.API", 11, 0, 9, parks=True),
    late("groups.heartbeat.API", 12, 0, 4, parks=True),
    late("groups.leave_group.API", 13, 0, 5, parks=True),
    late("groups.sync_group.API", 14, 0, 5, parks=True),
    late("groups.describe_groups.API", 15, 0, 6, parks=True),
    late("groups.list_groups.API", 16, 0, 5, parks=True),
    late("security.sasl_handshake.HANDSHAKE_API", 17, 0, 1),
    api_versions.API,
    late("topics.create_topics.API", 19, 0, 7, forwarded=True),
    late("topics.delete_topics.API", 20, 0, 6, forwarded=True),
    late("records.delete_records.API", 21, 0, 2, parks=True),
    late("transactions.init_producer_id.API", 22, 0, 5),
    late("records.offset_for_leader_epoch.API", 23, 2, 4),
    late("transactions.add_partitions_to_txn.API", 24, 0, 5, parks=True),
    late("transactions.add_offsets_to_txn.API", 25, 0, 4, parks=True),
    late("transactions.end_txn.API", 26, 0, 5, parks=True),
    late("transactions.write_txn_markers.API", 27, 1, 2, parks=True),
    late("transactions.txn_offset_commit.API", 28, 0, 5, parks=True),
    late("security.describe_acls.API", 29, 1, 3),
    late("security.create_acls.API", 30, 1, 3, forwarded=True),
    late("security.delete_acls.API", 31, 1, 3, forwarded=True),
    late("configs.describe_configs.API", 32, 0, 4),
    late("configs.alter_configs.API", 33, 0, 2),
    late("replicas.alter_replica_log_dirs.API", 34, 1, 2),
    late("replicas.describe_log_dirs.API", 35, 1, 5),
    late("security.sasl_handshake.AUTHENTICATE_API", 36, 0, 2),
    late("topics.create_partitions.API", 37, 0, 3, forwarded=True),
    late("security.create_delegation_token.API", 38, 1, 3),
    late("security.renew_delegation_token.API", 39, 1, 2),
    late("security.expire_delegation_token.API", 40, 1, 2),
    late("security.describe_delegation_token.API", 41, 1, 3),
    late("groups.delete_groups.API", 42, 0, 2, parks=True),
    late("replicas.elect_leaders.API", 43, 0, 2, forwarded=True),
    late("configs.incremental_alter_configs.API", 44, 0, 1),
    late("replicas.alter_partition_reassignments.API", 45, 0, 1, forwarded=True),
    late("replicas.list_partition_reassignments.API", 46, 0, 0, forwarded=True),
    late("groups.offset_delete.API", 47, 0, 0, parks=True),
    late("configs.describe_client_quotas.API", 48, 0, 1),
    late("configs.alter_client_quotas.API", 49, 0, 1, forwarded=True),
    late("security.describe_user_scram_credentials.API", 50, 0, 0),
    late("security.alter_user_scram_credentials.API", 51, 0, 0, forwarded=True),
    late("cluster.describe_quorum.API", 55, 0, 2, forwarded=True),
    late("cluster.update_features.API", 57, 0, 2, forwarded=True),
    late("cluster.describe_cluster.API", 60, 0, 2),
    late("transactions.describe_producers.API", 61, 0, 0),
    late("cluster.unregister_broker.API", 64, 0, 0, forwarded=True),
    late("transactions.describe_transactions.API", 65, 0, 0, parks=True),
    late("transactions.list_transactions.API", 66, 0, 2, parks=True),
    late("groups.consumer_group_heartbeat.API", 68, 0, 1, parks=True),
    late("groups.consumer_group_describe.API", 69, 0, 1, parks=True),
    late("configs.list_config_resources.API", 74, 0, 1),
    late("topics.describe_topic_partitions.API", 75, 0, 0),
    late("share.share_group_heartbeat.API", 76, 1, 1, parks=True),
    late("share.share_group_describe.API", 77, 1, 1, parks=True),
    late("share.share_fetch.API", 78, 1, 2, parks=True),
    late("share.share_acknowledge.API", 79, 1, 2, parks=True),
    late("share.initialize_share_group_state.API", 83, 0, 0, parks=True),
    late("share.read_share_group_state.API", 84, 0, 0, parks=True),
    late("share.write_share_group_state.API", 85, 0, 1, parks=True),
    late("share.delete_share_group_state.API", 86, 0, 0, parks=True),
    late("share.read_share_group_state_summary.API", 87, 0, 1, parks=True),
    late("groups.streams_group_heartbeat.API", 88, 0, 0, parks=True),
    late("groups.streams_group_describe.API", 89, 0, 0, parks=True),
    late("share.describe_share_group_offsets.API", 90, 0, 1, parks=True),
    late("share.alter_share_group_offsets.API", 91, 0, 0, parks=True),
    late("share.delete_share_group_offsets.API", 92, 0, 0, parks=True),
    late("replicas.pk_unclean_recovery.API", 10_002, 0, 0, forwarded=True),
)

APIS: Final[tuple[AnyApi, ...]] = tuple(
    forward.through(api) if api.forwarded else guarded(api) for api in _BROKER
)
"""What brokers serve to clients and to each other; what is the controller's is passed on, and is
authorized there."""

_DECIDED: Final = (
    late("topics.create_topics.API", 19, 0, 7, forwarded=True),
    late("topics.delete_topics.API", 20, 0, 6, forwarded=True),
    late("security.create_acls.API", 30, 1, 3, forwarded=True),
    late("security.delete_acls.API", 31, 1, 3, forwarded=True),
    late("configs.alter_configs.CONTROLLER_API", 33, 0, 2, forwarded=True),
    late("topics.create_partitions.API", 37, 0, 3, forwarded=True),
    late("security.create_delegation_token.CONTROLLER_API", 38, 1, 3, forwarded=True),
    late("security.renew_delegation_token.CONTROLLER_API", 39, 1, 2, forwarded=True),
    late("security.expire_delegation_token.CONTROLLER_API", 40, 1, 2, forwarded=True),
    late("replicas.elect_leaders.API", 43, 0, 2, forwarded=True),
    late("configs.incremental_alter_configs.CONTROLLER_API", 44, 0, 1, forwarded=True),
    late("replicas.alter_partition_reassignments.API", 45, 0, 1, forwarded=True),
    late("replicas.list_partition_reassignments.API", 46, 0, 0, forwarded=True),
    late("configs.alter_client_quotas.API", 49, 0, 1, forwarded=True),
    late("security.alter_user_scram_credentials.API", 51, 0, 0, forwarded=True),
    late("cluster.describe_quorum.API", 55, 0, 2, forwarded=True),
    late("cluster.update_features.API", 57, 0, 2, forwarded=True),
    late("cluster.unregister_broker.API", 64, 0, 0, forwarded=True),
    late("replicas.pk_unclean_recovery.API", 10_002, 0, 0, forwarded=True),
)

CONTROLLER_APIS: Final[tuple[AnyApi, ...]] = tuple(
    guarded(api)
    for api in sorted(
        (
            *_DECIDED,
            late("controller.metadata_fetch.API", 1, 4, 18, parks=True),
            api_versions.CONTROLLER_API,
            late("configs.describe_configs.API", 32, 0, 4),
            late("controller.alter_partition.API", 56, 2, 3),
            late("security.describe_acls.API", 29, 1, 3),
            envelope.serving(tuple(guarded(api) for api in _DECIDED)),
            late("controller.fetch_snapshot.API", 59, 0, 1),
            late("security.sasl_handshake.HANDSHAKE_API", 17, 0, 1),
            late("security.sasl_handshake.AUTHENTICATE_API", 36, 0, 2),
            late("cluster.describe_cluster.CONTROLLER_API", 60, 0, 2),
            late("controller.broker_registration.API", 62, 0, 4),
            late("controller.broker_heartbeat.API", 63, 0, 2),
            late("transactions.allocate_producer_ids.API", 67, 0, 0),
            late("controller.controller_registration.API", 70, 0, 0),
            late("controller.assign_replicas_to_dirs.API", 73, 0, 0),
            late("controller.pk_replica_logs.API", 10_001, 0, 0),
        ),
        key=lambda api: api.key,
    )
)
"""What controllers' listeners serve: to brokers, and to operators who ask a controller itself."""

_AT_CONTROLLER: Final = {api.key: api for api in CONTROLLER_APIS}


async def dispatch(context: Context, request: Any) -> Any:
    """The answer of this process's controller, as from its listener but without a socket. Raises
    KafkaError if the caller must ask again: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
    api = _AT_CONTROLLER[request.API_KEY]
    try:
        return await envelope.answer(api, context, request)
    except KafkaError:
        raise
    except Exception as e:
        # A fault of ours: it must not end the task that asked, whose next request may be a good
        # one.
        logger.exception("api %d of this node's controller failed", api.key)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, type(e).__name__)
        response_class = MESSAGES[api.key].response
        return error_response(api, response_class, request, error, context.api_version)
