"""Planted bugs, which show that the simulator finds errors. Each is in force while its context is
active, and none of them is in the product."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing import get_context
from typing import Any, Final

import trio
from meta.memory_store import MemoryStore
from msgspec.structs import replace
from sim import swarm
from sim.faults import KINDS
from sim.patching import patched
from sim.simulation import Options, run_seed
from sim.tiered_bugs import BUGS as TIERED_BUGS

from pk.core.api.records import produce
from pk.core.broker.coordinator import marker_writer
from pk.core.broker.replication import replica_logs, replicas
from pk.core.broker.replication.log_reconciler import LogReconciler
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replica_fetcher import ReplicaFetcher
from pk.core.broker.share.share_partition import SharePartition, Stored
from pk.core.broker.upkeep import segment_repair
from pk.core.broker.upkeep.scrubber import Scrubber
from pk.core.broker.upkeep.segment_repair import SegmentRepair
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group import transactional_offsets
from pk.core.group.classic.group import ClassicGroup
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.offsets import Offsets
from pk.core.log import log as log_module
from pk.core.log.appender import Appender
from pk.core.log.log_reader import LogReader
from pk.core.log.memory_disk import MemoryFile
from pk.core.log.producers import Producers
from pk.core.log.state import LogState
from pk.core.machine import Decision
from pk.core.meta import alter_partition, stopped_followers, unclean_recovery
from pk.core.meta.image import MetadataImage
from pk.core.meta.partition_change_builder import PartitionChangeBuilder
from pk.core.share.batches import RecordState, StateBatch
from pk.core.share.coordinator import ShareCoordinatorMachine
from pk.core.share.partition_state import Acquired, SharePartitionState, StateWrite
from pk.core.txn import machine as txn_machine
from pk.core.txn.machine import SendMarkers, TransactionMachine
from pk.core.txn.records import Record
from pk.core.txn.transaction import State, Transaction
from pk.core.values import METADATA_TOPIC, NO_LEADER, NO_PRODUCER_ID
from pk.core.wire.messages.init_producer_id import InitProducerIdResponse

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def high_watermark_from_log_end() -> Iterator[None]:
    """The leader's high watermark is its own log end: it does not wait for the ISR."""

    def advance(self: Partition) -> None:
        if self.leads and self.log.state.log_end_offset > self.high_watermark:
            self._high_watermark_moved(self.log.state.log_end_offset)

    with patched(Partition, advance_high_watermark=advance):
        yield


@contextmanager
def truncation_by_high_watermark() -> Iterator[None]:
    """A follower cuts its log at its own high watermark when it hears of a new leader, as Kafka did
    before KIP-101."""
    add = ReplicaFetcher.add

    def cut_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        if partition.high_watermark < partition.log.state.log_end_offset:
            partition.log.segments.truncate_to(partition.high_watermark)
            partition.truncated()
        add(self, partition)

    with patched(ReplicaFetcher, add=cut_and_add):
        yield


@contextmanager
def stale_leader_not_fenced() -> Iterator[None]:
    """No one checks leader epochs: neither a leader that is asked, nor the controller when one
    proposes an ISR."""
    objection = alter_partition._objection

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
        stack.enter_context(patched(alter_partition, _objection=lenient))
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
    """A controller that takes over the leadership does not see the last append of its
    predecessor."""
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
def one_offset_for_a_run() -> Iterator[None]:
    """The batches of requests that came together are all answered with the first one's offset."""
    append_run = Appender.append_run

    def confused(self: Appender, run: Any, leader_epoch: int, now_ms: int) -> list[int]:
        offsets = append_run(self, run, leader_epoch, now_ms)
        return offsets[:1] * len(offsets)

    with patched(Appender, append_run=confused):
        yield


@contextmanager
def markers_lost_at_failover() -> Iterator[None]:
    """A coordinator that takes over does not send the markers of transactions prepared before
    it."""
    loaded = TransactionMachine.loaded

    def without(self: TransactionMachine, now_ms: int) -> Decision[Any, Any]:
        decision = loaded(self, now_ms)
        decision.effects.clear()
        return decision

    with patched(TransactionMachine, loaded=without):
        yield


@contextmanager
def complete_with_one_marker() -> Iterator[None]:
    """A transaction counts as complete when its first partition has the marker."""
    marked = TransactionMachine.marked

    def hasty(self: TransactionMachine, written: Any, now_ms: int) -> Decision[Any, Any]:
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

    def nothing(self: LogReader, *args: Any, **kwargs: Any) -> list[Any]:
        return []

    with patched(LogReader, aborted_transactions=nothing):
        yield


