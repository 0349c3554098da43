"""A batch that executors publish, without Spark: each record once, regardless of the step at which
its driver or tasks die and of another driver's actions."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import Message
from s3_server import s3_server

from pk.core.errors import ErrorCode, KafkaError
from pk.spark.connections import connections
from pk.spark.files.store import LocalStore, Store, store_at
from pk.spark.sink import large_batch, marker, publish_files, sealed_files
from pk.spark.sink.commit import CheckpointTooOld
from pk.spark.sink.large_batch import LargeBatch
from pk.spark.sink.marker import MarkerUnreadable
from pk.spark.sink.messages import StagingFailed
from pk.spark.sink.options import SinkOptions, parse_sink_options
from pk.spark.sink.publish_files import publish_lane
from pk.spark.sink.seal import seal
from pk.spark.sink.sealed_files import Part, SealedList, keep, lane_of

Fresh = Callable[[str], str]
WAIT_S = 60
PARTITIONS = 3


class Died(BaseException):
    """A process ends here."""


def sink(kafka: Kafka, **options: object) -> SinkOptions:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return parse_sink_options({"kafka.bootstrap.servers": kafka.bootstrap, **given})


def values(batch: int, count: int = 120) -> list[bytes]:
    return [b"%d-%05d" % (batch, n) for n in range(count)]


def parts(
    batch: LargeBatch,
    topic: str,
    rows: list[bytes],
    tasks: int = 2,
    limit: int = 0,
) -> Iterator[Part]:
    """The rows that a batch's tasks seal: each has consecutive rows, which name their partition."""
    each = -(-len(rows) // tasks)
    for task in range(tasks):
        mine = rows[task * each : (task + 1) * each]
        pieces = [mine[at : at + 20] for at in range(0, len(mine), 20)]

        def sealed(pieces: list[list[bytes]] = pieces) -> Iterator[Any]:
            for piece in pieces:
                columns = {
                    "value": pa.array(piece, pa.binary()),
                    "partition": pa.array([int(v[-2:]) % PARTITIONS for v in piece], pa.int32()),
                }
                yield from seal(
                    [pa.RecordBatch.from_pydict(columns)],
                    topic=topic,
                    config=batch.options.config,
                    partitions_of=lambda _: PARTITIONS,
                )

        yield from keep(sealed(), store=batch.store, folder=batch.folder, task=task, limit=limit)


def publish(batch: LargeBatch) -> Callable[[SealedList], None]:
    """The job of executors, one lane after the other."""

    def run(listed: SealedList) -> None:
        for lane in listed.lanes:
            connections().run(publish_lane, batch.options, batch.store, listed, lane)

    return run


def read_messages(kafka: Kafka, topic: str, partitions: int) -> dict[int, list[Message]]:
    """The committed records of each partition, once no transaction is open."""
    topics.wait_until_none_is_open(kafka, topic, partitions)
    found: dict[int, list[Message]] = {n: [] for n in range(partitions)}
    for message in topics.committed_messages(kafka, topic, partitions):
        partition = message.partition()
        assert partition is not None
        found[partition].append(message)
    return found


def read(kafka: Kafka, topic: str) -> dict[int, list[Any]]:
    """The committed values of each partition."""
    found = read_messages(kafka, topic, PARTITIONS)
    return {n: [message.value() for message in each] for n, each in found.items()}


def expected(rows: Iterable[bytes]) -> dict[int, list[bytes]]:
    kept = list(rows)
    return {n: [v for v in kept if int(v[-2:]) % PARTITIONS == n] for n in range(PARTITIONS)}


class World:
    """A topic, a query and a directory for its batches."""

    def __init__(self, kafka: Kafka, fresh: Fresh, store: Store) -> None:
        self.kafka = kafka
        self.topic = topics.create_topic(kafka, fresh("sink"), PARTITIONS)
        self.options = sink(kafka)
        self.query = str(uuid.uuid4())
        self.store = store

    def batch(self, number: int, driver_bytes: int | None = 0) -> LargeBatch:
        return LargeBatch(self.options, self.store, self.query, number, driver_bytes)

    def write(self, batch: LargeBatch, rows: list[bytes], tasks: int = 2, limit: int = 0) -> None:
        batch.write(lambda: parts(batch, self.topic, rows, tasks, limit), publish(batch))

    @property
    def files(self) -> list[str]:
        return self.store.names(self.query)

    def marks(self) -> set[str]:
        """The files that have a marker which is not deleted, by librdkafka."""
        prefix = f"{self.query}\n"
        found: dict[str, bytes | None] = {}
        for messages in read_messages(self.kafka, marker.TOPIC, marker.PARTITIONS).values():
            for message in messages:
                key = message.key()
                assert isinstance(key, bytes)
                if key.decode().startswith(prefix):
                    found[key.decode()] = message.value()  # pyright: ignore[reportArgumentType]
        assert found, "the topic is read"
        return {key.removeprefix(prefix) for key, value in found.items() if value is not None}


@pytest.fixture
def world(kafka: Kafka, fresh: Fresh, tmp_path: Path) -> World:
    return World(kafka, fresh, LocalStore(tmp_path / "sealed"))


def test_batches_are_written_once_and_in_order(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_files, "FILE_BYTES", 300)
    for number in range(2):
        batch = world.batch(number)
        lists: list[SealedList] = []

        def job(listed: SealedList, b: LargeBatch = batch, seen: Any = lists) -> None:
            seen.append(listed)
            publish(b)(listed)

        batch.write(lambda b=batch, n=number: parts(b, world.topic, values(n)), job)
        assert [len(files) for files in lists[0].lanes.values()] == [4, 4, 4]
        assert world.files == []
        # Spark did not note it; it comes again, with other rows in other tasks.
        world.write(world.batch(number), [*values(number)[::-1], b"9-00000"], tasks=3)
        assert world.files == []
    rows = [v for number in range(2) for v in values(number)]
    assert read(world.kafka, world.topic) == expected(rows)
    with pytest.raises(CheckpointTooOld, match="has published batch 1"):
        world.write(world.batch(0), values(0))


def test_what_tasks_hand_over_is_in_order_with_files(world: World) -> None:
    """Tasks below their limit beside others above it."""
    batch, rows = world.batch(0), values(0, 200)

    def mixed() -> Iterator[Part]:
        for task in range(4):
            mine, limit = rows[task * 50 : task * 50 + 50], (0, 10**6)[task % 2]
            found = parts(batch, world.topic, mine, tasks=1, limit=limit)
            yield from (each._replace(task=task) for each in found)

    batch.write(lambda: reversed(list(mixed())), publish(batch))
    assert read(world.kafka, world.topic) == expected(rows)


def test_a_small_batch_is_one_transaction_of_the_driver(world: World) -> None:
    for number, limit in enumerate((0, 10**6)):
        batch = world.batch(number, driver_bytes=10**6)
        batch.write(
            lambda b=batch, n=number, at=limit: parts(b, world.topic, values(n), limit=at), no_job
        )
    assert read(world.kafka, world.topic) == expected([*values(0), *values(1)])
    assert world.files == []
    atomic = world.batch(2, driver_bytes=None)
    atomic.write(lambda: parts(atomic, world.topic, values(2)), no_job)
    assert read(world.kafka, world.topic) == expected([*values(0), *values(1), *values(2)])


def no_job(listed: SealedList) -> None:
    raise AssertionError("the driver publishes this")


def test_a_batch_of_both_ways_is_written_once(world: World) -> None:
    """The repeated batch may be larger or smaller than the first."""
    world.write(world.batch(0), values(0))
    world.write(world.batch(0, driver_bytes=10**6), values(0))
    world.write(world.batch(1, driver_bytes=10**6), values(1))
    world.write(world.batch(1), values(1))
    assert read(world.kafka, world.topic) == expected([*values(0), *values(1)])


STEPS: tuple[tuple[Any, str, int, str], ...] = (
    (LargeBatch, "make_list", 1, "before"),
    (LargeBatch, "add_list", 1, "before"),
    (LargeBatch, "add_list", 1, "after"),
    (large_batch.BatchCommit, "take_over", 1, "after"),
    (publish_files.Publisher, "publish", 1, "after"),
    (publish_files.Publisher, "publish", 2, "after"),
    (publish_files.Transactions, "end", 1, "after"),
    (publish_files.Publisher, "publish", 9, "after"),
    (publish_files.Publisher, "publish", 10, "after"),
    (publish_files.Transactions, "end", 5, "after"),
    (large_batch.BatchCommit, "publish", 1, "before"),
    (publish_files.Transactions, "end", 7, "before"),
    (large_batch.BatchCommit, "publish", 1, "after"),
    (LargeBatch, "remove", 1, "after"),
)
"""Calls, by their number in a batch of six files: two of each lane."""


def dies(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, when: str) -> None:
    """The process dies before or after the call of this number."""
    real = getattr(owner, name)
    calls = 0

    def strikes(at: str) -> None:
        nonlocal calls
        calls += at == "before"
        if calls == call and at == when:
            raise Died

    def step(self: Any, *args: Any, **given: Any) -> Any:
        strikes("before")
        found = real(self, *args, **given)
        strikes("after")
        return found

    async def awaited(self: Any, *args: Any, **given: Any) -> Any:
        strikes("before")
        found = await real(self, *args, **given)
        strikes("after")
        return found

    monkeypatch.setattr(owner, name, awaited if iscoroutinefunction(real) else step)


@pytest.mark.parametrize(("owner", "name", "call", "when"), STEPS)
def test_a_death_at_any_step_loses_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, when: str
) -> None:
    with monkeypatch.context() as patch, pytest.raises(BaseException) as raised:
        dies(patch, owner, name, call, when)
        world.write(world.batch(0), values(0))
    assert is_death(raised.value)
    world.write(world.batch(0), values(0)[::-1], tasks=3)
    found = read(world.kafka, world.topic)
    assert {n: Counter(each) for n, each in found.items()} == {
        n: Counter(each) for n, each in expected(values(0)).items()
    }
    assert {name.split("/")[1] for name in world.files} <= {"0"}
    world.write(world.batch(1, driver_bytes=10**6), [b"1-00000"], limit=10**6)
    assert world.files == []


