"""Three brokers, of pk or of Apache Kafka, for tests that kill some of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from clients.apache_kafka import ApacheKafka
from clients.pk_cluster import PkCluster

Cluster = PkCluster | ApacheKafka
KINDS: Final = ("pk", "apache")


@contextlib.contextmanager
def cluster_of(kind: str) -> Iterator[Cluster]:
    """A cluster of this kind (one of KINDS) for the length of the block."""
    if kind == "pk":
        with PkCluster(3) as ours:
            yield ours
    else:
        with ApacheKafka(3, heap="384m") as theirs:
            yield theirs
