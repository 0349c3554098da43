"""What a group has `poll` do: partitions come and go there, where the program that reads is in the
middle of nothing.

The task that holds the membership puts a `Step` in front of poll and goes on heartbeating until it
is done. Both group protocols do it so (group.py, consumer_group.py).
"""

from collections.abc import Callable, Iterable
from enum import Enum

import trio
from msgspec import Struct

from pk.core.values import TopicPartition


class StepKind(Enum):
    """What poll is to do for the group."""

    REVOKE = "revoke"
    ASSIGN = "assign"
    LOST = "lost"


class Step(Struct, eq=False):
    """Something that poll has to do before the group can go on."""

    kind: StepKind
    partitions: tuple[TopicPartition, ...] = ()
    """For ASSIGN: everything the member is to have."""

    started: bool = False
    done: bool = False
    """Poll has done it, or need not do the rest of it."""

    again: bool = False
    """Set by poll: partitions were let go that others wait for."""


class Steps:
    """The step in front of poll, and a way to wait for what poll does. `owned` says which
    partitions the program has; `on_news` wakes poll; `on_done` is called when poll has done a step,
    or part of one."""

    def __init__(
        self,
        owned: Callable[[], Iterable[TopicPartition]],
        on_news: Callable[[], None],
        on_done: Callable[[], None] = lambda: None,
    ) -> None:
        self.current: Step | None = None
        self.changed = trio.Event()
        """Set by `wake`, which makes the next one."""

        self._under_way: Step | None = None
        """What poll is doing: `current`, or what that has overtaken."""

        self._owned = owned
        self._on_news = on_news
        self._on_done = on_done

    def put(self, step: Step) -> None:
        """Put a step in front of poll, instead of the one there."""
        self.current = step
        self._on_news()

    def drop(self) -> None:
        """Poll is to do nothing, and to take nothing more in the step that it is doing."""
        for step in (self.current, self._under_way):
            if step is not None:
                step.done = True
        self.current = None
        self.wake()

    def unfinished(self) -> set[TopicPartition]:
        """What poll is still to take, or about to take."""
        steps = (self.current, self._under_way)
        return {
            partition
            for step in steps
            if step is not None and step.kind is StepKind.ASSIGN and not step.done
            for partition in step.partitions
        }

    def begin(self) -> Step | None:
        """What poll is to do now. It calls `finish` or `put_back` then."""
        step = self._under_way = self.current
        if step is not None:
            step.started = True
        return step

    def finish(self, step: Step) -> None:
        """Poll has done a step."""
        step.done = True
        if self.current is step:
            self.current = None
        self._end()

    def put_back(self, step: Step) -> None:
        """Poll was interrupted: the next one does the rest, unless another step has overtaken
        this one."""
        step.started = False
        if self.current is not step:
            step.done = True
        self._end()

    def _end(self) -> None:
        self._under_way = None
        self.wake()
        self._on_done()

    def wake(self) -> None:
        """Let who waits look again."""
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until poll, or another that wakes, has made it so."""
        while not ready():
            await self.changed.wait()

    async def lose(self) -> None:
        """Have poll give up what the program has, because somebody else may have it already."""
        self.drop()
        await self.until(lambda: self._under_way is None)
        if owned := tuple(self._owned()):
            step = Step(StepKind.LOST, owned)
            self.put(step)
            await self.until(lambda: step.done)
