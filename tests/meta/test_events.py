"""Events are encoded and decoded: older ones get defaults, and bytes that are damaged or too new
raise an error."""

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from meta.strategies import any_event

from pk.core import cbor
from pk.core.meta import events
from pk.core.meta.events import (
    EVENTS,
    BrokerRegistered,
    ClusterCreated,
    ConfigChanged,
    Event,
    PartitionChanged,
    PartitionCreated,
    RestoredLog,
    TopicCreated,
    decode,
    encode,
    pack,
    unpack,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.snapshot import dump, load


@given(any_event())
def test_an_event_comes_back_as_it_went(event: Event) -> None:
    assert decode(encode(event)) == event


def test_every_event_is_known_by_its_name() -> None:
    assert all(EVENTS[name].__name__ == name for name in EVENTS)
    declared = {c for c in vars(events).values() if isinstance(c, type) and hasattr(c, "VERSION")}
    assert declared == set(EVENTS.values())


@for_each("name", EVENTS)
def test_an_event_of_a_newer_version_is_refused(name: str) -> None:
    with pytest.raises(cbor.CborError, match="newer"):
        unpack([name, EVENTS[name].VERSION + 1, []])


def test_an_older_event_has_fewer_fields_and_gets_defaults() -> None:
    packed = pack(BrokerRegistered(1, 2, bytes(16), ()))
    packed[2] = packed[2][:5]
    assert unpack(packed) == BrokerRegistered(1, 2, bytes(16), (), rack=None, fenced=True)


@pytest.mark.parametrize(
    "event",
    [
        PartitionCreated(bytes(16), 0, (1, 2), (1,), 1, elr=(2,)),
        PartitionChanged(bytes(16), 0, leader=2, isr=(2,)),
    ],
)
def test_partitions_of_the_first_version_are_not_recovering(event: Event) -> None:
    name, version, fields = pack(event)
    if isinstance(event, PartitionCreated):
        assert version == 4
        fields.pop()
        assert unpack([name, 3, fields]) == event
    else:
        assert version == 3
    assert unpack([name, 2, fields[:-1]]) == unpack([name, 1, fields[:-2]]) == event


def test_a_restored_partition_comes_back_as_it_went() -> None:
    restored = RestoredLog(99, ("lost", "older"), (bytes(16),), 1000, 7)
    event = PartitionCreated(bytes(16), 0, (1, 2), (1,), 1, 4, restored=restored)
    assert decode(encode(event)) == event
    created = TopicCreated("t", bytes(16))
    image = MetadataImage().apply([ClusterCreated("c"), created, event])
    again = load(dump(image))
    assert again.topics["t"].partitions[0].restored == restored
    changed = again.apply([PartitionChanged(bytes(16), 0, isr=(1, 2))])
    assert changed.topics["t"].partitions[0].restored == restored


@for_each(
    "packed",
    [
        None,
        [],
        ["TopicCreated", 1],
        ["Nothing", 1, []],
        ["TopicCreated", "1", ["a", b""]],
        ["TopicCreated", 1, {}],
        ["TopicCreated", 1, ["too few"]],
        ["TopicCreated", 1, ["one", b"two", "three"]],
        ["BrokerRegistered", 1, [1, 2, b"", [["short"]]]],
        [["TopicCreated"], 1, []],
    ],
)
def test_what_is_no_event_is_refused(packed: object) -> None:
    with pytest.raises(cbor.CborError):
        unpack(packed)


@given(st.binary(max_size=60))
def test_bytes_are_an_event_or_refused(data: bytes) -> None:
    with pytest.raises(cbor.CborError):
        decode(data)


@given(any_event(), st.data())
def test_a_cut_event_is_refused(event: Event, data: st.DataObject) -> None:
    whole = encode(event)
    with pytest.raises(cbor.CborError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_the_bytes_of_an_event_stay_what_they_are() -> None:
    """These bytes are already on disks: a change here changes the format."""
    assert encode(TopicCreated("t", bytes(15) + b"\x02")).hex() == (
        "8371706b2e6d657461646174612e6576656e740183"
        "6c546f7069634372656174656401826174500000000000000000" + "0000000000000002"
    )
    assert encode(ConfigChanged(2, "t", "k", None)).hex() == (
        "8371706b2e6d657461646174612e6576656e7401836d436f6e6669674368616e6765640184026174616bf6"
    )
