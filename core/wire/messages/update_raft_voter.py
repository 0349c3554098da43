"""Updates the endpoints of a voter of the metadata quorum (KIP-853).

Api key 82; Apache Kafka 4.3.1 serves version 0.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uint16, Uuid


@struct
class Listener(Struct):
    """One of `UpdateRaftVoterRequest.listeners`."""

    name: str = ""
    host: str = ""
    port: Uint16 = 0


@struct
class KRaftVersionFeature(Struct):
    """The value of `UpdateRaftVoterRequest.kraft_version_feature`."""

    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(versions=(0, 0), flexible=0, key=82)
class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"]):
    """The request of UpdateRaftVoter."""

    cluster_id: str | None = field(default="", nullable=0)
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@struct
class CurrentLeader(Struct):
    """The value of `UpdateRaftVoterResponse.current_leader`."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: str = ""
    port: Int32 = 0


@message(versions=(0, 0), flexible=0, key=82)
class UpdateRaftVoterResponse(Response):
    """The response of UpdateRaftVoter."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: CurrentLeader = field(default_factory=CurrentLeader, tag=0)
