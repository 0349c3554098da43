"""Streams groups (KIP-1071): whole conversations, the same with our broker as with Apache Kafka.

The golden text is what both said; to write it again: PK_WRITE_GOLDEN=1 pytest -m peer
tests/api/test_streams_groups.py
"""

from __future__ import annotations

import pytest
from clients.fixtures import Kafka
from group.brokers import simulated
from group.conversation import Script
from group.golden import GoldenConversations
from group.streams.conversations import SCRIPTS

CONVERSATIONS = GoldenConversations("streams_groups", "group.streams.")


@pytest.mark.parametrize("script", SCRIPTS)
@simulated
async def test_our_side_of_the_conversation(script: Script) -> None:
    await CONVERSATIONS.compare_ours(script)


@pytest.mark.peer
@pytest.mark.parametrize("script", SCRIPTS)
def test_their_side_of_the_conversation(script: Script, apache: Kafka) -> None:
    CONVERSATIONS.compare_theirs(script, apache)