def is_death(error: BaseException) -> bool:
    """Whether a process died, by itself or among the tasks of a nursery."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_death(each) for each in error.exceptions)
    return isinstance(error, Died)


def test_without_the_markers_of_files_records_come_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of the tests above must be able to fail."""

    async def blind(options: SinkOptions, listed: SealedList) -> set[str]:
        return set()

    monkeypatch.setattr(publish_files, "published_files", blind)
    with monkeypatch.context() as patch, pytest.raises(Died):
        dies(patch, large_batch.BatchCommit, "publish", 1, "before")
        world.write(world.batch(0), values(0))
    world.write(world.batch(0), values(0))
    assert read(world.kafka, world.topic) == {n: v * 2 for n, v in expected(values(0)).items()}


def test_the_list_is_the_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that has a list is not computed again: its input may be gone."""
    with monkeypatch.context() as patch, pytest.raises(Died):
        dies(patch, LargeBatch, "publish_listed", 1, "before")
        world.write(world.batch(0), values(0))

    def gone() -> Iterator[Part]:
        raise AssertionError("the input is gone")

    again = world.batch(0)
    again.write(gone, publish(again))
    assert read(world.kafka, world.topic) == expected(values(0))


def test_a_file_that_is_gone_or_cut_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(Died):
        dies(patch, LargeBatch, "publish_listed", 1, "before")
        world.write(world.batch(0), values(0))
    batch = world.batch(0)
    listed = batch.listed()
    assert listed is not None
    file = listed.files[0]
    whole = world.store.read(file.name)
    world.store.write(file.name, whole[:-1])
    with pytest.raises(StagingFailed, match="had written"):
        world.write(batch, values(0))
    world.store.remove([file.name])
    with pytest.raises(StagingFailed, match="share"):
        world.write(batch, values(0))
    world.store.write(file.name, whole)
    world.write(batch, values(0))
    assert read(world.kafka, world.topic) == expected(values(0))


def test_a_driver_that_stood_still_before_its_list_writes_nothing(world: World) -> None:
    """It has sealed the batch; another driver writes the batch and removes its list; the first one
    continues."""
    late = world.batch(0)
    kept = list(parts(late, world.topic, values(0)))
    world.write(world.batch(0), values(0))
    late.write(lambda: kept, publish(late))
    assert read(world.kafka, world.topic) == expected(values(0))
    assert world.files == []


def test_a_driver_that_stood_still_before_its_transaction_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It publishes a small batch itself, and looked for a list when there was none."""
    late = world.batch(0, driver_bytes=10**6)
    listed = LargeBatch.listed
    looks = 0

    def slow(self: LargeBatch) -> SealedList | None:
        nonlocal looks
        found = listed(self)
        if self is late:
            looks += 1
            if looks == 2:
                world.write(world.batch(0), values(0))
        return found

    monkeypatch.setattr(LargeBatch, "listed", slow)
    with pytest.raises(KafkaError) as raised:
        world.write(late, values(0), limit=10**6)
    assert raised.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert looks == 2 and read(world.kafka, world.topic) == expected(values(0))


