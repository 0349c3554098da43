"""The columns that the lists of partitions share: `pk isr`, `pk partitions list` and `pk topics
describe`."""

from typing import TYPE_CHECKING, Annotated, TypedDict

from pk.cli.output.rows import Shown

if TYPE_CHECKING:
    from pk.net.client.results import PartitionDescription


class LedPartition(TypedDict):
    """The leader of a partition."""

    leader: int | None


class ReplicatedPartition(TypedDict):
    """The replicas of a partition, by broker id. The ELR is KIP-966's."""

    replicas: list[int]
    isr: Annotated[list[int], Shown("ISR")]
    leader_epoch: Annotated[int, Shown("EPOCH", wide=True)]
    elr: Annotated[list[int] | None, Shown("ELR", wide=True)]
    last_known_elr: Annotated[list[int] | None, Shown("LAST KNOWN ELR", wide=True)]
    offline_replicas: Annotated[list[int], Shown("OFFLINE", wide=True)]


class PartitionFields(LedPartition, ReplicatedPartition):
    """The fields of a partition that the cluster describes."""


def partition_fields(p: "PartitionDescription") -> PartitionFields:
    """The fields that every row of a partition has."""
    return {
        "leader": None if p.leader_id < 0 else p.leader_id,
        "replicas": list(p.replicas),
        "isr": list(p.isr),
        "leader_epoch": p.leader_epoch,
        "elr": None if p.elr is None else list(p.elr),
        "last_known_elr": None if p.last_known_elr is None else list(p.last_known_elr),
        "offline_replicas": list(p.offline_replicas),
    }
