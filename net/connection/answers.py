"""The answers of one connection, in the order of their requests.

If no request is parked, they go straight to `out`. After a parked request each answer gets a slot
in `parked`, and completing the first slot moves it and all completed ones after it to `out`. The
reader and the parked tasks flush; `sending` makes one of them do it for all.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from pk.core.wire.types import Part
from pk.net.transport import Transport


class Slot:
    """The slot of an answer that is still missing."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None


class Answers:
    """See the top of this file."""

    __slots__ = ("_parked_max", "_released", "_sent", "_transport", "out", "parked", "sending")

    def __init__(self, transport: Transport, parked_max: int) -> None:
        self.out: list[Part] = []
        """The answers to send next."""
        self.parked: Final[deque[Slot]] = deque()
        """The first missing answer, and all after it. It stays the same deque."""
        self.sending = False
        self._transport = transport
        self._parked_max = parked_max
        self._sent: trio.Event | None = None
        self._released = trio.Event()

    @property
    def busy(self) -> bool:
        """Whether an answer is outstanding."""
        return bool(self.parked or self.out or self.sending)

    def owe(self, parts: list[Part]) -> None:
        """Answer the newest request."""
        if self.parked:
            self.reserve().parts = parts
        else:
            self.out.extend(parts)

    def reserve(self) -> Slot:
        """A slot for the answer to the newest request."""
        slot = Slot()
        self.parked.append(slot)
        return slot

    def release(self) -> None:
        """Move to `out` the complete answers that have no incomplete one before them."""
        parked = self.parked
        while parked and parked[0].parts is not None:
            self.out.extend(parked.popleft().parts or ())
        self._released.set()

    def send_at_once(self) -> bool:
        """Send as much of `out` as the peer accepts now; returns whether the rest must still be
        flushed."""
        if self.sending or not self.out:
            return False  # the current sender will send it
        parts, self.out = self.out, []
        self.out = self._transport.send_at_once(parts)
        return bool(self.out)

    async def flush(self) -> None:
        """Send all of `out`. If another task is sending, wait for it, which is the backpressure on
        the reader."""
        while self.sending:
            if self._sent is None:
                self._sent = trio.Event()
            await self._sent.wait()
        self.sending = True
        try:
            while self.out:
                parts, self.out = self.out, []
                await self._transport.send(parts)
        finally:
            self.sending = False
            if self._sent is not None:
                self._sent.set()
                self._sent = None

    async def finish(self) -> None:
        """Send all outstanding answers, including missing ones."""
        await self.flush()
        while self.parked:
            await self.wait_for_release()
            await self.flush()

    async def wait_for_room(self) -> None:
        """Enough requests are parked: read no more until some are answered (backpressure by not
        reading)."""
        await self.flush()
        while len(self.parked) >= self._parked_max:
            await self.wait_for_release()

    async def wait_for_release(self) -> None:
        """Wait until the next answer is complete."""
        self._released = trio.Event()
        await self._released.wait()
