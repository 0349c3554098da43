"""Bugs that are planted to see that the simulator bites: each in force while its context is, none of it in the product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

from sim.simulation import run_seed

from pk.core.api import produce
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replica_fetcher import ReplicaFetcher
from pk.core.errors import ErrorCode
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryFile
from pk.core.log.producers import Producers
from pk.core.machine import Decision
from pk.core.meta import partitions as meta_partitions
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import MemoryStore
from pk.core.txn.machine import TransactionMachine
from pk.core.txn.records import Record
from pk.core.txn.transaction import State, Transaction
from pk.core.values import METADATA_TOPIC
from pk.core.wire.messages.init_producer_id import InitProducerIdResponse

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def patched(owner: Any, **changes: Any) -> Iterator[None]:
    """What `changes` names of `owner` is something else for a while."""
    before = {name: owner.__dict__[name] for name in changes}
    for name, value in changes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def high_watermark_from_log_end() -> Iterator[None]:
    """The leader's high watermark is its own log end: it does not wait for the ISR."""

    def advance(self: Partition) -> None:
        if self.leads and self.log.log_end_offset > self.high_watermark:
            self._moved(self.log.log_end_offset)

    with patched(Partition, advance_high_watermark=advance):
        yield


@contextmanager
def truncation_by_high_watermark() -> Iterator[None]:
    """A follower cuts its log at its own high watermark when it hears of a new leader, as Kafka did before KIP-101."""
    add = ReplicaFetcher.add

    def cut_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        if partition.high_watermark < partition.log.log_end_offset:
            partition.log.truncate_to(partition.high_watermark)
            partition.truncated()
        add(self, partition)

    with patched(ReplicaFetcher, add=cut_and_add):
        yield


@contextmanager
def stale_leader_not_fenced() -> Iterator[None]:
    """Nobody looks at leader epochs: neither a leader that is asked, nor the controller when one proposes an ISR."""
    objection = meta_partitions._objection

    def no_check(self: Partition, current_leader_epoch: int) -> None:
        pass

    def lenient(image: Any, rules: Any, partition: Any, leader: int, data: Any, isr: Any) -> Any:
        code = objection(image, rules, partition, leader, data, isr)
        stale = (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.INVALID_REQUEST,
        )
        return ErrorCode.NONE if code in stale else code

    with ExitStack() as stack:
        stack.enter_context(patched(Partition, check_epoch=no_check))
        stack.enter_context(patched(meta_partitions, _objection=lenient))
        yield


@contextmanager
def isr_before_it_is_committed() -> Iterator[None]:
    """A leader counts with the ISR it proposes, before the controller has committed it."""
    propose = Partition._propose

    def at_once(self: Partition, isr: tuple[int, ...], joining: int | None) -> None:
        propose(self, isr, joining)
        self.isr = isr
        self._maximal = frozenset(isr)
        self.advance_high_watermark()

    with patched(Partition, _propose=at_once):
        yield


@contextmanager
def append_lost_on_controller_change() -> Iterator[None]:
    """Who takes the controller's office over does not see the last append of the one before."""
    load = MemoryStore.load

    async def short(self: MemoryStore) -> MetadataImage:
        if self.log.records and len(self.log.records) > 1:
            self.log.records.pop()
        return await load(self)

    with patched(MemoryStore, load=short):
        yield


def _no_sync_below(part: str) -> AbstractContextManager[None]:
    sync = MemoryFile.sync

    def maybe(self: MemoryFile) -> None:
        if part not in self.path:
            sync(self)

    return patched(MemoryFile, sync=maybe)


def metadata_not_synced() -> AbstractContextManager[None]:
    """The metadata log is not synced before its events are served."""
    return _no_sync_below(f"/{METADATA_TOPIC}-0/")


def topic_not_synced() -> AbstractContextManager[None]:
    """A topic with `flush.messages=1` is not synced before its records are acknowledged."""
    return _no_sync_below("/synced-0/")


@contextmanager
def markers_lost_at_failover() -> Iterator[None]:
    """A coordinator that takes over does not send the markers of what was prepared before it."""
    loaded = TransactionMachine.loaded

    def without(self: TransactionMachine, now_ms: int) -> Decision[Any]:
        decision = loaded(self, now_ms)
        decision.effects.clear()
        return decision

    with patched(TransactionMachine, loaded=without):
        yield


