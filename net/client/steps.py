"""The steps that a group hands to `poll`: partitions are assigned and revoked there, when the
program is not processing records.

The task that holds the membership passes `poll` a `Step`, and continues to send heartbeats until
the step is done. Both group protocols work this way (group.py, consumer_group.py).
"""

from collections.abc import Callable, Iterable
from enum import Enum

import trio
from msgspec import Struct

from pk.core.values import TopicPartition


class StepKind(Enum):
    """What poll has to do in a step."""

    REVOKE = "revoke"
    ASSIGN = "assign"
    LOST = "lost"


class Step(Struct, eq=False):
    """Work that poll must do before the group can continue."""

    kind: StepKind
    partitions: tuple[TopicPartition, ...] = ()
    """For ASSIGN: all partitions that the member gets. Else: the partitions that it loses."""

    started: bool = False
    done: bool = False
    """Whether poll has done the step, or need not do the rest of it."""

    released: bool = False
    """Set by poll if it has released partitions that other members wait for."""


class Steps:
    """The current step for poll, and a way to wait until poll has done it. `owned` returns the
    program's partitions, `on_news` wakes poll, and `on_done` is called when poll has done a step or
    part of one."""

    def __init__(
        self,
        owned: Callable[[], Iterable[TopicPartition]],
        on_news: Callable[[], None],
        on_done: Callable[[], None] = lambda: None,
    ) -> None:
        self.current: Step | None = None
        self.changed = trio.Event()
        """Set by `wake`, which then replaces the event."""

        self._running: Step | None = None
        """The step that poll is doing: `current`, or an earlier step."""

        self._owned = owned
        self._on_news = on_news
        self._on_done = on_done

    def put(self, step: Step) -> None:
        """Pass poll a step, which replaces the current one."""
        self.current = step
        self._on_news()

    def drop(self) -> None:
        """Cancel the steps: poll has nothing more to do, and takes no more partitions in the step
        that it is doing."""
        for step in (self.current, self._running):
            if step is not None:
                step.done = True
        self.current = None
        self.wake()

    def unfinished(self) -> set[TopicPartition]:
        """Return the partitions that poll has yet to take."""
        steps = (self.current, self._running)
        return {
            partition
            for step in steps
            if step is not None and step.kind is StepKind.ASSIGN and not step.done
            for partition in step.partitions
        }

    def begin(self) -> Step | None:
        """Start the current step, if any. Poll then calls `finish` or `put_back`."""
        step = self._running = self.current
        if step is not None:
            step.started = True
        return step

    def finish(self, step: Step) -> None:
        """Finish a step."""
        step.done = True
        if self.current is step:
            self.current = None
        self._end()

    def put_back(self, step: Step) -> None:
        """Put back a step after an interruption. The next poll does the rest of it, unless another
        step has replaced it."""
        step.started = False
        if self.current is not step:
            step.done = True
        self._end()

    def _end(self) -> None:
        self._running = None
        self.wake()
        self._on_done()

    def wake(self) -> None:
        """Wake the waiting tasks, so that they check again."""
        self.changed.set()
        self.changed = trio.Event()

    async def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready` returns True. Checks again whenever poll or another task calls
        `wake`."""
        while not ready():
            await self.changed.wait()

    async def lose(self) -> None:
        """Make poll drop the program's partitions, because other members may own them already."""
        self.drop()
        await self.wait_until(lambda: self._running is None)
        if owned := tuple(self._owned()):
            step = Step(StepKind.LOST, owned)
            self.put(step)
            await self.wait_until(lambda: step.done)