@contextmanager
def open_transaction_not_fenced() -> Iterator[None]:
    """A new instance of a producer continues the transaction that its predecessor left open."""

    def keep(
        self: TransactionMachine, txn: Transaction, now_ms: int, reply: Any
    ) -> Decision[Any, Any]:
        return Decision([Record(txn.transactional_id, txn)], reply)

    init = TransactionMachine.init_producer_id

    def lenient(
        self: TransactionMachine, request: Any, fresh_id: int | None, now_ms: int
    ) -> Decision[Any, Any]:
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
    """A leader appends transactional batches without asking the coordinator."""

    def never(self: Any, partition: Any, header: Any) -> bool:
        return False

    def unchecked(self: Any, partition: Any, header: Any) -> None:
        pass

    with patched(produce._Produce, must_verify=never, check_transaction=unchecked):
        yield


@contextmanager
def pending_offsets_forgotten() -> Iterator[None]:
    """A group's coordinator forgets the offsets of a transaction when the transaction's marker
    comes."""
    end = Offsets.end_transaction

    def forgets(self: Offsets, producer_id: int, *, committed: bool) -> None:
        end(self, producer_id, committed=False)

    with patched(Offsets, end_transaction=forgets):
        yield


@contextmanager
def offsets_visible_before_commit() -> Iterator[None]:
    """Offsets of a transaction take effect at once, even if it is aborted later."""
    replay = Offsets.replay

    def at_once(self: Offsets, record: Any, record_offset: int, producer_id: int) -> None:
        replay(self, record, record_offset, NO_PRODUCER_ID)

    with patched(Offsets, replay=at_once):
        yield


@contextmanager
def unstable_offsets_served() -> Iterator[None]:
    """OffsetFetch does not wait for the end of a transaction that would change the offset."""
    fetch = Offsets.fetch

    def impatient(self: Offsets, request: Any, *, require_stable: bool) -> Any:
        return fetch(self, request, require_stable=False)

    with patched(Offsets, fetch=impatient):
        yield


@contextmanager
def generation_not_fenced() -> Iterator[None]:
    """TxnOffsetCommit does not check whether the member still is one, and of this generation
    (KIP-447)."""

    def anyone(request: Any, group: Any) -> None:
        return None

    with patched(transactional_offsets, check=anyone):
        yield


@contextmanager
def member_not_fenced() -> Iterator[None]:
    """OffsetCommit takes offsets from members that lost their partitions: neither generation nor
    member epoch is looked at."""

    def anyone(self: Any, committer: Any) -> None:
        return None

    with ExitStack() as stack:
        stack.enter_context(patched(ClassicGroup, check_commit=anyone))
        stack.enter_context(patched(ConsumerGroup, check_commit=anyone))
        yield


@contextmanager
def partition_given_before_it_is_released() -> Iterator[None]:
    """A group of KIP-848 assigns a partition while the member that had it has not given it up."""

    def free(self: ConsumerGroup, topic_id: Any, partition: int) -> bool:
        return False

    with patched(ConsumerGroup, is_held=free):
        yield


@contextmanager
def fenced_producer_accepted() -> Iterator[None]:
    """Neither the coordinator nor a partition's leader minds an old producer epoch."""
    check, end = Producers.check, TransactionMachine.end

    def lenient(self: Producers, header: Any) -> Any:
        try:
            return check(self, header)
        except KafkaError as e:
            if e.code != ErrorCode.INVALID_PRODUCER_EPOCH:
                raise
            return None

    def of_anyone(self: TransactionMachine, transactional_id: str, producer: Any) -> Transaction:
        txn = self._known(transactional_id)
        if txn.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return txn

    def ended_by_anyone(self: TransactionMachine, request: Any, *args: Any) -> Any:
        txn = self.transactions.get(request.transactional_id)
        if txn is not None and txn.state is State.ONGOING:
            request.producer_id, request.producer_epoch = txn.producer_id, txn.epoch
        return end(self, request, *args)

    with ExitStack() as stack:
        stack.enter_context(patched(Producers, check=lenient))
        stack.enter_context(
            patched(TransactionMachine, _of_producer=of_anyone, end=ended_by_anyone)
        )
        yield


