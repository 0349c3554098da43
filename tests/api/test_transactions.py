"""Conversations with transaction coordinators: the same with our broker as with Apache Kafka.

The golden text is what both said; to write it again: PK_WRITE_GOLDEN=1 pytest -m peer
tests/api/test_transactions.py
"""

from __future__ import annotations

import os
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from broker.cluster import running_cluster
from clients.fixtures import Kafka
from clients.topics import create_topic
from group.brokers import simulated
from txn.clients import KEYS, prepare
from txn.conversation import SCRIPTS, Conversation

from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES

GOLDEN = Path(__file__).parents[1] / "golden" / "transactions"

Script = Callable[[Conversation], Awaitable[None]]
each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)


def golden(script: Script) -> Path:
    return GOLDEN / f"{script.__name__}.txt"


@each_script
@simulated
async def test_our_side_of_the_conversation(script: Script) -> None:
    async with running_cluster(KEYS, brokers=1) as cluster:
        await prepare(cluster, nodes=(1,))
        await cluster.create(1, topic="three", partitions=3)

        async def ask(request: Any, version: int) -> Any:
            return await cluster.ask(1, request, version)

        conversation = Conversation(ask, "", "three")
        await script(conversation)
    assert conversation.lines == golden(script).read_text().splitlines()


@pytest.mark.peer
@each_script
def test_their_side_of_the_conversation(
    apache: Kafka, fresh: Callable[[str], str], script: Script
) -> None:
    async def talk() -> list[str]:
        stream = await trio.open_tcp_stream(apache.host, apache.port)

        async def exactly(count: int) -> bytes:
            data = bytearray()
            while len(data) < count:
                some = await stream.receive_some(count - len(data))
                assert some, "the broker closed the connection"
                data += some
            return bytes(data)

        async def ask(request: Any, version: int) -> Any:
            await stream.send_all(frame_request(request, version, 1, "c"))
            body = await exactly(struct.unpack(">i", await exactly(4))[0])
            key = request.API_KEY
            _, position = parse_response_header(body, key, version)
            return decode_whole(MESSAGES[key].response, body, version, position)

        conversation = Conversation(ask, fresh("tx"), topic)
        await script(conversation)
        await stream.aclose()
        return conversation.lines

    # Kept for ever, or retention would come upon records this old in the middle of a conversation.
    topic = create_topic(apache, fresh("three"), 3, {"retention.ms": "-1"})
    lines = trio.run(talk)
    if os.environ.get("PK_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        golden(script).write_text("\n".join(lines) + "\n")
    assert lines == golden(script).read_text().splitlines()
