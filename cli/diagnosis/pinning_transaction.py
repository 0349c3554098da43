"""Describes the transaction that pins a partition's last stable offset: its owner, its age, and the
next step."""

import shlex
from enum import Enum
from typing import NamedTuple

from pk.cli.positions.times import show_clock, show_span, show_time
from pk.core.values import TopicPartition

_LONGEST_MIN = 15
"""`pk transactions find-hanging` ignores transactions with a record newer than this, by default
(transaction.max.timeout.ms)."""


class Known(Enum):
    """A transaction as its coordinator describes it."""

    YES = "yes"
    """A coordinator has the partition in the transaction and will end it."""

    NO = "no"
    """All coordinators answered, and none will end the transaction: it hangs."""

    UNHEARD = "unheard"
    """Not all coordinators answered."""


class PinningTransaction(NamedTuple):
    """The open transaction with the lowest first offset in a partition. Times are epoch ms."""

    producer_id: int
    since_ms: int | None
    known: Known
    last_ms: int = -1
    """When its last record was written; -1 if the leader does not say."""

    transactional_id: str | None = None
    state: str | None = None
    timeout_ms: int | None = None
    start_offset: int = -1
    """The offset of its first record in the partition."""


def whose(held: PinningTransaction) -> str:
    """The owner of the transaction, in a few words for a verdict."""
    if held.known is Known.NO:
        return f"that of producer {held.producer_id}, which no coordinator knows: it hangs"
    if held.transactional_id is not None:
        return f"that of transactional id {held.transactional_id}"
    return f"that of producer {held.producer_id}"


def full_description(held: PinningTransaction, now_ms: int) -> str:
    """Producer, start, transactional id, state and timeout."""
    said = f"producer {held.producer_id}"
    if held.since_ms is not None:
        said += f", open since {show_clock(show_time(held.since_ms))}"
        if now_ms > held.since_ms:
            said += f" ({show_span(now_ms - held.since_ms)})"
    if held.transactional_id is not None:
        said += f", transactional id {held.transactional_id}"
        if held.state is not None:
            said += f" in state {held.state}"
        if held.timeout_ms is not None:
            said += f", timeout {show_span(held.timeout_ms)}"
    if held.known is Known.NO:
        said += "; no coordinator knows this transaction, so none will end it: it hangs"
        if held.transactional_id is None:
            said += ", unless this user may not describe its transactional id"
    elif held.known is Known.UNHEARD:
        said += "; not all coordinators answered, so its owner is unknown"
    return said


def next_step(tp: TopicPartition, held: PinningTransaction, now_ms: int) -> str | None:
    """The command that shows more about the transaction."""
    if held.known is Known.NO:
        step = f"pk transactions find-hanging {shlex.quote(tp.topic)}"
        young = held.last_ms < 0 or now_ms - held.last_ms < _LONGEST_MIN * 60_000
        return f"{step} --max-transaction-timeout 1m" if young else step
    if held.transactional_id is not None:
        return f"pk transactions describe {shlex.quote(held.transactional_id)}"
    return None
