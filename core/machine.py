"""The shape of every state machine here: decide, then replay.

A request, a timer or a change of the cluster comes to a *decision*: the records that would make the change, what to answer
once they are safe, and what else is to be done then. The runtime appends the records, hands each to `replay`, holds the
answer and the effects until the high watermark passes them, and sets the timers. If the log is lost or refuses, nothing
else has happened.

A machine has two kinds of state.

- *Durable* state is what its log says. Only `replay` changes it, never a decision, so that a coordinator which reads the
  log comes to the same. If an append fails, durable state is as it was, and nothing has to be undone.
- *Soft* state is what is lost with the coordinator, and may be: who waits for a rebalance, when a session runs out, which
  partitions still lack a marker, the image of the cluster. Decisions change it directly. After a load it begins anew, as
  `loaded` makes it. A decision whose append is refused may leave it wrong: then the machine says so
  (`keeps_state_when_refused`), or takes back what the decision did (`take_back`).

A request that must wait is answered later by *token*: its Decision has `reply=None`, and a later Decision carries (token,
answer).

An *effect* is a wish of the machine's for something that only the runtime can do: data, no callback into the broker. The
runtime carries it out once everything that the decision rests on is safe, so that nobody outside ever sees a state that a
failover takes back. What comes of it returns to the machine as another decision. A coordinator that ends carries out
nothing more: the next one finds in its log what is still to be done, and `loaded` asks for it again. So effects must be
such that doing them twice does no harm.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pk.core.values import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

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

    producer_id: int = NO_PRODUCER_ID
    """Whose transaction the records belong to: their batch is transactional, and what they say counts once the marker of
    that transaction is in the log (`replay_end_marker`). -1 where they belong to none."""

    producer_epoch: int = NO_PRODUCER_EPOCH

    effects: list[Any] = field(default_factory=list)
    """To carry out, in this order, once the records and all before them are safe. None is carried out where the append is
    refused. Each is a `Compute` or of a kind that the coordinator's surroundings know."""


@dataclass(frozen=True, slots=True)
class Compute:
    """An effect: run `work` off the loop, and decide by what came of it. For what takes longer than the loop may be held.

    `work` sees only what it was given: values that nobody changes meanwhile. What it returns may be out of date when it
    returns, so `then(machine, result, now_ms)` must look whether it is still wanted. An exception of `work` is a bug in
    pk: the state is read from the log again.
    """

    work: Callable[[], Any]
    then: Callable[[Any, Any, int], Decision[Any]]
