"""Reads topics, users, ACLs and quotas from Apache Kafka's own metadata log (KRaft), as far as its
format is certain.

Apache declares the schemas of these records private and may change them from release to release.
This module reads the few that name topics, count partitions, set configs, allocate producer ids,
and grant access, and only their version 0 (of partitions: the first two fields, which all versions
share). Everything else is skipped; unreadable records are counted, so that a caller can tell
whether the result is complete.

    frame: unsigned varints frame version (1), API key, version; then the fields, compact, with
           tagged fields behind
     2 TopicRecord         name string, topic id uuid
     3 PartitionRecord     partition int32, topic id uuid, …
     4 ConfigRecord        resource type int8, resource name string, name string, value nullable
                           string
     9 RemoveTopicRecord   topic id uuid
    11 UserScramCredentialRecord  name string, mechanism int8, salt, stored key, server key bytes,
                           iterations int32
    14 ClientQuotaRecord   entity [] of type string and name nullable string, key string,
                           value float64, remove bool
    15 ProducerIdsRecord   broker id int32, broker epoch int64, next producer id int64
    18 AccessControlEntryRecord  id uuid, resource type int8, resource name string,
                           pattern type int8, principal string, host string, operation int8,
                           permission int8
    19 RemoveAccessControlEntryRecord  id uuid
    22 RemoveUserScramCredentialRecord  name string, mechanism int8
    23, 24, 25             begin, end, abort of a transaction of records
"""

from struct import unpack
from typing import Final

from msgspec import Struct, field

from pk.core.auth.acls import AclBinding
from pk.core.auth.scram import ScramCredential
from pk.core.meta.events import TOPIC
from pk.core.quota.entity import Entity, EntityPart, entity_of
from pk.core.values import Uuid

FRAME_VERSION: Final = 1
_TOPIC, _PARTITION, _CONFIG, _REMOVE_TOPIC, _PRODUCER_IDS = 2, 3, 4, 9, 15
_BEGIN, _END, _ABORT = 23, 24, 25
_SCRAM, _QUOTA, _ACL, _REMOVE_ACL, _REMOVE_SCRAM = 11, 14, 18, 19, 22
_VERSIONS: Final = {
    _TOPIC: 0,
    _PARTITION: 2,
    _CONFIG: 0,
    _REMOVE_TOPIC: 0,
    _SCRAM: 0,
    _QUOTA: 0,
    _PRODUCER_IDS: 0,
    _ACL: 0,
    _REMOVE_ACL: 0,
    _REMOVE_SCRAM: 0,
}
"""The newest known version of each type of record."""


class KraftTopic(Struct):
    """A topic in that log."""

    name: str
    topic_id: Uuid
    partitions: set[int] = field(default_factory=set[int])
    configs: dict[str, str] = field(default_factory=dict[str, str])


class KraftMetadata:
    """The state after the records applied so far. Pass each record to `apply`, in order."""

    def __init__(self) -> None:
        self.topics: dict[Uuid, KraftTopic] = {}
        self.acls: dict[Uuid, AclBinding] = {}
        self.users: dict[tuple[str, int], ScramCredential] = {}
        """The credential of each (user, mechanism number)."""
        self.quotas: dict[tuple[Entity, str], float] = {}
        self.producer_id_next = 0
        self.unread = 0
        """The number of records that could not be read."""
        self.other_configs: set[str] = set()
        """Names of configs that are set for resources other than topics: brokers, groups, client
        metrics."""
        self._configs: dict[str, dict[str, str]] = {}
        self._pending: list[bytes] | None = None

    def apply(self, value: bytes) -> None:
        """Apply the value of one record."""
        try:
            key = _Reader(value).frame()[0]
            if key == _BEGIN:
                self._pending = []
            elif key == _ABORT:
                self._pending = None
            elif key == _END:
                pending, self._pending = self._pending or [], None
                for one in pending:
                    self._apply(one)
            elif self._pending is not None:
                self._pending.append(value)
            else:
                self._apply(value)
        except (IndexError, UnicodeDecodeError, ValueError):
            self.unread += 1

    def finish(self) -> None:
        """Set the configs of every topic. Call this after the last record."""
        for topic in self.topics.values():
            topic.configs = dict(self._configs.get(topic.name, {}))

    def _apply(self, value: bytes) -> None:
        reader = _Reader(value)
        key, version = reader.frame()
        if key not in _VERSIONS:
            return
        if version > _VERSIONS[key]:
            raise ValueError(f"record {key} has version {version}")
        match key:
            case 2:
                name, topic_id = reader.text() or "", reader.take(16)
                self.topics[topic_id] = KraftTopic(name, topic_id)
            case 3:
                partition, topic_id = reader.integer(4), reader.take(16)
                if topic_id in self.topics:
                    self.topics[topic_id].partitions.add(partition)
            case 4:
                self._config(
                    reader.integer(1), reader.text() or "", reader.text() or "", reader.text()
                )
            case 9:
                gone = self.topics.pop(reader.take(16), None)
                if gone is not None:
                    self._configs.pop(gone.name, None)
            case 11:
                user, mechanism = reader.text() or "", reader.integer(1)
                salt, stored_key, server_key = reader.data(), reader.data(), reader.data()
                credential = ScramCredential(salt, stored_key, server_key, reader.integer(4))
                self.users[user, mechanism] = credential
            case 14:
                self._quota(reader)
            case 18:
                acl_id = reader.take(16)
                self.acls[acl_id] = AclBinding(
                    reader.integer(1),
                    reader.text() or "",
                    reader.integer(1),
                    reader.text() or "",
                    reader.text() or "",
                    reader.integer(1),
                    reader.integer(1),
                )
            case 19:
                self.acls.pop(reader.take(16), None)
            case 22:
                self.users.pop((reader.text() or "", reader.integer(1)), None)
            case _:
                reader.take(12)
                self.producer_id_next = max(self.producer_id_next, reader.integer(8))

    def _quota(self, reader: "_Reader") -> None:
        text = reader.text
        parts: list[EntityPart] = []
        for _ in range(reader.unsigned() - 1):
            parts.append(EntityPart(text() or "", text()))
            if reader.unsigned():
                raise ValueError("tagged fields")
        key, (value,), gone = text() or "", unpack(">d", reader.take(8)), reader.take(1) != b"\0"
        where = entity_of({part.entity_type: part.entity_name for part in parts}), key
        if gone:
            self.quotas.pop(where, None)
        else:
            self.quotas[where] = value

    def _config(self, resource_type: int, resource: str, key: str, value: str | None) -> None:
        if resource_type != TOPIC:
            self.other_configs.add(key)
        elif value is None:
            self._configs.get(resource, {}).pop(key, None)
        else:
            self._configs.setdefault(resource, {})[key] = value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def frame(self) -> tuple[int, int]:
        """Read the API key and version. Raises ValueError."""
        if self.unsigned() != FRAME_VERSION:
            raise ValueError("a frame of another version")
        return self.unsigned(), self.unsigned()

    def take(self, length: int) -> bytes:
        data = self._data[self._at : self._at + length]
        if len(data) < length:
            raise IndexError("cut off")
        self._at += length
        return data

    def integer(self, length: int) -> int:
        return int.from_bytes(self.take(length), "big", signed=True)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def data(self) -> bytes:
        return self.take(self.unsigned() - 1)

    def text(self) -> str | None:
        length = self.unsigned()
        return self.take(length - 1).decode() if length else None