@contextmanager
def time_out_does_not_fence() -> Iterator[None]:
    """A transaction that is open for too long is aborted, and its producer keeps its epoch."""

    def keep_epoch(
        self: TransactionMachine, txn: Transaction, now_ms: int, reply: Any
    ) -> Decision[Any, Any]:
        return self._prepared(txn.moved(State.PREPARE_ABORT, now_ms, client_version=0), reply)

    with patched(TransactionMachine, _fence_and_abort=keep_epoch):
        yield


@contextmanager
def outcome_forgotten_at_failover() -> Iterator[None]:
    """A coordinator that takes over aborts the transactions prepared before it, even those that
    should be committed."""
    loaded = TransactionMachine.loaded

    def aborts(self: TransactionMachine, now_ms: int) -> Decision[Any, Any]:
        decision = loaded(self, now_ms)
        decision.effects = [
            replace(one, committed=False)
            for one in decision.effects
            if isinstance(one, SendMarkers)
        ]
        return decision

    with patched(TransactionMachine, loaded=aborts):
        yield


@contextmanager
def marker_doubled_after_completion() -> Iterator[None]:
    """Markers are sent again when a transaction is complete, and a leader takes them for those of
    the next one."""
    marked = TransactionMachine.marked

    def again(self: TransactionMachine, written: Any, now_ms: int) -> Decision[Any, Any]:
        decision = marked(self, written, now_ms)
        for record in decision.records:
            before = self.transactions[record.transactional_id]
            decision.effects.append(txn_machine._markers_of(before))
        return decision

    def unchecked(partition: Any, marker: Any) -> None:
        pass

    with ExitStack() as stack:
        stack.enter_context(patched(TransactionMachine, marked=again))
        stack.enter_context(patched(marker_writer, _check_newer=unchecked))
        yield


@contextmanager
def aborts_lost_by_recovery() -> Iterator[None]:
    """A log that is opened after a crash does not find its aborted transactions again."""
    load = LogState.load_producers

    def without(self: LogState, quiet_from: int | None = None) -> Any:
        producers, _ = load(self, quiet_from)
        return producers, []

    with patched(LogState, load_producers=without):
        yield


@contextmanager
def acknowledgement_answered_before_it_is_stored() -> Iterator[None]:
    """A share partition's leader answers acknowledgements at once, and has them stored a second
    later."""
    store = SharePartition._store

    async def later(self: SharePartition, write: StateWrite) -> None:
        await trio.sleep(1)
        store(self, write)

    def answered(self: SharePartition, write: StateWrite) -> Stored:
        assert self.state is not None
        if write.write_id:
            self.state.written(write.write_id, stored=True)
        self._owner.start_soon(later, self, write)
        stored = Stored()
        stored.done(None)
        return stored

    with patched(SharePartition, _store=answered):
        yield


@contextmanager
def locked_records_acquired() -> Iterator[None]:
    """A share partition gives a member records that another one holds."""
    acquire = SharePartitionState.acquire

    def unlocked(self: SharePartitionState, *args: Any, **kwargs: Any) -> list[Acquired]:
        for run in self._runs:
            if run.is_locked:
                run.state = RecordState.AVAILABLE
        return acquire(self, *args, **kwargs)

    with patched(SharePartitionState, acquire=unlocked):
        yield


@contextmanager
def acknowledged_by_any_member() -> Iterator[None]:
    """A share partition takes acknowledgements of records from members that do not hold them."""
    check = SharePartitionState._check_held

    def lenient(self: SharePartitionState, member_id: str, first: int, last: int) -> None:
        for run in self._between(first, last):
            check(self, run.member_id, max(first, run.first), min(last, run.last))

    with patched(SharePartitionState, _check_held=lenient):
        yield


@contextmanager
def start_offset_moves_back() -> Iterator[None]:
    """A share coordinator tells a new leader a start offset that delivery was past already."""
    read = ShareCoordinatorMachine.read

    def before(self: ShareCoordinatorMachine, *args: Any) -> Decision[Any, Any]:
        decision = read(self, *args)
        start_offset = decision.reply.start_offset
        if start_offset > 0:
            decision.reply = decision.reply._replace(start_offset=start_offset - 1)
        return decision

    with patched(ShareCoordinatorMachine, read=before):
        yield


@contextmanager
def delivery_count_forgotten_at_failover() -> Iterator[None]:
    """A new leader of a share partition counts deliveries from nought."""
    load = SharePartitionState._load

    def uncounted(self: SharePartitionState, batch: StateBatch) -> None:
        load(self, batch._replace(delivery_count=0))

    with patched(SharePartitionState, _load=uncounted):
        yield


