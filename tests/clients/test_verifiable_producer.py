"""Apache's VerifiableProducer, which its system tests run: the records it reports as acknowledged
are in the log, on pk and on Apache Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clients import tools
from clients.fixtures import Kafka, fresh_name
from clients.readers import read_records
from clients.topics import create_topic


@pytest.mark.peer
def test_what_it_says_is_acknowledged_is_there(kafka: Kafka) -> None:
    topic = create_topic(kafka, fresh_name("verified"), 2)
    ended = tools.run(
        kafka,
        tools.VERIFIABLE_PRODUCER,
        *("--topic", topic, "--max-messages", "500", "--acks", "-1"),
        *("--value-prefix", "7", "--repeating-keys", "3"),
    )
    assert ended.code == 0, ended
    events: list[dict[str, Any]] = [json.loads(line) for line in ended.out.splitlines()]
    assert (events[-1]["name"], events[-1]["sent"], events[-1]["acked"]) == ("tool_data", 500, 500)
    said = sorted(
        (e["partition"], e["offset"], e["key"], e["value"])
        for e in events
        if e["name"] == "producer_send_success"
    )
    assert sorted(value for *_, value in said) == sorted(f"7.{n}" for n in range(500))
    there = [
        (partition, m.offset(), (m.key() or b"").decode(), (m.value() or b"").decode())
        for partition in (0, 1)
        for m in read_records(kafka.bootstrap, topic, partition)
    ]
    assert there == said
