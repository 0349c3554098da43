"""The fast path of Produce answers and stores the same bytes as the general path, and accepts the
requests that it should."""

from __future__ import annotations

import errno
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from api.produce_pairs import A_SECOND, ACLS, NOW_MS, Records, Side, held, make_topics, two_sides
from effort import examples, versions
from hypothesis import given, settings
from hypothesis import strategies as st
from nodes import caller_of, make_topic, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import write_crc
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.header import frame_request
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.metadata import MetadataRequest

Frames = Callable[[Side, int], bytes]
"""(node, version) → the requests of a case."""

VERSIONS = versions(range(3, 14), differing=(3, 5, 8, 9, 10, 13))
WHOLE = (3, 9, 13)
"""The versions that get every case: the first one, the first with compact lengths and tagged
fields, and the first whose topics have an id in place of the name."""

COUNT_AT, SEQUENCE_AT, BASE_TIMESTAMP_AT, DELTA_AT = 57, 53, 27, 23


def batch(*values: bytes, key: bytes | None = b"k", **options: Any) -> bytes:
    rows = [(NOW_MS, key, value, ()) for value in values or (b"v" * 20,)]
    return bytes(build_batch(rows, **options))


def idempotent(sequence: int, epoch: int = 0, producer_id: int = 900, count: int = 1) -> bytes:
    values = [b"%d" % (sequence + n) for n in range(count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def harmed(at: int, value: bytes, *, crc: bool = True, records: bytes | None = None) -> bytes:
    """A batch with other bytes at `at`."""
    data = bytearray(batch() if records is None else records)
    data[at : at + len(value)] = value
    if crc:
        write_crc(data)
    return bytes(data)


def one(records: Records, topic: str = "t", partition: int = 0, **options: Any) -> Frames:
    """Good requests whose batches are framed as most of the cases' are, so that such a framing is
    known; this one; and a good one behind it."""

    def frames(side: Side, version: int) -> bytes:
        acks = {name: value for name, value in options.items() if name == "acks"}
        good = [("t", [(0, batch(b"g" * 20))])]
        before = [side.frame(version, good, n, **acks) for n in range(3)]
        return (
            b"".join(before)
            + side.frame(version, [(topic, [(partition, records)])], 3, **options)
            + side.frame(version, good, 4, **acks)
        )

    return frames


def several(*topics: tuple[str, list[tuple[int, Records]]], **options: Any) -> Frames:
    """One request that names several partitions, twice."""

    def frames(side: Side, version: int) -> bytes:
        twice = [side.frame(version, topics, n, **options) for n in (1, 2)]
        return b"".join(twice)

    return frames


def each(*records: Records, topic: str = "t", **options: Any) -> Frames:
    """A request for each of them."""

    def frames(side: Side, version: int) -> bytes:
        return b"".join(
            side.frame(version, [(topic, [(0, one_batch)])], n, **options)
            for n, one_batch in enumerate(records)
        )

    return frames


def altered(alter: Callable[[bytes], bytes]) -> Frames:
    """A request whose bytes are changed, between two that are not."""

    def frames(side: Side, version: int) -> bytes:
        good = side.frame(version, [("t", [(0, batch())])], 5)
        changed = alter(good[4:])
        return good + struct.pack(">i", len(changed)) + changed + good

    return frames


def with_tags(side: Side, version: int) -> bytes:
    """A request with a tagged field in its header, which only flexible versions have."""
    good = side.frame(version, [("t", [(0, batch())])], 5)
    if version < 9:
        return good
    at = 4 + 2 + 2 + 4 + 2 + len("test")
    assert good[at] == 0
    changed = good[4:at] + b"\1\7\1x" + good[at + 1 :]
    return good + struct.pack(">i", len(changed)) + changed + good


MANY = [b"v" * 20] * 5000
"""Values of more records than are looked at one by one on the loop."""

CROWD: tuple[str, list[tuple[int, Records]]] = ("t", [(n % 4, batch()) for n in range(110)])

ACCEPTED: dict[str, Frames] = {
    "one record": one(batch()),
    "several records": one(batch(b"a", b"b", b"c")),
    "acks=1": one(batch(), acks=1),
    "acks=0": one(batch(), acks=0),
    "gzip": one(batch(b"v" * 500, codec=Codec.GZIP)),
    "lz4": one(batch(b"v" * 500, codec=Codec.LZ4)),
    "snappy": one(batch(b"v" * 500, codec=Codec.SNAPPY)),
    "several partitions": several(("t", [(2, batch()), (0, batch(b"a", b"b")), (1, batch())])),
    "two topics": several(("t", [(1, batch()), (3, batch())]), ("other", [(0, batch())])),
    "a topic twice": several(("t", [(1, batch())]), ("t", [(2, batch())])),
    "a partition twice": several(("t", [(1, batch(b"a")), (1, batch(b"b", b"c"))])),
    "no client id": one(batch(), client_id=None),
    "an idempotent producer": each(*[idempotent(n, producer_id=901) for n in range(5)]),
    "a duplicate": each(*[idempotent(n, producer_id=902) for n in (0, 1, 1, 2, 0)]),
    "a gap": each(*[idempotent(n, producer_id=903) for n in (0, 1, 3, 2, 4)]),
    "a new epoch": each(idempotent(0), idempotent(1), idempotent(0, 1), idempotent(2)),
    "a new epoch not from 0": each(idempotent(0, 2), idempotent(4, 3), idempotent(1, 2)),
    "two producers": each(
        idempotent(0, producer_id=905), idempotent(0, producer_id=906),
        idempotent(1, producer_id=905), idempotent(2, producer_id=906),
    ),
    "acks=0 out of sequence": each(idempotent(0, 0, 907), idempotent(9, 0, 907), acks=0),
    "a wrong CRC": one(harmed(70, b"?", crc=False)),
    "a wrong CRC with acks=0": one(harmed(70, b"?", crc=False), acks=0),
    "keys for a compacted topic": one(batch(), "compacted"),
    "log append time": one(batch(), "stamped"),
    "the codec that the topic has": one(batch(codec=Codec.GZIP), "zipped"),
    "synced": one(batch(), "synced"),
    "synced, acks=1": one(batch(), "synced", acks=1),
    "segments roll": each(*[batch(b"v" * 150)] * 12, topic="rolled"),
    "many": each(*[batch(b"%d" % n) for n in range(200)]),
    "many records alike": one(batch(*[b"v" * 100] * 9000)),
    "a few of another shape among them": one(batch(*MANY, *[b"v" * n for n in range(60)], *MANY)),
    "many alike in several partitions": several(("t", [(n, batch(*MANY)) for n in range(4)])),
}  # fmt: skip

REFUSED: dict[str, Frames] = {
    "a timestamp in the future": one(harmed(BASE_TIMESTAMP_AT, b"\x01" * 16)),
    "an unknown topic": one(batch(), "missing"),
    "an unknown partition": one(batch(), "t", 9),
    "a negative partition": one(batch(), "t", -1),
    "no records": one(None),
    "empty records": one(b""),
    "half a batch": one(batch()[:-3]),
    "two batches": one(batch() + batch()),
    "a few bytes": one(b"?" * 20),
    "no batch": one(b"?" * 90),
    "a message of an old format": one(harmed(16, b"\1", crc=False)),
    "a count that is wrong": one(harmed(COUNT_AT, b"\0\0\0\2")),
    "no count": one(harmed(COUNT_AT, b"\0\0\0\0")),
    "a last offset that is wrong": one(harmed(DELTA_AT, b"\0\0\0\2")),
    "a base offset": one(harmed(0, b"\0" * 7 + b"\1", crc=False)),
    "a record cut off": one(harmed(61, b"\x7e")),
    "a record that lies": one(harmed(67, b"\x7e")),
    "a sequence missing": one(harmed(43, bytes(8))),
    "log append time claimed": one(harmed(21, b"\0\x08")),
    "a control batch": one(harmed(21, b"\0\x20")),
    "an unknown codec": one(harmed(21, b"\0\x05")),
    "bytes that are not gzip": one(harmed(21, b"\0\x01")),
    "zstd": one(batch(b"v" * 500, codec=Codec.ZSTD)),
    "a transaction": one(
        batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    ),
    "a transactional id": one(batch(), transactional_id="x"),
    "an internal topic": one(batch(), OFFSETS_TOPIC),
    "an internal topic, acks=0": one(batch(), OFFSETS_TOPIC, acks=0),
    "an admin's records": one(batch(), OFFSETS_TOPIC, client_id="__admin_client"),
    "no key for a compacted topic": one(batch(key=None), "compacted"),
    "too large": one(batch(b"v" * 300), "small"),
    "another codec": one(batch(b"v" * 300), "zipped"),
    "acks=2": one(batch(), acks=2),
    "acks=-2": one(batch(), acks=-2),
    "an unknown topic, acks=0": one(batch(), "missing", acks=0),
    "some good, some bad": several(("t", [(0, batch()), (9, batch())]), ("other", [(0, b"?")])),
    "some good, some bad, acks=0": several(("t", [(0, batch()), (9, batch())]), acks=0),
    "inflates far": one(batch(b"v" * (8 << 20), codec=Codec.GZIP)),
    "many records, none like the next": one(batch(*[b"v" * (n % 50) for n in range(5000)])),
    "one of many that lies": one(harmed(61 + 15_000, b"\x7e" * 9, records=batch(*MANY))),
    "many without a key for a compacted topic": one(batch(*MANY, key=None), "compacted"),
    "many in another codec than the topic has": one(batch(*MANY), "zipped"),
    "many, compressed": one(batch(*MANY, codec=Codec.GZIP)),
    "more partitions than the loop has time for": several(*[CROWD] * 10),
    "no topics": several(),
    "no partitions": several(("t", []), ("other", [(0, batch())])),
    "a long name": one(batch(), "n" * 249),
    "many partitions": several(("t", [(n % 4, batch()) for n in range(200)])),
    # The bytes around the name are part of the pattern, since the two bytes alone may occur in the
    # random topic id.
    "a name that is no UTF-8": altered(
        lambda frame: frame.replace(b"\2\2t\2", b"\2\2\xff\2").replace(b"\0\1t\0", b"\0\1\xff\0")
    ),
    "bytes left over": altered(lambda frame: frame + b"\0\0\0"),
    "cut off": altered(lambda frame: frame[:-30]),
    "an unknown version": altered(lambda frame: frame[:3] + b"\x63" + frame[4:]),
    "tagged fields": with_tags,
}  # fmt: skip


LARGE = {
    "many alike in several partitions",
    "inflates far",
    "many without a key for a compacted topic",
    "many in another codec than the topic has",
    "more partitions than the loop has time for",
    "many partitions",
}
"""The cases that cost most. They are about the number of records and partitions."""


def cases(version: int) -> dict[str, Frames]:
    """The cases of a version."""
    every = ACCEPTED | REFUSED
    return {name: every[name] for name in every if version in WHOLE or name not in LARGE}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_answer_is_that_of_the_general_path(version: int) -> None:
    @trio_test
    async def run() -> None:
        async with two_sides() as sides:
            await make_topics(sides)
            for name, frames in cases(version).items():
                answers: list[bytes] = []
                for side in sides:
                    side.accepted = 0
                    async with side.connected() as client:
                        answers.append(await client.exchange(frames(side, version)))
                assert answers[0] == answers[1], name
                assert held(sides[0]) == held(sides[1]), name
                if name in ACCEPTED:
                    assert sides[0].accepted == frames(sides[0], version).count(b"\0\4test") or (
                        "acks=0" in name or "client id" in name
                    ), name
                assert not sides[1].accepted

    run()


DENIED: dict[str, Frames] = {
    "one": one(batch(), "denied"),
    "acks=1": one(batch(), "denied", acks=1),
    "acks=0": one(batch(), "denied", acks=0),
    "several partitions": several(("denied", [(1, batch()), (0, batch())])),
    "behind one that is not": several(("t", [(0, batch())]), ("denied", [(0, batch())])),
    "before one that is not": several(
        ("denied", [(1, batch())]), ("t", [(1, batch()), (2, batch())])
    ),
    "some denied, acks=0": several(("t", [(0, batch())]), ("denied", [(0, batch())]), acks=0),
    "some denied, some bad": several(
        ("t", [(9, batch())]), ("denied", [(0, batch())]), ("missing", [(0, batch())])
    ),
    "an idempotent producer": each(
        *[idempotent(n, producer_id=908) for n in (0, 1, 1, 5)], topic="denied"
    ),
    "an unknown partition": one(batch(), "denied", 9),
    "no records": one(None, "denied"),
    "no batch": one(b"?" * 90, "denied"),
    "a wrong CRC": one(harmed(70, b"?", crc=False), "denied"),
    "acks=2": one(batch(), "denied", acks=2),
    "a transactional id": one(batch(), "denied", transactional_id="x"),
    "many records": one(batch(*MANY), "denied"),
    "many partitions": several(("denied", [(n % 2, batch()) for n in range(200)])),
    "an internal topic": one(batch(), OFFSETS_TOPIC),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_not_write_is_refused_as_on_the_general_path(version: int) -> None:
    @trio_test
    async def run() -> None:
        async with two_sides(**ACLS) as sides:
            for side in sides:
                await side.make_topic("t", 4)
                await side.make_topic("denied", 2)
                await side.make_topic(OFFSETS_TOPIC)
                await side.forbid("denied", OFFSETS_TOPIC)
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED.to_bytes(2, "big")
            for name, frames in DENIED.items():
                answers: list[bytes] = []
                for side in sides:
                    async with side.connected() as client:
                        answers.append(await client.exchange(frames(side, version)))
                assert answers[0] == answers[1], name
                assert held(sides[0]) == held(sides[1]), name
                assert (
                    b"CLOSED" in answers[0]
                    if "acks=0" in name
                    else (refused in answers[0] or name == "acks=2")
                ), name
            assert sides[0].accepted
            assert not any(sides[0].log_of("denied", n) for n in range(2))

    run()


@pytest.mark.thorough
@pytest.mark.parametrize("version", WHOLE)
def test_who_is_above_a_quota_is_told_as_on_the_general_path(version: int) -> None:
    """The last request of each burst exceeds the quota. If an earlier request of a run exceeds it,
    the fast path says so only in the run's last answer.

    The throttle time ends an answer before version 9; from then on tagged fields follow it."""
    ends = b"\0" if version >= 9 else b""
    next_size = 4

    @trio_test
    async def run() -> None:
        async with two_sides(**A_SECOND) as sides:
            await make_topics(sides)
            for name, frames in cases(version).items():
                answers: list[bytes] = []
                wait_ms = 0
                for side in sides:
                    side.accepted = 0
                    burst = frames(side, version)
                    wait_ms = await side.limit(burst)
                    assert wait_ms > 0
                    async with side.connected() as client:
                        answers.append(await client.exchange(burst))
                assert answers[0] == answers[1], name
                assert held(sides[0]) == held(sides[1]), name
                if name in ACCEPTED:
                    assert sides[0].accepted
                    told = wait_ms.to_bytes(4, "big") + ends
                    assert answers[0][:-next_size].endswith(told) or "acks=0" in name, name

    run()


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, Any]:
    """Mostly what a producer sends next; now and then something else."""
    kind = draw(st.sampled_from(["produce"] * 12 + ["case", "metadata"]))
    if kind == "case":
        return kind, draw(st.sampled_from(sorted(ACCEPTED | REFUSED)))
    if kind == "metadata":
        return kind, None
    topics: list[tuple[str, list[tuple[int, bytes]]]] = []
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(["t", "t", "t", "other", "rolled", "synced", "compacted"]))
        several = 4 if name == "t" else 1
        partitions: list[tuple[int, bytes]] = []
        for _ in range(draw(st.integers(1, several))):
            values = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=3))
            codec = draw(st.sampled_from([Codec.NONE] * 3 + [Codec.GZIP, Codec.LZ4]))
            producer = draw(st.sampled_from([-1, -1, 70, 71]))
            sequence = draw(st.integers(0, 6)) if producer >= 0 else -1
            records = batch(
                *values,
                codec=codec,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence,
            )
            partitions.append((draw(st.integers(0, several - 1)), records))
        topics.append((name, partitions))
    return kind, (topics, draw(st.sampled_from([-1, -1, -1, 1, 0])))