@contextmanager
def records_in_flight_skipped_at_failover() -> Iterator[None]:
    """A new leader of a share partition takes records for done with that were in flight before."""
    load = SharePartitionState._load

    def skipping(self: SharePartitionState, batch: StateBatch) -> None:
        known = len(self._runs)
        load(self, batch)
        for run in self._runs[known:-1]:
            self._settle(run, RecordState.ARCHIVED)

    with patched(SharePartitionState, _load=skipping):
        yield


@contextmanager
def time_out_gives_record_up() -> Iterator[None]:
    """A record whose lock runs out is not delivered again."""
    after = SharePartitionState._state_after

    def archived(self: SharePartitionState, kind: Any, run: Any) -> RecordState:
        state = after(self, kind, run)
        return RecordState.ARCHIVED if state is RecordState.AVAILABLE else state

    with patched(SharePartitionState, _state_after=archived):
        yield


@contextmanager
def first_back_leads() -> Iterator[None]:
    """The first replica that reports leads, without a comparison of the logs."""

    def first(
        rules: Any, partition: Any, reports: Any, *, timed_out: bool
    ) -> unclean_recovery.Verdict:
        heard = unclean_recovery.current_logs(rules, partition, reports)
        return unclean_recovery.Verdict(next(iter(heard), NO_LEADER))

    with patched(unclean_recovery, choose_leader=first):
        yield


@contextmanager
def longest_log_whatever_its_epoch() -> Iterator[None]:
    """Logs are compared by their ends alone."""

    def longest(partition: Any, logs: Any) -> int:
        return max(logs, key=lambda node: logs[node].end_offset, default=NO_LEADER)

    with patched(unclean_recovery, best_replica=longest):
        yield


@contextmanager
def members_of_the_isr_forgotten() -> Iterator[None]:
    """Only who led last is waited for."""

    def leader_alone(self: PartitionChangeBuilder, is_enough: bool) -> tuple[int, ...]:
        old = self._old
        return old.last_known_elr[:1] if old.leader == NO_LEADER else ()

    with patched(PartitionChangeBuilder, _last_known_to_keep=leader_alone):
        yield


@contextmanager
def end_before_damage_reported() -> Iterator[None]:
    """A replica that was found damaged reports the end that it had before."""
    described = replica_logs.describe_log

    def as_it_was(partition: Partition) -> Any:
        log, mark = described(partition), partition.log.mark
        if mark is not None:
            log.end_offset, log.damage = max(mark.lost_offset, log.end_offset), 0
            log.last_epoch = max(log.last_epoch, partition.leader_epoch - 1)
        return log

    with patched(replica_logs, describe_log=as_it_was):
        yield


@contextmanager
def committed_cut() -> Iterator[None]:
    """A follower begins with a cut of the last record below its high watermark."""
    add = ReplicaFetcher.add

    def cut_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        if partition.high_watermark > partition.log.state.log_start_offset:
            partition.log.segments.truncate_to(partition.high_watermark - 1)
            partition.truncated()
        add(self, partition)

    with patched(ReplicaFetcher, add=cut_and_add):
        yield


@contextmanager
def cut_uncompared() -> Iterator[None]:
    """A follower cuts below its high watermark without asking the controller."""

    def may_cut(self: LogReconciler, fetch_state: Any, offset: int) -> bool:
        return True

    with patched(LogReconciler, _may_truncate=may_cut):
        yield


@contextmanager
def stopped_followers_compared_by_ends() -> Iterator[None]:
    """A stopped follower continues as soon as its leader's log is as long as the part that the
    follower knows to be committed."""
    compare = stopped_followers.compare

    def by_ends(rules: Any, topic: Any, partition: Any, node: int, log: Any) -> Any:
        if log.leader_end_offset >= log.high_watermark:
            return stopped_followers.Comparison(
                may_continue=True, reason="the leader's log is as long"
            )
        return compare(rules, topic, partition, node, log)

    with patched(unclean_recovery, compare=by_ends):
        yield


@contextmanager
def kept_bytes_dropped_early() -> Iterator[None]:
    """The bytes that recovery cut off are deleted as soon as the log is open."""

    def at_once(node_id: int, image: Any) -> bool:
        return True

    unmark = log_module.unmark

    def all_of_it(disk: Any, directory: str, *, keep: bool) -> None:
        unmark(disk, directory, keep=False)

    with (
        patched(replicas, is_in_sync_again=at_once),
        patched(log_module, unmark=all_of_it),
    ):
        yield


