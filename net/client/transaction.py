"""The transactions of a producer (KIP-98, KIP-360, KIP-447, KIP-890): its producer id and epoch,
the partitions and groups in the open transaction, and how the transaction ends.

There are two protocols. The cluster's finalized `transaction.version`, read when a transaction
begins, selects one. Up to version 1, the producer adds each partition and group at the coordinator
before it writes there. From version 2 on, a Produce request adds its partitions by itself, and each
end of a transaction returns a new epoch, so that late records of one transaction cannot become part
of the next.

There are three kinds of errors:

- *retriable*: retried until `max.block.ms` has passed; the outcome of a commit is then unknown;
- *abortable*: the transaction can only be aborted; `send`, `send_offsets` and the commit raise the
  first such error, and the producer continues with the next transaction;
- *fatal*: another producer took over the transactional id, or the coordinator and this producer
  disagree. The producer is unusable: every call raises the error.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from pk.core.errors import ErrorCode, KafkaError, ProtocolError, without_frames
from pk.core.values import TopicPartition
from pk.net.client.admin_operations.base import by_topic
from pk.net.client.cluster import Cluster
from pk.net.client.config import ProducerConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import (
    ClientError,
    NoTransaction,
    TransactionOutcomeUnknown,
    is_retriable,
)
from pk.net.client.results import CoordinatorType, GroupMetadata, OffsetAndMetadata

_PURPOSE: Final = "transaction"
_FEATURE: Final = "transaction.version"
_END_TXN: Final = 26
_ADD_PARTITIONS_BY_CLIENT_MAX: Final = 3
"""The last version of AddPartitionsToTxn for clients; later versions are for brokers."""

_FATAL: Final = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
"""The coordinator's errors that are fatal for the producer."""

_FATAL_OF_A_BATCH: Final = _FATAL - {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}
"""The errors of a partition's leader that end the producer. A refused epoch is not fatal yet: the
coordinator may have raised the epoch when it aborted the transaction after
`transaction.timeout.ms`, and only the abort shows whether it did."""


class Aborted(ClientError):
    """The error of a record whose transaction was aborted before the record was acknowledged."""

    def __init__(self) -> None:
        super().__init__("the transaction was aborted before this record was acknowledged")


class Writer(Protocol):
    """The part of the producer's sender that transactions use: the id and epoch of the producer,
    and ways to stop it."""

    producer_id: int
    producer_epoch: int
    fatal: Exception | None

    def set_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """Use this producer id and epoch from the next batch on."""
        ...

    def abort(self, error: Exception) -> None:
        """Fail every batch."""
        ...

    def fail(self, error: Exception) -> None:
        """End the producer with an error."""
        ...


