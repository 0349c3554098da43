"""Random lives of one transactional id: clients of both protocols, time-outs, and coordinators that
die between any two steps."""

from __future__ import annotations

from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from txn.coordinator import A, B, Coordinator

from pk.core.errors import ErrorCode
from pk.core.txn.machine import ProducerKey
from pk.core.txn.transaction import EPOCH_MAX, NEXT, SECOND_PROTOCOL, State

PRODUCERS = st.integers(min_value=0, max_value=3)


class History(RuleBasedStateMachine):
    """Compares the answers that clients got with what the coordinator does."""

    def __init__(self) -> None:
        super().__init__()
        self.c = Coordinator()
        self.given: list[ProducerKey] = []
        """The ids and epochs that producers were given, newest last."""
        self.promised: dict[ProducerKey, bool] = {}
        """Under which producer and epoch the markers of a transaction go out, and whether it
        commits."""
        self.before: tuple[State, ProducerKey] | None = None
        self.seen = 0

    def one(self, back: int) -> ProducerKey | None:
        return self.given[-1 - back] if back < len(self.given) else None

    def got(self, answer: ProducerKey | ErrorCode) -> None:
        if isinstance(answer, ProducerKey) and answer.producer_id >= 0:
            self.given.append(answer)

    @rule(back=st.none() | PRODUCERS)
    def init(self, back: int | None) -> None:
        producer = None if back is None else self.one(back)
        self.got(self.c.init(producer=producer))

    @rule(back=PRODUCERS, first=st.booleans(), version=st.sampled_from([0, 2]))
    def add(self, back: int, first: bool, version: int) -> None:
        producer = self.one(back)
        if producer is None:
            return
        answer = self.c.add(producer, A if first else B, client_version=version)
        now = ProducerKey(self.c.txn().producer_id, self.c.txn().epoch)
        assert (answer == ErrorCode.NONE) <= (producer == now), "a fenced producer added"

    @rule(back=PRODUCERS, commit=st.booleans(), version=st.sampled_from([4, 5]))
    def end(self, back: int, commit: bool, version: int) -> None:
        producer = self.one(back)
        if producer is not None:
            self.got(self.c.end(producer, commit=commit, version=version))

    @rule(first=st.booleans())
    def mark_some(self, first: bool) -> None:
        self.c.mark(A if first else B)

    @rule()
    def mark(self) -> None:
        self.c.mark()

    @rule(seconds=st.integers(min_value=1, max_value=80))
    def wait(self, seconds: int) -> None:
        self.c.after(seconds * 1000)

    @rule()
    def wear_out(self) -> None:
        """The epoch is almost at its end."""
        if self.c.machine.transactions and self.c.state().is_idle:
            epoch = max(self.c.txn().epoch, EPOCH_MAX - 2)
            self.c.set(epoch=epoch)
            self.seen = len(self.c.log)
            self.before = None
            self.given.append(ProducerKey(self.c.txn().producer_id, epoch))

    @rule()
    def fail_over(self) -> None:
        durable = {k: v._replace(last_epoch=-1) for k, v in self.c.machine.transactions.items()}
        self.c.fail_over()
        assert self.c.machine.transactions == durable

    @invariant()
    def the_log_tells_a_legal_life(self) -> None:
        for key, value in self.c.log[self.seen :]:
            record = self.c.machine.decode(key, value)
            assert record is not None and record.transaction is not None
            txn = record.transaction
            producer = ProducerKey(txn.producer_id, txn.epoch)
            assert 0 <= txn.epoch <= EPOCH_MAX
            if self.before is not None:
                state, earlier = self.before
                assert txn.state in NEXT[state]
                if earlier.producer_id == txn.producer_id:
                    assert txn.epoch >= earlier.epoch, "an epoch fell"
                else:
                    assert earlier.epoch >= EPOCH_MAX - 1 and txn.epoch == 0
                if txn.state.is_prepared and txn.client_version >= SECOND_PROTOCOL:
                    assert txn.epoch > earlier.epoch or earlier.epoch == EPOCH_MAX
            self.before = (txn.state, producer)
        self.seen = len(self.c.log)

    @invariant()
    def markers_say_what_the_log_says(self) -> None:
        for marker in self.c.markers:
            txn = self.c.txn()
            if txn.state.is_prepared and marker.producer == (txn.producer_id, txn.epoch):
                assert marker.committed == (txn.state is State.PREPARE_COMMIT)
                assert marker.partitions == txn.partitions
        if self.c.machine.transactions and self.c.state().is_prepared:
            assert self.c.markers, "a prepared transaction is ended"


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