@contextmanager
def damaged_replica_stays_eligible() -> Iterator[None]:
    """A replica whose broker was shut down cleanly stays eligible, though it was found damaged."""

    def unchanged(rules: Any, topic: Any, partition: Any, node: int) -> None:
        return None

    with patched(unclean_recovery, _damaged=unchanged):
        yield


@contextmanager
def segment_replaced_unchecked() -> Iterator[None]:
    """A follower takes its leader's first answer, of one batch, in place of a damaged segment, and
    does not look whether it is all."""
    fetch = SegmentRepair._fetch

    async def first(
        self: SegmentRepair, channel: Any, partition: Any, epoch: int, offset: int
    ) -> bytes:
        starts = {segment.base_offset for segment in partition.log.state.segments}
        return await fetch(self, channel, partition, epoch, offset) if offset in starts else b""

    def none(copy: Any, replaced: Any, epochs: Any) -> Generator[int, None, str | None]:
        yield 0
        return None

    with (
        patched(SegmentRepair, _fetch=first),
        patched(segment_repair, find_replacement_problem=none),
    ):
        size, segment_repair.FETCH_BYTES = segment_repair.FETCH_BYTES, 1  # type: ignore[misc]
        try:
            yield
        finally:
            segment_repair.FETCH_BYTES = size  # type: ignore[misc]


@contextmanager
def damaged_leader_leads_on() -> Iterator[None]:
    """A leader with a damaged segment does not hand over."""

    def stays(rules: Any, topic: Any, partition: Any, node: int, reports: Any) -> None:
        return None

    with patched(unclean_recovery, _move_leadership=stays):
        yield


@contextmanager
def segments_not_read() -> Iterator[None]:
    """The scrubber counts each log as read, and reads none."""

    async def unread(self: Scrubber, partition: Any, log: Any, segments: Any) -> None:
        pass

    with patched(Scrubber, _check_log=unread):
        yield


PLANTED: Final[dict[str, Plant]] = {
    "hw-from-leo": high_watermark_from_log_end,
    "truncate-by-hw": truncation_by_high_watermark,
    "stale-leader": stale_leader_not_fenced,
    "early-isr": isr_before_it_is_committed,
    "lost-append": append_lost_on_controller_change,
    "metadata-fsync": metadata_not_synced,
    "topic-fsync": topic_not_synced,
    "run-one-offset": one_offset_for_a_run,
    "lost-markers": markers_lost_at_failover,
    "one-marker": complete_with_one_marker,
    "lso-passes-open": last_stable_offset_passes_open_transactions,
    "aborted-not-told": aborted_transactions_not_told,
    "open-not-fenced": open_transaction_not_fenced,
    "not-verified": transactions_not_verified,
    "pending-forgotten": pending_offsets_forgotten,
    "offsets-at-once": offsets_visible_before_commit,
    "unstable-served": unstable_offsets_served,
    "generation-not-fenced": generation_not_fenced,
    "member-not-fenced": member_not_fenced,
    "two-owners": partition_given_before_it_is_released,
    "fenced-accepted": fenced_producer_accepted,
    "time-out-not-fenced": time_out_does_not_fence,
    "outcome-forgotten": outcome_forgotten_at_failover,
    "marker-doubled": marker_doubled_after_completion,
    "aborts-lost": aborts_lost_by_recovery,
    "share-stored-late": acknowledgement_answered_before_it_is_stored,
    "share-lock-ignored": locked_records_acquired,
    "share-any-member": acknowledged_by_any_member,
    "share-start-back": start_offset_moves_back,
    "share-count-forgotten": delivery_count_forgotten_at_failover,
    "share-in-flight-skipped": records_in_flight_skipped_at_failover,
    "share-time-out-final": time_out_gives_record_up,
    "first-back": first_back_leads,
    "end-without-epoch": longest_log_whatever_its_epoch,
    "isr-forgotten": members_of_the_isr_forgotten,
    "damaged-end": end_before_damage_reported,
    "committed-cut": committed_cut,
    "cut-uncompared": cut_uncompared,
    "compared-by-ends": stopped_followers_compared_by_ends,
    "kept-dropped": kept_bytes_dropped_early,
    "damaged-eligible": damaged_replica_stays_eligible,
    "replaced-unchecked": segment_replaced_unchecked,
    "damaged-leads-on": damaged_leader_leads_on,
    "segments-not-read": segments_not_read,
    **TIERED_BUGS,
}
"""Name → the bug."""

