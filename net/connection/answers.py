"""The answers of one connection, in the order of their requests.

If no request is parked, an answer is added to `out` at once. After a parked request, each answer
gets a slot in `parked`. Completing the first slot moves it and all completed slots after it to
`out`. The reader and the tasks of parked requests flush; `sending` ensures that only one of them
sends.
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
    """The answers of a connection; see the top of this file."""

    __slots__ = ("_parked_max", "_released", "_sent", "_transport", "out", "parked", "sending")

    def __init__(self, transport: Transport, parked_max: int) -> None:
        self.out: list[Part] = []
        """The answers to send next."""
        self.parked: Final[deque[Slot]] = deque()
        """The first missing answer, and all answers after it. The deque is never replaced."""
        self.sending = False
        self._transport = transport
        self._parked_max = parked_max
        self._sent: trio.Event | None = None
        self._released = trio.Event()

    @property
    def busy(self) -> bool:
        """Whether an answer is outstanding."""
        return bool(self.parked or self.out or self.sending)

    def append(self, parts: list[Part]) -> None:
        """Add the answer to the newest request."""
        if self.parked:
            self.reserve().parts = parts
        else:
            self.out.extend(parts)

    def reserve(self) -> Slot:
        """Return a slot for the answer to the newest request."""
        slot = Slot()
        self.parked.append(slot)
        return slot

    def release(self) -> None:
        """Move the complete answers before the first incomplete one to `out`."""
        parked = self.parked
        while parked and parked[0].parts is not None:
            self.out.extend(parked.popleft().parts or ())
        self._released.set()

    def send_at_once(self) -> bool:
        """Send as much of `out` as the peer accepts now. Returns whether the rest must still be
        flushed."""
        if self.sending or not self.out:
            return False  # the task that is sending sends this too
        parts, self.out = self.out, []
        self.out = self._transport.send_at_once(parts)
        return bool(self.out)

    async def flush(self) -> None:
        """Send all of `out`. If another task is sending, wait for it, so that a peer that does not
        read its answers blocks the reader (backpressure)."""
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
        """Send all outstanding answers, and wait for the missing ones."""
        await self.flush()
        while self.parked:
            await self.wait_for_release()
            await self.flush()

    async def wait_for_room(self) -> None:
        """Send all of `out`, and wait while too many requests are parked: meanwhile nothing more is
        read (backpressure)."""
        await self.flush()
        while len(self.parked) >= self._parked_max:
            await self.wait_for_release()

    async def wait_for_release(self) -> None:
        """Wait until the next answer is complete."""
        self._released = trio.Event()
        await self._released.wait()
