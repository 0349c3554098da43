"""What the text of a conversation hides, whatever quotes repr() takes."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from group.brokers import simulated
from group.conversation import Conversation


class _Nobody:
    """A peer that nothing is asked of."""

    async def ask(self, request: Any, version: int, who: str = "c") -> Any:
        raise NotImplementedError

    async def records(self, group_id: str) -> list[tuple[bytes | None, bytes | None]]:
        raise NotImplementedError


@pytest.mark.parametrize(
    "value",
    [
        b"\x00t",
        b"\x00't",  # the length of a topic's name of 39 characters is an apostrophe
        b'\x00"t',
        b"\x00'\"t",
        b"'\\",
        b"",
    ],
)
@simulated
async def test_bytes_are_hidden_whatever_they_are(value: bytes) -> None:
    async with trio.open_nursery() as nursery:
        c = Conversation(_Nobody(), nursery, "-mark")
        c.hide_bytes = True
        c.say(f"SyncGroupResponse(assignment={value!r}, protocol_name='range')")
    assert c.lines == ["SyncGroupResponse(assignment=BYTES, protocol_name='range')"]
