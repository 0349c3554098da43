"""Share groups (KIP-932): whole conversations, the same with our broker as with Apache Kafka.

The golden text is what both said; to write it again: PK_WRITE_GOLDEN=1 pytest -m peer
tests/api/test_share_groups.py
"""

from __future__ import annotations

import pytest
from clients.fixtures import Kafka
from group.brokers import simulated
from group.conversation import Script
from group.golden import GoldenConversations
from share.conversations import SCRIPTS

CONVERSATIONS = GoldenConversations("share_groups", "group.share.")


@pytest.mark.parametrize("script", SCRIPTS)
@simulated
async def test_our_side_of_the_conversation(script: Script) -> None:
    await CONVERSATIONS.compare_ours(script)


@pytest.mark.peer
@pytest.mark.parametrize("script", SCRIPTS)
def test_their_side_of_the_conversation(script: Script, apache: Kafka) -> None:
    CONVERSATIONS.compare_theirs(script, apache)
