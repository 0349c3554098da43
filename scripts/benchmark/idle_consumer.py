"""Measures a broker's CPU time for a consumer of many idle partitions.

librdkafka has no fetch sessions. It names all partitions in each request, and expects all of them
in the answer. work.py runs this in a separate process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmark.systems import cpu_seconds

SETTLED_S = 3.0
STATISTICS_MS = 200


def measure(options: Mapping[str, Any]) -> dict[str, float]:
    """Fetch `partitions` of `topic` for `seconds`. Returns the number of fetches, and the CPU
    seconds that process `pid` used."""
    fetches = 0

    def note(statistics: str) -> None:
        nonlocal fetches
        brokers = json.loads(statistics)["brokers"].values()
        fetches = sum(broker["req"].get("Fetch", 0) for broker in brokers)

    config = options["config"] | {
        "group.id": "idle",
        "enable.auto.commit": False,
        "statistics.interval.ms": STATISTICS_MS,
        "stats_cb": note,
    }
    consumer = Consumer(config)
    try:
        topic = options["topic"]
        consumer.assign([TopicPartition(topic, n, 0) for n in range(options["partitions"])])
        _poll(consumer, SETTLED_S)
        fetches_before, cpu_before = fetches, cpu_seconds(options["pid"])
        _poll(consumer, options["seconds"])
        used = cpu_seconds(options["pid"]) - cpu_before
        return {"fetches": fetches - fetches_before, "cpu_s": used}
    finally:
        consumer.close()


def _poll(consumer: Consumer, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        consumer.poll(min(left, STATISTICS_MS / 1000))


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