def address_of(side: Side) -> bytes:
    """Host and port, as Metadata answers have them: the port alone may be an offset, too."""
    address = side.node.listeners[0].advertised
    return address.host.encode() + struct.pack(">i", address.port)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(requests(), min_size=1, max_size=25),
    st.sampled_from([3, 5, 8, 9, 10, 13]),
    st.lists(st.integers(0, 1 << 16), max_size=6),
    st.sampled_from([1, 3, 100, 100]),
    st.sampled_from([0.0, 3600.0, 3600.0]),
)
def test_any_mix_of_requests(
    mix: list[tuple[str, Any]],
    version: int,
    pieces: list[int],
    parked_max: int,
    slice_s: float,
) -> None:
    def burst(side: Side) -> bytes:
        frames = b""
        for n, (kind, what) in enumerate(mix):
            if kind == "metadata":
                frames += frame_request(MetadataRequest(topics=[]), 9, n, "test")
            elif kind == "case":
                frames += (ACCEPTED | REFUSED)[what](side, version)
            else:
                topics, acks = what
                frames += side.frame(version, topics, n, acks=acks)
        return frames

    @trio_test
    async def run() -> None:
        async with two_sides() as sides:
            await make_topics(sides)
            answers: list[bytes] = []
            for side in sides:
                async with side.connected(parked_max, slice_s) as client:
                    found = await client.exchange(burst(side), pieces)
                    cluster = side.broker.cluster_id.encode()
                    found = found.replace(address_of(side), b"ADDRESS").replace(cluster, b"ID")
                    answers.append(found)
            assert answers[0] == answers[1]
            assert held(sides[0]) == held(sides[1])

    run()


