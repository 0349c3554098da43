"""Messages behind their version: internal topics and the protocol of classic groups."""

import pytest
from wire.values import Maker, all_messages

from pk.core.errors import ProtocolError
from pk.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from pk.core.wire.messages.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pk.core.wire.versioned import (
    by_record_type,
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
    version_of,
)

KEYS = by_record_type((OffsetCommitKey, GroupMetadataKey))


def test_bytes_of_an_offset_as_kafka_writes_it() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_key(key) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    assert encode_versioned(value, 3) == bytes.fromhex(
        "0003 0000000000000005 00000002 0001 6d 0000000000000009"
    )
    assert decode_versioned(OffsetCommitValue, encode_versioned(value, 3)) == value


def test_key_tells_what_the_record_is() -> None:
    for key in (OffsetCommitKey(group="g", topic="t"), GroupMetadataKey(group="g")):
        assert decode_key(KEYS, encode_key(key)) == key
        assert version_of(encode_key(key)) == key.RECORD_TYPE
    assert decode_key(KEYS, bytes.fromhex("0309 0001 67")) is None


def test_every_record_type_has_a_key_and_a_value() -> None:
    """Type 0 of the offsets topic is a commit of Kafka before 0.9, which is no longer written.
    Records of remote segments have no keys."""
    types: dict[str, dict[int, list[str]]] = {}
    for cls in all_messages():
        if cls.RECORD_TYPE >= 0 and "remote_log" not in cls.__module__:
            topic = cls.__module__.rpartition(".")[2].replace("_share", "").replace("_streams", "")
            types.setdefault(topic, {}).setdefault(cls.RECORD_TYPE, []).append(cls.__name__)
    assert sorted(types["offsets_topic"]) == [*range(1, 9), *range(10, 18), *range(19, 24)]
    for records in types.values():
        for names in records.values():
            key, value = sorted(names)
            assert (key[-3:], value[-5:]) == ("Key", "Value") and key[:-3] == value[:-5]


def test_malformed() -> None:
    with pytest.raises(ProtocolError, match="too short"):
        version_of(b"\0")
    with pytest.raises(ProtocolError, match="no version 9"):
        decode_versioned(GroupMetadataValue, b"\0\x09" + bytes(40))
    with pytest.raises(ProtocolError):
        decode_key(KEYS, bytes.fromhex("0002 0009 67"))
    with pytest.raises(ProtocolError, match="after its end"):
        decode_key(KEYS, bytes.fromhex("0002 0001 67 00"))


def test_newer_subscription_is_read_as_the_newest_known() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["t"], owned_partitions=[TopicPartition(topic="t", partitions=[1])], rack_id="r"
    )
    data = encode_versioned(subscription, 3)
    newer = b"\0\x07" + data[2:] + b"more"
    assert decode_versioned(ConsumerProtocolSubscription, newer, newer=True) == subscription
    with pytest.raises(ProtocolError):
        decode_versioned(ConsumerProtocolSubscription, newer)
    with pytest.raises(ProtocolError, match="no version -1"):
        decode_versioned(ConsumerProtocolSubscription, b"\xff\xff", newer=True)


def test_group_metadata_in_every_version() -> None:
    for version in range(5):
        value = Maker(version).message(GroupMetadataValue, version)
        assert decode_versioned(GroupMetadataValue, encode_versioned(value, version)) == value
