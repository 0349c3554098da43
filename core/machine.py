"""The shape of every state machine here: decide, then replay.

`decide(command, now_ms)` reads the state and never changes it; it returns a `Decision`: the records that would make the
change, and what to answer once they are committed. The runtime appends the records, hands each to `replay`, which is the
only thing that changes durable state, and holds the answer until the high watermark passes them. If the append fails the
state is dropped and replayed from the log, so no machine needs to undo anything.

What is not durable (who waits for a rebalance, when a session runs out) is a machine's *soft* state. A request that has
to wait is answered later by *token*: its Decision has `reply=None`, and a later Decision carries (token, answer).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

R = TypeVar("R")


@dataclass(slots=True)
class Decision(Generic[R]):
    """What a command comes to: records to append, an answer to give when they are committed."""

    records: list[R] = field(default_factory=list)
    """To append, in this order, all or none."""

    reply: Any = None
    """The answer to the command, None when it is to wait for a later Decision's `answers`."""

    answers: list[tuple[Hashable, Any]] = field(default_factory=list)
    """Answers to commands that waited: (the token they came with, the answer)."""

    timers: list[tuple[Hashable, int | None]] = field(default_factory=list)
    """Timers to set: (key, when in ms of the machine's clock; None cancels). A key has one timer at most."""

    take_back: Callable[[], None] | None = None
    """Called where the append is refused: takes back what the decision did to soft state, and the timers above with it.
    None where soft state is right all the same."""

    atomic: bool = True
    """False where the records may be appended in several batches, of which later ones may be refused: each is right by
    itself, and all together may be more than one batch can hold."""
