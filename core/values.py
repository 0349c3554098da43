"""The vocabulary shared by all layers, and its glossary.

- *offset*: a record's number in its partition. *LEO* (log end offset): the offset of the next
  record.
- *HW* (high watermark): records below it are on every in-sync replica; readers see no records
  above it.
- *LSO* (last stable offset): the first offset of the oldest open transaction, or the HW.
- *ISR*: in-sync replicas. *ELR*: eligible leader replicas (KIP-966).
- *leader epoch*: counts the leaders of a partition; every batch has that of the leader that
  appended it.
- *broker epoch*: counts the registrations of a broker with the controller.
- *producer id, producer epoch, sequence*: they make a producer idempotent (KIP-98).
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

Uuid = bytes
"""A 16-byte id as in the protocol. `uuid_text` formats it as Kafka does."""

ZERO_UUID: Final[Uuid] = bytes(16)
"""The id that means "no id" in the protocol."""

METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
REMOTE_METADATA_TOPIC: Final = "__remote_log_metadata"
SASL_MECHANISMS: Final = (
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "GSSAPI",
)
"""The SASL mechanisms that pk's brokers and clients support."""

INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
"""The special timestamps of ListOffsets in every version, for the end of a partition and for its
start."""
EARLIEST_LOCAL_TIMESTAMP: Final = -4
"""The special timestamp for the first offset on the leader's disk, from version 8 on."""

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER: Final = -1
NO_EPOCH: Final = -1
NO_NODE: Final = -1

new_list: Callable[[], list[Any]] = list
new_dict: Callable[[], dict[Any, Any]] = dict
"""Return an empty collection, for fields of dataclasses that are often created. `list[int]()` takes
ten times as long as `list()`, whose element type a type checker would not know."""

MAX_TOPIC_NAME_CHARS: Final = 249
STRING_BYTES_MAX: Final = 0x7FFF
"""The maximum length of a string in the protocol, even if a varint encodes it: Kafka's classes
neither write nor read longer ones."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def shown(self) -> str:
        """The partition as pk writes it for people, such as `orders/0`."""
        return f"{self.topic}/{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition of one topic, by the topic's id. A topic that is created again with the same
    name has a different id."""

    topic_id: Uuid
    partition: int


def uuid_text(value: Uuid) -> str:
    """Return the 22 characters with which Kafka displays an id (base64url without padding)."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def new_id(random_bytes: Callable[[int], bytes]) -> Uuid:
    """Return a new unique id of 128 random bits. As in Kafka, its text never begins with '-', which
    tools would take for an option."""
    while uuid_text(value := random_bytes(16)).startswith("-"):
        pass
    return value


def uuid_from_text(text: str) -> Uuid:
    """Parse the text of an id. Raises ValueError if it is invalid."""
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, UnicodeEncodeError) as e:
        raise ValueError(f"not an id: {text!r}") from e
    if len(value) != 16:
        raise ValueError(f"not an id of 16 bytes: {text!r}")
    return value


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`, by which Kafka maps groups and transactional ids to
    coordinators."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(data), 2):
        value = (31 * value + (data[i] << 8) + data[i + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition of an internal topic with the state of the group or transactional id
    `key`.

    Kafka's `Utils.abs` returns the absolute value, and 0 for the only Java integer without one.
    """
    value = java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


_T = TypeVar("_T", bound=tuple[Any, ...])


class _NewTuple(Protocol):
    def __call__(self, cls: type[_T], values: Iterable[Any], /) -> _T: ...


new_tuple: Final[_NewTuple] = cast(_NewTuple, tuple.__new__)  # pyright: ignore[reportUnknownMemberType]  # of no one type of tuple
"""Create a NamedTuple from all of its `values` without calling its own constructor, which would
take 0.1 µs more for each record that is read."""
