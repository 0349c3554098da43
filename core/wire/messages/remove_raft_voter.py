"""Removes a voter from the metadata quorum (KIP-853).

Api key 81; Apache Kafka 4.3.1 serves version 0.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32, Uuid


@message(versions=(0, 0), flexible=0, key=81)
class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"]):
    """The request of RemoveRaftVoter."""

    cluster_id: str | None = field(default="", nullable=0)
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


@message(versions=(0, 0), flexible=0, key=81)
class RemoveRaftVoterResponse(Response):
    """The response of RemoveRaftVoter."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
