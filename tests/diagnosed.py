"""A healthy cluster as `pk doctor` and `pk cluster health` see it, and changes to its parts."""

from typing import Any

from pk.cli.diagnosis.snapshot import (
    Broker,
    ClusterSnapshot,
    Directory,
    Follower,
    Partition,
    Topic,
)

NOW = 1_800_000_000_000


def whole(*replicas: int, **changes: Any) -> Partition:
    """A healthy partition."""
    return Partition(replicas[0], replicas, replicas, start=0, end=0, stable=0)._replace(**changes)


def topic(*partitions: Partition, internal: bool = False, **configs: Any) -> Topic:
    reported = {key.replace("_", "."): value for key, value in configs.items()}
    return Topic(dict(enumerate(partitions)), internal, {"min.insync.replicas": "2", **reported})


def cluster(*ids: int, **brokers: Broker) -> dict[int, Broker]:
    return {**{i: Broker() for i in ids}, **{int(k[1:]): b for k, b in brokers.items()}}


THREE = (whole(1, 2, 3), whole(2, 3, 1), whole(3, 1, 2))


def snapshot(**changes: Any) -> ClusterSnapshot:
    """A healthy cluster of three brokers, with changes."""
    healthy = ClusterSnapshot(
        NOW,
        cluster(1, 2, 3),
        {"orders": topic(*THREE), "__consumer_offsets": topic(*THREE, internal=True)},
        controller=100,
        controller_ahead_ms=3,
        followers=[Follower(100, 5000, True), Follower(1, 4990, False)],
        directories=[Directory(1, "/data", None, 100, 60)],
        finalized={"metadata.version": 30},
        common={"metadata.version": 30},
    )
    return healthy._replace(**changes)


def topics(**more: Topic) -> dict[str, Topic]:
    return {"__consumer_offsets": topic(*THREE, internal=True), **more}
