"""The records of `__transaction_state`, as Kafka 4.3.1 writes them: a key and a value that each
begin with their version.

A record holds the whole durable state of one transactional id. Value version 1 has tagged fields
(KIP-890) and is written once `transaction.version` 1 is finalized, version 0 before that. A value
without a body is a tombstone: the id has expired.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from pk.core.errors import ProtocolError
from pk.core.txn.transaction import State, Transaction
from pk.core.values import TopicPartition
from pk.core.wire.codec import decode, encode
from pk.core.wire.messages.transaction_topic import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

TRANSACTION_TYPE: Final = 0
VALUE_VERSION_MAX: Final = 1

_VERSION: Final = struct.Struct(">h")


class Record(NamedTuple):
    """One record of the topic."""

    transactional_id: str
    transaction: Transaction | None
    """The transactional id's state, or None for a tombstone."""


def encode_record(record: Record, value_version: int) -> tuple[bytes, bytes | None]:
    """Encode a record as the (key, value) of the log."""
    txn = record.transaction
    key = TransactionLogKey(transactional_id=record.transactional_id)
    key_bytes = _VERSION.pack(TRANSACTION_TYPE) + encode(key, 0)
    if txn is None:
        return key_bytes, None
    value = TransactionLogValue(
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.state,
        transaction_partitions=None if txn.state is State.EMPTY else _by_topic(txn.partitions),
        transaction_last_update_timestamp_ms=txn.updated_ms,
        transaction_start_timestamp_ms=txn.started_ms,
    )
    if value_version >= 1:
        value.previous_producer_id = txn.previous_producer_id
        value.next_producer_id = txn.next_producer_id
        value.client_transaction_version = txn.client_version
    return key_bytes, _VERSION.pack(value_version) + encode(value, value_version)


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record of the log. Returns None if its type is unknown. Raises ProtocolError for
    malformed bytes."""
    if len(key) < _VERSION.size:
        raise ProtocolError("a key of the transactions topic without a version")
    if _VERSION.unpack_from(key)[0] != TRANSACTION_TYPE:
        return None
    decoded_key, _ = decode(TransactionLogKey, key, 0, _VERSION.size)
    transactional_id = decoded_key.transactional_id
    if value is None:
        return Record(transactional_id, None)
    if len(value) < _VERSION.size:
        raise ProtocolError("a value of the transactions topic without a version")
    version = _VERSION.unpack_from(value)[0]
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise ProtocolError(f"TransactionLogValue: version {version} is not known")
    decoded, _ = decode(TransactionLogValue, value, version, _VERSION.size)
    try:
        state = State(decoded.transaction_status)
    except ValueError:
        raise ProtocolError(
            f"a transaction in state {decoded.transaction_status}, which is not known"
        ) from None
    topics = decoded.transaction_partitions or ()
    return Record(
        transactional_id,
        Transaction(
            transactional_id,
            decoded.producer_id,
            decoded.producer_epoch,
            decoded.transaction_timeout_ms,
            state,
            frozenset(TopicPartition(t.topic, p) for t in topics for p in t.partition_ids),
            decoded.transaction_start_timestamp_ms,
            decoded.transaction_last_update_timestamp_ms,
            decoded.client_transaction_version,
            decoded.previous_producer_id,
            decoded.next_producer_id,
        ),
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in topics.items()]
