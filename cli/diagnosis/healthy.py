"""The words of `pk cluster health` for each check without a finding."""

from pk.cli.diagnosis.snapshot import ClusterSnapshot
from pk.cli.phrases import count


def controller(snapshot: ClusterSnapshot) -> str:
    return f"node {snapshot.controller}"


def brokers(snapshot: ClusterSnapshot) -> str:
    return f"{count(len(snapshot.live), 'broker')} up"


def leaders(snapshot: ClusterSnapshot) -> str:
    partitions = sum(len(topic.partitions) for topic in snapshot.topics.values())
    if partitions == 1:
        return "the only partition has a leader"
    return f"all {partitions:,} partitions have a leader"


def min_isr(_: ClusterSnapshot) -> str:
    return "every partition has enough in-sync replicas"


def replicas(_: ClusterSnapshot) -> str:
    return "all in sync"


def directories(snapshot: ClusterSnapshot) -> str:
    return f"{count(len(snapshot.directories), 'log directory', 'log directories')} in use"


def disks(snapshot: ClusterSnapshot) -> str:
    used = [share for d in snapshot.directories if (share := d.used) is not None]
    return f"the fullest disk is {max(used):.0%} full" if used else "the brokers do not report it"


def moves(snapshot: ClusterSnapshot) -> str:
    moving = sum(p.moving for _, _, p in snapshot.partitions)
    return f"{count(moving, 'partition')} moving" if moving else "no partition is moving"


def throttles(snapshot: ClusterSnapshot) -> str:
    return (
        "a reassignment needs the throttles" if snapshot.throttled else "no throttle is left over"
    )


def spare_replicas(_: ClusterSnapshot) -> str:
    return "no replicated topic needs all of its replicas"


def several_replicas(snapshot: ClusterSnapshot) -> str:
    if len(snapshot.brokers) == 1:
        return "one broker, one replica"
    return "every topic has several replicas"


def internal_topics(_: ClusterSnapshot) -> str:
    return "all have enough replicas"


def preferred_leaders(_: ClusterSnapshot) -> str:
    return "every preferred replica that is in sync leads"


def metadata(snapshot: ClusterSnapshot) -> str:
    if not snapshot.followers:
        return "the cluster does not describe its quorum"
    end = max(f.end for f in snapshot.followers)
    return f"every node has caught up to about offset {end:,}"