class Transactions:
    """The transactions of a producer. `Producer.transaction` controls them, and the sender consults
    them before sending."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, sender: Writer) -> None:
        assert config.transactional_id is not None
        self.transactional_id = config.transactional_id
        self.open = False
        """Whether a transaction is open, so that records may be sent."""

        self.error: Exception | None = None
        """The error for which the open transaction can only be aborted; None if it can be
        committed."""

        self.commit_sent = False
        """Whether the coordinator was asked to commit the open transaction and has not finally
        refused: the outcome is then unknown, and aborting would be wrong."""

        self.version = 0
        """The `transaction.version` that the open transaction follows."""

        self._cluster = cluster
        self._config = config
        self._sender = sender
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._epoch_used_up = False
        """Whether a batch was given up. Its sequence number is a gap, so the next transaction needs
        a new epoch."""

        self._may_be_open = False
        """Whether the coordinator may have an open transaction of ours, which must not become part
        of the next one."""

    @property
    def adds_by_itself(self) -> bool:
        """Whether a Produce request adds its partitions to the transaction (KIP-890)."""
        return self.version >= 2

    def check(self) -> None:
        """Raise NoTransaction outside a transaction, and the error of a transaction that can only
        be aborted."""
        if not self.open:
            raise NoTransaction(
                "this producer has a transactional.id: send records within `async with "
                "producer.transaction():`"
            )
        if self.error is not None:
            raise without_frames(self.error)

    async def begin(self) -> None:
        """Open a transaction; the first one fences any earlier producer with the transactional id.

        Raises KafkaError, ClientError, and NoTransaction if one is already open.
        """
        if self._sender.fatal is not None:
            raise without_frames(self._sender.fatal)
        if self.open:
            raise NoTransaction(
                "a transaction is already open: a producer can have only one at a time"
            )
        if self._may_be_open:
            # Records still in flight belong to the old epoch, and their outcome does not concern
            # this transaction.
            self._sender.abort(Aborted())
            if self.commit_sent:
                await self._finish_commit()
        gap = self._epoch_used_up and not self.adds_by_itself
        if self._sender.producer_id < 0 or self._may_be_open or gap:
            await self._init_producer_id()
        self.version = await self._version()
        self.error = None
        self._may_be_open = self._epoch_used_up = False
        self._partitions.clear()
        self._groups.clear()
        self.commit_sent = False
        self.open = True

    def fail(self, error: Exception) -> None:
        """Make the transaction one that can only be aborted, because a batch of it was given up."""
        if isinstance(error, KafkaError) and error.code in _FATAL_OF_A_BATCH:
            self._sender.fail(error)
        self._epoch_used_up = True
        if self.error is None:
            self.error = error

    def is_admitted(self, partition: TopicPartition) -> bool:
        """Return whether records for `partition` may be sent without asking the coordinator
        first."""
        return partition in self._partitions

    async def admit(self, partitions: Iterable[TopicPartition]) -> bool:
        """Add partitions to the transaction before records are sent to them. Returns False if
        nothing may be sent."""
        if self.error is not None or not self.open:
            return False
        new = [p for p in partitions if p not in self._partitions]
        if new and not self.adds_by_itself:
            try:
                await self._ask("AddPartitionsToTxn", lambda c: self._add_partitions(c, new))
            except (KafkaError, ClientError, ProtocolError):
                return False
        self._partitions.update(new)
        return True

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction (TxnOffsetCommit). Raises KafkaError,
        ClientError."""
        self.check()
        if not offsets:
            return
        group_id = group.group_id
        if group_id not in self._groups:
            if not self.adds_by_itself:
                await self._ask("AddOffsetsToTxn", lambda c: self._add_group(c, group_id))
            self._groups.add(group_id)

        async def commit() -> None:
            node_id = await self._cluster.coordinator(group_id)
            connection = await self._cluster.connection(node_id, _PURPOSE)
            await self._commit_offsets(connection, offsets, group)

        await self._with_retries(
            "TxnOffsetCommit", commit, lambda: self._cluster.forget_coordinator(group_id)
        )

    async def end(self, *, commit: bool) -> None:
        """End the transaction once all its batches are settled.

        Raises KafkaError if a commit was refused or could not be requested; the transaction is then
        still open and must be aborted. Raises TransactionOutcomeUnknown if the coordinator may have
        committed without confirming it.
        """
        if self._partitions or self._groups:
            self._may_be_open = True
            try:
                await self._ask("EndTxn", lambda c: self._end(c, commit))
            except (KafkaError, ClientError, ProtocolError) as e:
                # A transient error does not reveal the outcome of an earlier attempt, nor even of
                # this one: a coordinator that moves may have written the commit before.
                refused = isinstance(e, KafkaError) and not is_retriable(e)
                if refused or not (self.commit_sent or isinstance(e, ClientError)):
                    self.commit_sent = False
                    raise
                self._sender.fail(
                    TransactionOutcomeUnknown(self.transactional_id, commit=commit, cause=e)
                )
                raise self._sender.fatal or e from e
            self._may_be_open = self.commit_sent = False
        self.open = False
        self.error = None

    def leave(self) -> None:
        """Clean up at the end of the transaction's block, even if the transaction could not be
        ended."""
        if self.open:
            self._may_be_open = bool(self._partitions or self._groups)
        self.open = False

    # requests

    async def _finish_commit(self) -> None:
        """Repeat a commit whose answer was not received, until it has taken place. If the
        coordinator had not received it yet, InitProducerId would abort the transaction, and the
        raised epoch would fence the producer."""
        try:
            await self._ask("EndTxn", lambda c: self._end(c, commit=True))
        except KafkaError as e:
            self.commit_sent = is_retriable(e)
            raise
        self._may_be_open = self.commit_sent = False

    async def _init_producer_id(self) -> None:
        """Send InitProducerId to become the producer of the transactional id, with an epoch above
        all earlier ones."""
        from pk.core.wire.messages.init_producer_id import InitProducerIdRequest

        sender = self._sender

        async def ask(connection: Connection) -> None:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._config.transaction_timeout_ms,
                producer_id=sender.producer_id,
                producer_epoch=sender.producer_epoch,
            )
            low = 3 if sender.producer_id >= 0 else 0
            response = await connection.request(request, low=low, high=5)
            _check(response.error_code, "InitProducerId")
            self._set_producer_id(response.producer_id, response.producer_epoch)

        await self._ask("InitProducerId", ask)

    async def _version(self) -> int:
        """Return the finalized `transaction.version` of the coordinator's cluster, limited to the
        versions supported here."""
        found: list[int] = []

        async def read_level(connection: Connection) -> None:
            response = connection.api_versions_response
            features = response.finalized_features if response is not None else ()
            level = next((f.max_version_level for f in features if f.name == _FEATURE), 0)
            found.append(level if connection.serves(_END_TXN, 5) else min(level, 1))

        await self._ask("ApiVersions", read_level)
        return found[-1]

    async def _add_partitions(
        self, connection: Connection, partitions: Iterable[TopicPartition]
    ) -> None:
        from pk.core.wire.messages.add_partitions_to_txn import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
        )

        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._sender.producer_id,
            v3_and_below_producer_epoch=self._sender.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        response = await connection.request(request, high=_ADD_PARTITIONS_BY_CLIENT_MAX)
        results = [
            (TopicPartition(topic.name, p.partition_index), p.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for p in topic.results_by_partition
        ]
        # An error that is final for a partition matters more than that of a topic that not every
        # broker knows yet.
        results.sort(key=lambda result: KafkaError(result[1]).retriable if result[1] else True)
        for partition, code in results:
            if code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                _check(code, f"adding {partition.shown} to the transaction")

    async def _add_group(self, connection: Connection, group_id: str) -> None:
        from pk.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._sender.producer_id,
            producer_epoch=self._sender.producer_epoch,
            group_id=group_id,
        )
        response = await connection.request(request)
        _check(response.error_code, f"adding the offsets of group {group_id!r} to the transaction")

    async def _commit_offsets(
        self,
        connection: Connection,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
    ) -> None:
        from pk.core.wire.messages.txn_offset_commit import (
            TxnOffsetCommitRequest,
            TxnOffsetCommitRequestPartition,
            TxnOffsetCommitRequestTopic,
        )

        group_id = group.group_id
        is_member = group.generation >= 0
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self._sender.producer_id,
            producer_epoch=self._sender.producer_epoch,
            generation_id=group.generation,
            member_id=group.member_id if is_member else "",
            group_instance_id=group.instance_id if is_member else None,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=(o := offsets[TopicPartition(topic, index)]).offset,
                            committed_leader_epoch=o.leader_epoch,
                            committed_metadata=o.metadata,
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )
        # Members are fenced by their generation from version 3 on (KIP-447).
        low = 5 if self.adds_by_itself else 3 if is_member else 0
        response = await connection.request(request, low=low, high=5 if self.adds_by_itself else 4)
        for topic in response.topics:
            for p in topic.partitions:
                partition = TopicPartition(topic.name, p.partition_index)
                _check(p.error_code, f"committing {partition.shown} for group {group_id!r}")

    async def _end(self, connection: Connection, commit: bool) -> None:
        from pk.core.wire.messages.end_txn import EndTxnRequest

        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._sender.producer_id,
            producer_epoch=self._sender.producer_epoch,
            committed=commit,
        )
        low, high = (5, 5) if self.adds_by_itself else (0, 4)
        version = connection.version_of(_END_TXN, low=low, high=high)
        self.commit_sent = commit
        response = await connection.request(request, version=version)
        _check(response.error_code, "committing" if commit else "aborting")
        if self.adds_by_itself and response.producer_id >= 0:
            self._set_producer_id(response.producer_id, response.producer_epoch)

    def _set_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """Use this producer id and epoch from now on. Every partition restarts at sequence 0."""
        self._sender.set_producer_id(producer_id, producer_epoch)

    async def _ask(self, what: str, ask: Callable[[Connection], Awaitable[Any]]) -> None:
        """Send a request to the transaction's coordinator until it answers. Looks the coordinator
        up again if it has moved."""
        key, kind = self.transactional_id, CoordinatorType.TRANSACTION

        async def attempt() -> None:
            node_id = await self._cluster.coordinator(key, kind)
            await ask(await self._cluster.connection(node_id, _PURPOSE))

        await self._with_retries(what, attempt, lambda: self._cluster.forget_coordinator(key, kind))

    async def _with_retries(self, what: str, attempt: Any, forget: Any) -> None:
        """Repeat `attempt` until it succeeds or `max.block.ms` has passed. A final error determines
        the transaction's state."""
        try:
            await self._cluster.retry(
                attempt,
                timeout_ms=self._config.max_block_ms,
                what=what,
                on_failure=lambda _: forget(),
            )
        except KafkaError as e:
            if e.code in _FATAL:
                self._sender.fail(e)
            elif self.open and self.error is None:
                self.error = e
            raise
        except ClientError as e:
            if self.open and self.error is None:
                self.error = e
            raise


def _check(code: int, what: str) -> None:
    """Raise KafkaError for an error code."""
    if code == ErrorCode.PRODUCER_FENCED or code == ErrorCode.INVALID_PRODUCER_EPOCH:
        raise KafkaError(
            code,
            f"{what}: a newer producer uses this transactional.id, or the transaction timed out",
        )
    if code:
        raise KafkaError(code, what)