@contextmanager
def complete_with_one_marker() -> Iterator[None]:
    """A transaction counts as complete when its first partition has the marker."""
    marked = TransactionMachine.marked

    def hasty(self: TransactionMachine, written: Any, now_ms: int) -> Decision[Any]:
        written = list(written)
        for one in written:
            self._unmarked.get(one.transactional_id, set()).clear()
        return marked(self, written, now_ms)

    with patched(TransactionMachine, marked=hasty):
        yield


@contextmanager
def last_stable_offset_passes_open_transactions() -> Iterator[None]:
    """Readers of committed records read up to the high watermark."""

    def none(self: Producers, high_watermark: int) -> int | None:
        return None

    with patched(Producers, first_unstable_offset=none):
        yield


@contextmanager
def aborted_transactions_not_told() -> Iterator[None]:
    """A leader does not tell readers which transactions were aborted."""

    def nothing(self: Log, *args: Any, **kwargs: Any) -> list[Any]:
        return []

    with patched(Log, aborted_transactions=nothing):
        yield


@contextmanager
def open_transaction_not_fenced() -> Iterator[None]:
    """A new instance of a producer goes on with the transaction that the one before left open."""

    def keep(self: TransactionMachine, txn: Transaction, now_ms: int) -> Decision[Any]:
        return Decision([Record(txn.transactional_id, txn)])

    init = TransactionMachine.init_producer_id

    def lenient(
        self: TransactionMachine, request: Any, fresh_id: int | None, now_ms: int
    ) -> Decision[Any]:
        known = self.transactions.get(request.transactional_id)
        if known is not None and known.state is State.ONGOING:
            reply = InitProducerIdResponse(
                producer_id=known.producer_id, producer_epoch=known.epoch
            )
            return Decision(reply=reply)
        return init(self, request, fresh_id, now_ms)

    with patched(TransactionMachine, init_producer_id=lenient, _fence_and_abort=keep):
        yield


@contextmanager
def transactions_not_verified() -> Iterator[None]:
    """A leader appends what it is sent in a transaction, and asks no coordinator."""

    def never(self: Any, partition: Any, header: Any) -> bool:
        return False

    def unchecked(self: Any, partition: Any, header: Any) -> None:
        pass

    with patched(produce._Produce, must_verify=never, check_transaction=unchecked):
        yield


PLANTED: Final[dict[str, Plant]] = {
    "hw-from-leo": high_watermark_from_log_end,
    "truncate-by-hw": truncation_by_high_watermark,
    "stale-leader": stale_leader_not_fenced,
    "early-isr": isr_before_it_is_committed,
    "lost-append": append_lost_on_controller_change,
    "metadata-fsync": metadata_not_synced,
    "topic-fsync": topic_not_synced,
    "lost-markers": markers_lost_at_failover,
    "one-marker": complete_with_one_marker,
    "lso-passes-open": last_stable_offset_passes_open_transactions,
    "aborted-not-told": aborted_transactions_not_told,
    "open-not-fenced": open_transaction_not_fenced,
    "not-verified": transactions_not_verified,
}
"""Name → the bug."""


def find(name: str, seeds: Iterable[int]) -> tuple[int, int, str] | None:
    """(how many seeds it took, the seed, what was found), None where none of them finds it."""
    for tried, seed in enumerate(seeds, 1):
        result = run_seed(seed, planted=PLANTED[name])
        if result.failed:
            what = str(result.violation or result.error.strip().splitlines()[-1])
            return tried, seed, what
    return None


def search(names: Iterable[str], seeds: Iterable[int]) -> int:
    """Look for each bug and tell; how many were not found."""
    missed = 0
    seeds = list(seeds)
    for name in names:
        found = find(name, seeds)
        if found is None:
            missed += 1
            print(f"{name}: NOT found in {len(seeds)} seeds", flush=True)
        else:
            tried, seed, what = found
            print(f"{name}: found within {tried} seeds, by {seed}: {what}", flush=True)
    return missed