_TRANSACTIONS: Final = frozenset({swarm.TRANSACTIONS})
_CHAIN: Final = frozenset({swarm.CHAIN})
_SHARE_GROUP: Final = frozenset({swarm.SHARE_GROUP})
_WRECKS: Final = frozenset({swarm.WRECKS})
_ROT: Final = frozenset({swarm.ROT})
SEEN_BY: Final[dict[str, frozenset[str]]] = {
    "topic-fsync": frozenset({swarm.SYNCED}),
    "lost-markers": _TRANSACTIONS,
    "one-marker": _TRANSACTIONS,
    "lso-passes-open": _TRANSACTIONS,
    "aborted-not-told": _TRANSACTIONS,
    "open-not-fenced": _TRANSACTIONS,
    "not-verified": _TRANSACTIONS,
    "pending-forgotten": _CHAIN,
    "offsets-at-once": _CHAIN,
    "unstable-served": _CHAIN,
    "generation-not-fenced": _CHAIN,
    "member-not-fenced": frozenset({swarm.CLASSIC_GROUP, swarm.CONSUMER_GROUP}) | _CHAIN,
    "two-owners": frozenset({swarm.CONSUMER_GROUP}) | _CHAIN,
    "fenced-accepted": _TRANSACTIONS,
    "time-out-not-fenced": _TRANSACTIONS,
    "outcome-forgotten": _TRANSACTIONS,
    "marker-doubled": _TRANSACTIONS,
    "aborts-lost": _TRANSACTIONS,
    "share-stored-late": _SHARE_GROUP,
    "share-lock-ignored": _SHARE_GROUP,
    "share-any-member": _SHARE_GROUP,
    "share-start-back": _SHARE_GROUP,
    "share-count-forgotten": _SHARE_GROUP,
    "share-in-flight-skipped": _SHARE_GROUP,
    "share-time-out-final": _SHARE_GROUP,
    "first-back": _WRECKS,
    "end-without-epoch": _WRECKS,
    "isr-forgotten": _WRECKS,
    "damaged-end": _WRECKS,
    "cut-uncompared": _WRECKS,
    "compared-by-ends": _WRECKS,
    "kept-dropped": _WRECKS,
    "damaged-eligible": _WRECKS,
    "replaced-unchecked": _ROT,
    "damaged-leads-on": _ROT,
    "segments-not-read": _ROT,
    **dict.fromkeys(TIERED_BUGS, frozenset({swarm.TIERED})),
}
"""Bug → the workloads or faults of which one must be on for the bug to do anything. Without them a
seed runs as it does without the bug, so that the search counts it and does not run it."""


def _can_see(seed: int, name: str, options: Options) -> bool:
    if options.everything or name not in SEEN_BY:
        return True
    return bool(SEEN_BY[name] & (swarm.draw(seed, tuple(KINDS)).on | options.always))


def find(name: str, seeds: Iterable[int], options: Options) -> tuple[int, int, str] | None:
    """(number of seeds tried, the seed, the finding), or None if no seed finds it."""
    for tried, seed in enumerate(seeds, 1):
        if not _can_see(seed, name, options):
            continue
        result = run_seed(seed, options, PLANTED[name])
        if result.failed:
            what = str(result.violation or result.error.strip().splitlines()[-1])
            return tried, seed, what
    return None


def _found(
    names: list[str], seeds: list[int], jobs: int, options: Options
) -> Iterator[tuple[str, tuple[int, int, str] | None]]:
    if jobs == 1:
        yield from ((name, find(name, seeds, options)) for name in names)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(find, name, seeds, options) for name in names]
        yield from ((name, one.result()) for name, one in zip(names, running, strict=True))


def search(names: Iterable[str], seeds: Iterable[int], jobs: int, options: Options) -> int:
    """Look for each bug, `jobs` at a time, and print the results. Returns how many were not
    found."""
    missed = 0
    seeds, names = list(seeds), list(names)
    for name, found in _found(names, seeds, jobs, options):
        if found is None:
            missed += 1
            print(f"{name}: NOT found in {len(seeds)} seeds", flush=True)
        else:
            tried, seed, what = found
            print(f"{name}: found within {tried} seeds, by {seed}: {what}", flush=True)
    return missed