# --- cached facts are not used after they change ---


Change = Callable[[Side, bytes], Awaitable[bytes | None]]
"""(node, the requests before and after it) → what the answers after it must contain, if that can be
known."""


async def make_again(side: Side, _: bytes) -> None:
    async with caller_of(side.node) as caller:
        await caller.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000), 5)
    async with caller_of(side.node) as caller:
        await make_topic(caller, "t", 4)  # side.topic_ids still has the old id


async def delete(side: Side, _: bytes) -> None:
    async with caller_of(side.node) as caller:
        await caller.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000), 5)


def config(name: str, value: str) -> Change:
    async def change(side: Side, _: bytes) -> None:
        altered = AlterConfigsResource(
            resource_type=2,
            resource_name="t",
            configs=[AlterableConfig(name=name, config_operation=0, value=value)],
        )
        async with caller_of(side.node) as caller:
            answer = await caller.call(IncrementalAlterConfigsRequest(resources=[altered]), 1)
            assert answer.responses[0].error_code == 0

    return change


async def stop_leading(side: Side, _: bytes) -> None:
    for partition in side.broker.data.replicas:
        partition.leads = False
        partition.partition_epoch = 1 << 30  # so that no later image says otherwise


async def go_offline(side: Side, _: bytes) -> None:
    for partition in side.broker.data.replicas:
        partition.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone"))


