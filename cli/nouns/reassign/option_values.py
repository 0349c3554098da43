"""Option values of `pk reassign`: rates such as `50MB/s`, and assignments such as
`orders/0=1,2,3`."""

import re
from collections.abc import Iterable

from pk.cli.cluster.partition_selection import parse_partition
from pk.cli.cluster.replicas import Replicas
from pk.cli.config_keys.units import size_of
from pk.cli.exits import Unusable
from pk.cli.phrases import partition_name
from pk.core.values import TopicPartition

_PER_SECOND = re.compile(r"(?:/s|ps)$", re.IGNORECASE)
_BITS = re.compile(r"[KMGT]i?b(/s|ps)?$|[kmgt]i?bps$|bits?(/s|ps)?$")
"""`50Mb/s` and `50mbps` mean megabits in networking; read as bytes, they would be eight times as
much."""


def parse_rate(text: str, option: str) -> int:
    """Parse bytes per second: `50MB/s`, `50M`, `64MiB/s`, `1.5G`, or a plain number of bytes, as in
    Apache's tool. Raises Unusable."""
    if _BITS.search(text.strip()):
        raise Unusable(f"{option}: {text!r} may mean bits; 50MB/s and 50M are bytes a second.")
    amount = _PER_SECOND.sub("", text.strip())
    found = size_of(amount if amount[-1:] in ("b", "B") else f"{amount}B")
    rate = round(found) if found else 0
    if rate < 1:
        raise Unusable(
            f"{option} needs bytes a second such as 50MB/s, 64MiB/s or 50000000, not {text!r}."
        )
    return rate


def parse_sets(texts: Iterable[str]) -> dict[TopicPartition, Replicas]:
    """Parse assignments such as `orders/0=1,2,3`. Raises Unusable."""
    found: dict[TopicPartition, Replicas] = {}
    for text in texts:
        name, _, brokers = text.partition("=")
        tp = parse_partition(name, "--set")
        if tp in found:
            raise Unusable(f"--set names {partition_name(tp)} twice.")
        words = [w.strip() for w in brokers.split(",") if w.strip()]
        replicas = tuple(int(w) for w in words if w.isdecimal())
        if not replicas or len(replicas) < len(words):
            raise Unusable(f"--set needs PARTITION=BROKERS such as orders/0=1,2,3, not {text!r}.")
        found[tp] = replicas
    return found