def test_a_task_that_stood_still_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the markers; another task publishes the lane; the first one continues."""
    there = publish_files.published_files
    stood: list[bool] = []
    errors: list[KafkaError] = []

    async def slow(options: SinkOptions, listed: SealedList) -> set[str] | None:
        found = await there(options, listed)
        if not stood:
            stood.append(True)
            lane = next(iter(listed.lanes))
            await publish_lane(options, world.store, listed, lane)
        return found

    def job(listed: SealedList) -> None:
        for lane in listed.lanes:
            try:
                connections().run(publish_lane, world.options, world.store, listed, lane)
            except KafkaError as e:
                errors.append(e)

    monkeypatch.setattr(publish_files, "published_files", slow)
    batch = world.batch(0)
    batch.write(lambda: parts(batch, world.topic, values(0)), job)
    [error] = errors
    assert error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert read(world.kafka, world.topic) == expected(values(0))


def test_a_late_task_of_a_batch_that_is_done_writes_nothing(world: World) -> None:
    """The markers of its files are deleted by then."""
    batch = world.batch(0)
    kept: list[tuple[SealedList, dict[str, bytes]]] = []

    def job(listed: SealedList) -> None:
        kept.append((listed, {file.name: world.store.read(file.name) for file in listed.files}))
        publish(batch)(listed)

    batch.write(lambda: parts(batch, world.topic, values(0)), job)
    assert world.marks() == set(), "deleted with the batch's marker"
    [(listed, data)] = kept
    for name, whole in data.items():
        world.store.write(name, whole)
    publish(batch)(listed)
    assert read(world.kafka, world.topic) == expected(values(0))


def test_another_cluster_is_not_taken_for_the_batchs_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Died):
        dies(patch, LargeBatch, "publish_listed", 1, "before")
        world.write(world.batch(0), values(0))
    listed = world.batch(0).listed()
    assert listed is not None
    world.store.write(
        f"{world.query}/0/files.json",
        listed.encode().replace(listed.topic_id.encode(), b"4S-K2a9bTDeJy7Pg-rvZcw"),
    )
    with pytest.raises(MarkerUnreadable, match="another topic __pk_spark_commits"):
        world.write(world.batch(0), values(0))


def test_leftovers_are_removed_by_a_later_run(world: World) -> None:
    for number in (0, 1, 7):
        list(parts(world.batch(number), world.topic, values(number)))
    assert world.files
    world.write(world.batch(1, driver_bytes=10**9), values(1), limit=10**9)
    left = {name.split("/")[1] for name in world.files}
    assert left == {"7"}, "a batch that comes may be in the making"


def test_neighbors_have_different_lanes() -> None:
    assert len({lane_of("orders", partition) for partition in range(8)}) == 8


def test_batches_in_object_storage(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    with s3_server() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        world = World(kafka, fresh, store_at(f"{server.bucket('sealed')}/pk"))
        with monkeypatch.context() as patch, pytest.raises(Died):
            dies(patch, large_batch.BatchCommit, "publish", 1, "before")
            world.write(world.batch(0), values(0))
        assert f"{world.query}/0/files.json" in world.files
        world.write(world.batch(0), values(0))
        world.write(world.batch(1, driver_bytes=10**6), values(1))
        assert world.files == []
        assert read(kafka, world.topic) == expected([*values(0), *values(1)])