async def forbid(side: Side, _: bytes) -> bytes:
    await side.forbid("t")
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED.to_bytes(2, "big")


async def limit(side: Side, burst: bytes) -> bytes:
    wait_ms = await side.limit(burst)
    assert wait_ms > 0
    return wait_ms.to_bytes(4, "big")


CHANGES: dict[str, Change] = {
    "the topic is made again": make_again,
    "the topic is deleted": delete,
    "batches may be smaller": config("max.message.bytes", "60"),
    "the codec is another": config("compression.type", "gzip"),
    "the timestamps are the broker's": config("message.timestamp.type", "LogAppendTime"),
    "every record is synced": config("flush.messages", "1"),
    "the topic is compacted": config("cleanup.policy", "compact"),
    "the client may not write": forbid,
    "the client has a quota": limit,
    "another leads": stop_leading,
    "the disk is gone": go_offline,
}


@pytest.mark.parametrize("version", [3, 10, 13])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_two_runs_counts(version: int, change: str) -> None:
    @trio_test
    async def run() -> None:
        async with two_sides(**ACLS, **A_SECOND) as sides:
            answers: list[tuple[bytes, bytes]] = []
            for side in sides:
                await side.make_topic("t", 4)
                async with side.connected() as client:
                    frames = each(batch(key=None), batch(key=None))(side, version)
                    before = await client.exchange(frames)
                    said = await CHANGES[change](side, frames)
                    after = await client.exchange(frames)
                    assert said is None or (said in after and said not in before)
                answers.append((before, after.replace(address_of(side), b"ADDRESS")))
            assert answers[0] == answers[1]
            assert answers[0][0] != answers[0][1] or CHANGES[change] is make_again
            assert held(sides[0]) == held(sides[1])
            assert sides[0].accepted

    run()


