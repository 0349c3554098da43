"""The shape of every state machine here: decide, then replay.

A request, a timer or a change of the cluster leads to a *decision*: the records that make the
change, the reply to give once they are safe, and further effects. The runtime appends the records,
passes each to `replay`, holds back the reply and the effects until the high watermark passes the
records, and sets the timers. If the log is lost or refuses the records, nothing else has happened.

A machine has two kinds of state.

- *Durable* state is the state in the log. Only `replay` changes it, never a decision, so that
  another coordinator that reads the log gets the same state. If an append fails, durable state is
  unchanged, and nothing must be undone.
- *Soft* state may be lost with the coordinator: which members wait for a rebalance, when a session
  expires, which partitions still lack a marker, the image of the cluster. Decisions change it
  directly. After a load, `loaded` creates it again. A decision whose append is refused may leave
  it wrong: such a decision carries a function that reverts it (`revert`). A decision that ends
  with an error reverts its own changes.

A request that must wait is answered later by *token*: its Decision has `reply=None`, and a later
Decision carries (token, reply).

An *effect* asks for something that only the runtime can do: it is data, not a callback into the
broker. The runtime carries it out once everything that the decision depends on is safe, so that a
failover never undoes a state that was visible outside. Its result returns to the machine as another
decision. A coordinator that stops carries out no more effects: its successor finds the remaining
ones in the log, and `loaded` requests them again. So carrying out an effect twice must do no harm.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct, field

from pk.core.values import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, new_list

Record = TypeVar("Record")
Reply = TypeVar("Reply")


class Effect(Struct, frozen=True):
    """An action of a coordinator other than writing records. Every coordinator carries out
    `Compute`. Group coordinators also carry out `CreateInternalTopics` and `InitializeShareState`,
    transaction coordinators `SendMarkers`, and share coordinators `PruneLog`."""


class Decision(Struct, Generic[Record, Reply]):
    """The result of a command: records to append, and a reply to send when they are committed."""

    records: list[Record] = field(default_factory=new_list)
    """The records to append, in this order. All of them are appended, or none."""

    reply: Reply = cast("Any", None)
    """The reply to the command, or None if a later Decision has it in its `answers`."""

    answers: list[tuple[Hashable, Any]] = field(default_factory=new_list)
    """Replies to commands that waited: (the command's token, the reply)."""

    timers: list[tuple[Hashable, int | None]] = field(default_factory=new_list)
    """Timers to set: (key, time in ms of the machine's clock, or None to cancel). A key has at most
    one timer."""

    revert: Callable[[], None] | None = None
    """A function that is called if the append is refused. It undoes the decision's changes to soft
    state, and the timers above are not set. If it is None, nothing is undone, and they are set."""

    atomic: bool = True
    """False if the records may be appended in several batches, and later batches may be refused.
    Each record must then be valid by itself. Together they may exceed a batch."""

    producer_id: int = NO_PRODUCER_ID
    """The producer to whose transaction the records belong, or -1. Their batch is then
    transactional, and they take effect when that transaction's marker is in the log
    (`replay_end_marker`)."""
    producer_epoch: int = NO_PRODUCER_EPOCH

    effects: list[Effect] = field(default_factory=new_list)
    """The effects to carry out, in this order, once the records and all before them are safe. None
    is carried out if the append is refused."""

    framed: list[bytes] = field(default_factory=new_list)
    """The records as encoded for the log (`frame_record`), if that was done ahead of the decision,
    otherwise empty."""


class Compute(Effect, frozen=True):
    """Run `work` off the loop, and decide with its result. Use it for work that would block the
    loop for too long.

    `work` uses only its arguments, which do not change while it runs. Its result may be out of date
    when it returns, so `then(machine, result, now_ms)` must check whether it is still needed. An
    exception in `work` is a bug in pk: the state is read from the log again.
    """

    work: Callable[[], Any]
    then: Callable[[Any, Any, int], Decision[Any, Any]]
