"""The records inside control batches: transaction markers (KIP-98) and those of a metadata log
(KIP-595, KIP-630, KIP-853).
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uint16, Uuid


@message(versions=(0, 0))
class ControlRecordTypeSchema(Message):
    """The key of a control record, after its version: 0 aborts, 1 commits, 2 to 6 are KRaft's."""

    type: Int16 = 0


@message(versions=(0, 0))
class EndTxnMarker(Message):
    """The value of a marker that commits or aborts."""

    coordinator_epoch: Int32 = 0


@struct
class Voter(Struct):
    """One of `LeaderChangeMessage.voters`."""

    voter_id: Int32 = 0
    voter_directory_id: Uuid = field(default=ZERO_UUID, since=1)


@message(versions=(0, 1), flexible=0)
class LeaderChangeMessage(Message):
    """Who was elected leader of the quorum, and by whom."""

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: list[Voter] = field(default_factory=list)
    granting_voters: list[Voter] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class SnapshotHeaderRecord(Message):
    """The first record of a snapshot."""

    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


@message(versions=(0, 0), flexible=0)
class SnapshotFooterRecord(Message):
    """The last record of a snapshot."""

    version: Int16 = 0


@message(versions=(0, 0), flexible=0)
class KRaftVersionRecord(Message):
    """Which version of KRaft the quorum runs."""

    version: Int16 = 0
    kraft_version: Int16 = 0


@struct
class Endpoint(Struct):
    """One of `VotersRecordVoter.endpoints`."""

    name: str = ""
    host: str = ""
    port: Uint16 = 0


@struct
class KRaftVersionFeature(Struct):
    """The value of `VotersRecordVoter.kraft_version_feature`."""

    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@struct
class VotersRecordVoter(Struct):
    """One of `VotersRecord.voters`."""

    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: list[Endpoint] = field(default_factory=list)
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@message(versions=(0, 0), flexible=0)
class VotersRecord(Message):
    """The voters of the quorum."""

    version: Int16 = 0
    voters: list[VotersRecordVoter] = field(default_factory=list)