# --- disks that fail, and bugs ---


class OddDisk(MemoryDisk):
    """A disk on which one partition's log cannot grow as it should."""

    def __init__(self) -> None:
        super().__init__()
        self.fault_of_log: Callable[[int], None] | None = None
        """Called with the size that the log of t-0 is to have."""
        self._path = ""

    def fault(self, operation: Any, path: str) -> Any:
        self._path = path if operation == "write" else ""
        return super().fault(operation, path)

    def put(self, node: Any, data: Any, position: int) -> None:
        if self.fault_of_log is not None and self._path.endswith("/t-0/00000000000000000000.log"):
            self.fault_of_log(position + len(data))
        super().put(node, data, position)


def full(size: int) -> None:
    if size > 320:
        raise OSError(errno.ENOSPC, "full")


def broken(size: int) -> None:
    raise OSError(errno.EIO, "broken")


def a_bug(size: int) -> None:
    raise ArithmeticError("odd")


FAULTS = (full, broken, a_bug)


@pytest.mark.parametrize("acks", [-1, 1, 0])
@pytest.mark.parametrize("version", [3, 9, 13])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_written_is_answered_alike(
    fault: Callable[[int], None], version: int, acks: int
) -> None:
    """A full disk takes what fits of a run, a broken one nothing more; after a bug every client has
    its answer."""

    @trio_test
    async def run() -> None:
        disks = OddDisk(), OddDisk()
        async with two_sides(disks) as sides:
            answers: list[bytes] = []
            for side, disk in zip(sides, disks, strict=True):
                await side.make_topic("t", 4)
                await side.make_topic("other")
                async with side.connected() as client:
                    assert b"CLOSED" not in await client.exchange(each(batch())(side, version))
                    disk.fault_of_log = fault
                    frames = each(batch(), batch(b"v" * 400), batch(), batch(), acks=acks)
                    both = several(("other", [(0, batch())]), ("t", [(0, batch())]), acks=acks)
                    answers.append(
                        await client.exchange(frames(side, version) + both(side, version))
                    )
                disk.fault_of_log = None
            assert answers[0] == answers[1]
            assert sides[0].log_of("t", 0) == sides[1].log_of("t", 0)
            assert sides[0].accepted > 1

    run()


@trio_test
async def test_what_came_before_a_broken_frame_is_appended_and_answered() -> None:
    async with two_sides() as sides:
        answers: list[bytes] = []
        for side in sides:
            await side.make_topic("t")
            async with side.connected() as client:
                good = each(*[batch()] * 5)(side, 9)
                answers.append(await client.exchange(good + b"\xff\xff\xff\xff"))
        assert answers[0] == answers[1] and answers[0].endswith(b"CLOSED")
        assert held(sides[0]) == held(sides[1]) and sides[0].accepted == 5
        assert sides[0].broker.data.replicas.partition("t", 0).log.state.log_end_offset == 5
