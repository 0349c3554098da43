"""`pk log`: dump, verify and cat of a directory that a broker wrote, and the refusals of adopt."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from log.support import append, end_transaction, make_batch, open_log
from nodes import caller_of, make_topic, running_node
from shapes import check_json

from pk.core.log.disk import RealDisk
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.legacy import build_set
from pk.core.share.batches import StateBatch
from pk.core.share.records import Record as ShareRecord
from pk.core.share.records import ShareKey, Snapshot, Update, encode_record
from pk.core.values import TopicPartition
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.core.wire.messages.transaction_topic import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from pk.core.wire.versioned import encode_key, encode_versioned
from pk.net.node import Node

Run = Callable[..., Any]


def json_of(pk: Run, *words: str) -> Any:
    """The output of a command line with `-f json`, checked against the command's schema."""
    line = (*words, "-f", "json")
    return check_json(line, pk(*line).out)


T0 = 1_750_000_000_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of pk's: topic `orders` with one batch for each codec, and commits of group
    `app`. The broker has ended."""
    data = tmp_path_factory.mktemp("written")

    async def main() -> None:
        async with running_node(RealDisk(), directory=str(data)) as node, caller_of(node) as caller:
            await make_topic(caller, "orders", 2)
            for i, codec in enumerate(Codec):
                records = [
                    (T0 + i * 1000 + n, b"k%d" % n, None if n == 2 else b"%d-%d" % (i, n), ())
                    for n in range(3)
                ]
                batch = build_batch(records, codec=codec)
                partition = PartitionProduceData(index=0, records=memoryview(batch))
                topic = TopicProduceData(name="orders", partition_data=[partition])
                await caller.call(ProduceRequest(acks=1, timeout_ms=9000, topic_data=[topic]), 9)
            await caller.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["app"]), 4)
            place = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
            topics = [OffsetCommitRequestTopic(name="orders", partitions=[place])]
            while True:
                request = OffsetCommitRequest(group_id="app", topics=topics)
                answer = await caller.call(request, 7)
                code = answer.topics[0].partitions[0].error_code
                if code == 0:
                    break
                assert code in (14, 15, 16), code  # the coordinator is loading, or not there yet
                await trio.lowlevel.checkpoint()

    trio.run(main)
    return data


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A copy of it, for tests that damage it."""
    return Path(shutil.copytree(written, tmp_path / "data"))


LOG = "00000000000000000000.log"


def test_batches_are_dumped(pk: Run, written: Path) -> None:
    ran = pk("log", "dump", str(written / "orders-0"), "-f", "json")
    assert ran.code == 0
    assert [(b["base_offset"], b["last_offset"], b["codec"], b["valid"]) for b in ran.json] == [
        (0, 2, "none", True),
        (3, 5, "gzip", True),
        (6, 8, "snappy", True),
        (9, 11, "lz4", True),
        (12, 14, "zstd", True),
    ]
    table = pk(
        "log",
        "dump",
        str(written / "orders-0" / LOG),
        "--limit",
        "1",
        "--columns",
        "base_offset,count,position,codec,max_timestamp",
    )
    assert table.text == (
        "FIRST-OFFSET  RECORDS  POSITION  CODEC  LATEST-TIME\n"
        f"           0        3         0  none   {table.lines[1].split()[-1]}\n"
    )
    csv = pk(
        "log",
        "dump",
        "--files",
        str(written / "orders-0" / LOG),
        "-f",
        "csv",
        "--columns",
        "base_offset,codec",
        "--where",
        "codec = lz4 or codec = zstd",
    )
    assert csv.text == "base_offset,codec\n9,lz4\n12,zstd\n"


@pytest.mark.parametrize("flag", ["--records", "--print-data-log", "--deep-iteration"])
def test_records_are_dumped(pk: Run, written: Path, flag: str) -> None:
    rows = pk(
        "log", "dump", str(written / "orders-0"), flag, "-f", "json", "--where", "key = k2"
    ).json
    assert [(r["offset"], r["key"], r["value"]) for r in rows] == [
        (o, "k2", None) for o in (2, 5, 8, 11, 14)
    ]
    bare = pk(
        "log",
        "dump",
        str(written / "orders-0"),
        "--skip-record-metadata",
        "--limit",
        "1",
        "-f",
        "jsonl",
    )
    assert set(bare.json) == {"key", "key_b64", "value", "value_b64", "headers"}


def test_max_bytes_stops_in_time_and_quietly(pk: Run, written: Path) -> None:
    ran = pk("log", "dump", str(written / "orders-0"), "--max-bytes", "200", "-f", "json")
    assert [b["base_offset"] for b in ran.json] == [0] and ran.err == ""


def test_internal_topics_are_decoded(pk: Run, written: Path) -> None:
    offsets = [str(p) for p in sorted(written.glob("__consumer_offsets-*"))]
    rows = json_of(pk, "log", "dump", *offsets, "--records", "--where", "key.type = offset_commit")
    assert [(r["key"]["group"], r["value"]["offset"]) for r in rows] == [("app", 7)]
    raw = json_of(pk, "log", "dump", *offsets, "--records", "--decoder", "none")
    assert all(r["key_b64"] or isinstance(r["key"], str) for r in raw)
    where = str(written / "pk-metadata" / "__cluster_metadata-0")
    events = [r["value"] for r in json_of(pk, "log", "dump", where, "--records")]
    assert events[0]["event"] == "ClusterCreated"
    assert {"event": "TopicCreated", "name": "orders"}.items() <= next(
        e for e in events if e.get("name") == "orders"
    ).items()


def test_the_state_of_transactions_is_decoded(pk: Run, tmp_path: Path) -> None:
    path = tmp_path / "__transaction_state-3"
    path.mkdir()
    log = open_log(RealDisk(), path=str(path), tp=TopicPartition("__transaction_state", 3))
    partitions = [PartitionsSchema(topic="orders", partition_ids=[0, 2])]
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=partitions,
        client_transaction_version=2,
    )
    key = encode_key(TransactionLogKey(transactional_id="payments"))
    said = [encode_versioned(value, 1), encode_versioned(TransactionLogValue(producer_id=8), 0)]
    append(log, build_batch([(0, key, content, ()) for content in [*said, None]]))
    log.close()
    rows = json_of(pk, "log", "dump", str(path), "--records")
    assert [row["key"] for row in rows] == [
        {"type": "transaction_log", "transactional_id": "payments"}
    ] * 3
    first, second, gone = [row["value"] for row in rows]
    assert {
        "version": 1,
        "producer_id": 7,
        "transaction_status": 1,
        "transaction_partitions": [{"topic": "orders", "partition_ids": [0, 2]}],
        "client_transaction_version": 2,
    }.items() <= first.items()
    assert (second["version"], second["producer_id"], gone) == (0, 8, None)
    shown = pk("log", "cat", str(path), "-o", "0..1", "-f", "%k %v\n").text
    assert shown.startswith('{"type": "transaction_log", "transactional_id": "payments"}')


def test_the_state_of_share_partitions_is_decoded(pk: Run, tmp_path: Path) -> None:
    path = tmp_path / "__share_group_state-3"
    path.mkdir()
    log = open_log(RealDisk(), path=str(path), tp=TopicPartition("__share_group_state", 3))
    share_key = ShareKey("jobs", bytes(range(16)), 2)
    taken = StateBatch(5, 6, 0, 1)
    records = [
        ShareRecord(share_key, Snapshot(1, 2, 3, 5, 0, (taken,), 7, 8)),
        ShareRecord(share_key, Update(1, 3, 6, 1)),
        ShareRecord(share_key, None),
    ]
    append(log, build_batch([(0, *encode_record(record), ()) for record in records]))
    log.close()
    rows = json_of(pk, "log", "dump", str(path), "--records")
    partition = {"group_id": "jobs", "topic_id": "AAECAwQFBgcICQoLDA0ODw", "partition": 2}
    kinds = ["share_snapshot", "share_update", "share_snapshot"]
    assert [row["key"] for row in rows] == [{"type": kind, **partition} for kind in kinds]
    assert rows[0]["value"] == {
        "version": 0,
        "snapshot_epoch": 1,
        "state_epoch": 2,
        "leader_epoch": 3,
        "start_offset": 5,
        "delivery_complete_count": 0,
        "create_timestamp": 7,
        "write_timestamp": 8,
        "state_batches": [
            {"first_offset": 5, "last_offset": 6, "delivery_state": 0, "delivery_count": 1}
        ],
    }
    assert (rows[1]["value"]["start_offset"], rows[1]["value"]["state_batches"]) == (6, [])
    assert rows[2]["value"] is None
    by_file = shutil.copy(path / LOG, tmp_path / LOG)
    asked = ("log", "dump", str(by_file), "--print-data-log", "--share-group-state-decoder")
    assert [row["key"] for row in json_of(pk, *asked)] == [row["key"] for row in rows]


def test_small_files_are_dumped(pk: Run, written: Path) -> None:
    rows = json_of(pk, "log", "dump", str(written / "recovery-point-offset-checkpoint"))
    assert {"topic": "orders", "partition": 0, "offset": 15}.items() <= next(
        r for r in rows if (r["topic"], r["partition"]) == ("orders", 0)
    ).items()
    properties = json_of(pk, "log", "dump", str(written / "meta.properties"))
    assert {p["name"] for p in properties} == {"cluster.id", "node.id", "directory.id", "version"}
    epochs = json_of(pk, "log", "dump", str(written / "orders-0"), "--show", "epochs")
    assert [(e["epoch"], e["start_offset"]) for e in epochs] == [(0, 0)]
    times = json_of(pk, "log", "dump", str(written / "orders-0"), "--show", "timeindex")
    assert (times[-1]["timestamp"], times[-1]["offset"]) == (T0 + 4002, 14)


def test_a_log_without_records_says_so(pk: Run, written: Path) -> None:
    ran = pk("log", "dump", str(written / "orders-1"))
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == f"{written}/orders-1/{LOG}: nothing to show.\n"
    assert json_of(pk, "log", "dump", str(written / "orders-1")) == []


def test_a_data_directory_shows_its_segments(pk: Run, written: Path) -> None:
    rows = json_of(pk, "log", "dump", str(written), "--where", "topic = orders")
    assert [(r["partition"], r["base_offset"], r["bytes"] > 0) for r in rows] == [
        (0, 0, True),
        (1, 0, False),
    ]
    every = pk("log", "dump", str(written), "--show", "all")
    assert every.code == 0 and "broker_epoch" in every.text and "TopicCreated" not in every.text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "Name a file"),
        (("NO",), 1, "/nowhere/00000000000000000000.log does not exist"),
        (("/nowhere",), 1, "/nowhere does not exist"),
        (("DATA/orders-0", "--show", "bathces"), 2, "did you mean batches"),
        (("DATA/orders-0", "--show", "batches,index", "--limit", "1"), 2, "different columns"),
        (("DATA/orders-0", "--columns", "nope"), 2, "unknown column 'nope'"),
    ],
)
def test_mistakes_are_reported(
    pk: Run, written: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    words = tuple(
        w.replace("DATA", str(written)).replace("NO", "/nowhere/00000000000000000000.log")
        for w in words
    )
    ran = pk("log", "dump", *words)
    assert (ran.code, said in ran.err) == (code, True), ran.err


@pytest.mark.parametrize("option", ["--columns", "--sort", "--where"])
def test_what_is_no_column_is_refused_before_anything_is_read(
    pk: Run, tmp_path: Path, option: str
) -> None:
    directory = tmp_path / "empty-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").touch()  # there is no row that could tell
    ran = pk(
        "log", "dump", str(directory), option, "nosuch" + (" = 1" if option == "--where" else "")
    )
    assert ran.code == 2 and "nosuch" in ran.err, ran.err


def test_verify_finds_nothing_wrong_with_what_a_broker_wrote(pk: Run, written: Path) -> None:
    ran = pk("log", "verify", str(written))
    assert (ran.code, ran.out) == (0, b""), ran.text
    assert "nothing is wrong" in ran.err
    assert json_of(pk, "log", "verify", str(written)) == []


def test_verify_of_a_directory_without_logs_fails(pk: Run, tmp_path: Path) -> None:
    (tmp_path / "dbus-1").mkdir()  # as in /etc: called like a partition
    (tmp_path / "dbus-1" / "session.conf").touch()
    for path in (tmp_path, tmp_path / "dbus-1"):
        ran = pk("log", "verify", str(path))
        assert (ran.code, ran.out) == (1, b"")
        assert ran.err == (
            f"{path} contains neither a log nor the files of a data directory; "
            "nothing was checked.\n"
        )


def test_a_data_directory_called_like_a_partition_is_verified_whole(
    pk: Run, written: Path, tmp_path: Path
) -> None:
    """`pk up --brokers 3` names directories broker-1, broker-2, broker-3, which are not partitions
    of a topic `broker`."""
    broker = shutil.copytree(written, tmp_path / "broker-1")
    whole, named = pk("log", "verify", str(written)), pk("log", "verify", str(broker))
    assert (named.code, named.err) == (0, whole.err)
    log = broker / "orders-0" / LOG
    log.write_bytes(log.read_bytes()[:-1])
    assert pk("log", "verify", str(broker)).code == 1
    every = pk("log", "verify", str(tmp_path))
    assert every.code == 1 and f"{log}" in every.text


def test_the_checkpoints_of_one_broker_say_nothing_of_the_logs_of_another(
    pk: Run, data: Path, tmp_path: Path
) -> None:
    """A directory of `pk up` with several brokers. Each has its own checkpoints, and a follower may
    be behind."""
    other = shutil.copytree(data, tmp_path / "broker-2")
    shutil.rmtree(other / "orders-0")
    checkpoint = other / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 1000000\n")
    ran = pk("log", "verify", str(tmp_path))
    assert (ran.code, ran.out) == (0, b""), ran.text
    (data / checkpoint.name).write_bytes(checkpoint.read_bytes())
    assert pk("log", "verify", str(tmp_path)).code == 1


def test_verify_names_the_place(pk: Run, data: Path) -> None:
    log = data / "orders-0" / LOG
    places = json_of(pk, "log", "dump", str(log))
    content = bytearray(log.read_bytes())
    content[places[3]["position"] + 70] ^= 4
    log.write_bytes(content)
    ran = pk("log", "verify", str(data), "-f", "json")
    check_json(("log", "verify", str(data), "-f", "json"), ran.out)
    (found,) = ran.json
    assert ran.code == 1
    assert (found["file"], found["position"], found["offset"]) == (
        str(log),
        places[3]["position"],
        9,
    )
    assert found["what"].startswith("CRC is")
    assert [b["valid"] for b in json_of(pk, "log", "dump", str(log))].index(False) == 3
    cat = pk("log", "cat", str(data / "orders-0"))
    assert (cat.code, "pk log verify" in cat.err) == (1, True)
    assert cat.lines[:2] == ["0-0", "0-1"]
    assert pk("log", "verify", str(data / "nowhere")).code == 1


def test_index_checks_of_apache_s_tool(pk: Run, data: Path) -> None:
    where = data / "orders-0"
    assert pk("log", "dump", str(where), "--verify-index-only").code == 0
    assert pk("log", "dump", str(where), "--index-sanity-check").code == 0
    times = where / "00000000000000000000.timeindex"
    content = bytearray(times.read_bytes())
    content[7] ^= 1
    times.write_bytes(content)
    assert pk("log", "dump", str(where), "--index-sanity-check").code == 0
    ran = pk("log", "dump", str(where), "--verify-index-only")
    assert (ran.code, "entry 0 says" in ran.text) == (1, True)
    times.write_bytes(content[:-5])
    assert pk("log", "dump", str(times), "--index-sanity-check").code == 1
    for path in (f"{times}x", str(times.with_suffix(".log"))):
        ran = pk("log", "dump", path, "--index-sanity-check")
        assert (ran.code, f"{path}" in ran.err, "wrong" in ran.err) == (1, True, False)


def test_that_there_is_nothing_to_read_is_reported(pk: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    none = pk("log", "cat", str(tmp_path / "empty"))
    assert (none.code, "The given directories contain no partition" in none.err) == (1, True)
    other = pk("log", "cat", str(data), "-p", "77")
    assert (
        other.code,
        "The given directories do not contain partition 77, only " in other.err,
    ) == (1, True)


@pytest.mark.parametrize(
    ("position", "offsets"),
    [
        ("start", range(15)),
        ("end", []),
        ("7", range(7, 15)),
        ("-4", range(11, 15)),
        ("+13", range(13, 15)),
        ("4..6", [4, 5]),
        ("-3..end", [12, 13, 14]),
        (f"@{T0 + 2000}..@{T0 + 3001}", [6, 7, 8, 9]),
        ("0=14,1=start", [14]),
        ("1=start", []),
    ],
)
def test_cat_knows_every_position(pk: Run, written: Path, position: str, offsets: Any) -> None:
    ran = pk(
        "log",
        "cat",
        str(written / "orders-0"),
        str(written / "orders-1"),
        "-o",
        position,
        "-f",
        "%p %o\\n",
    )
    assert ran.code == 0
    assert ran.text == "".join(f"0 {o}\n" for o in offsets)


def test_cat_shows_records_as_the_consumer_does(pk: Run, written: Path) -> None:
    row = pk("log", "cat", str(written), "-p", "0", "-o", "3..4", "-f", "jsonl").json
    assert row == {
        "topic": "orders",
        "partition": 0,
        "offset": 3,
        "timestamp": T0 + 1000,
        "timestamp_type": "create_time",
        "key": "k0",
        "value": "1-0",
        "headers": [],
    }
    assert pk("log", "cat", str(written / "orders-0"), "-k", "k1", "-n", "2").text == "0-1\n1-1\n"
    assert pk("log", "cat", str(written / "orders-0"), "-o", "committed").code == 2
    decoded = [
        json.loads(line)
        for path in written.glob("__consumer_offsets-*")
        for line in pk("log", "cat", str(path), "-f", "%v\\n").text.splitlines()
    ]
    assert any(value and value.get("offset") == 7 for value in decoded)


def test_a_binary_value_is_not_shown_as_null(pk: Run, tmp_path: Path) -> None:
    """A segment of three records: text, bytes that are no text, null."""
    values = (b"text", b"\xff\x00", None)
    file = tmp_path / "orders-0" / LOG
    file.parent.mkdir()
    file.write_bytes(bytes(build_batch([(T0, v, v, ()) for v in values])))
    lines = pk("log", "dump", str(file), "--records").lines
    assert [line.split()[-2:] for line in lines[1:]] == [
        ["text", "text"],
        ["0xff00", "0xff00"],
        ["-", "-"],
    ]


def test_cat_reads_committed_records(pk: Run, tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    log = open_log(RealDisk(), path=str(path))

    def transaction(producer_id: int, sequence: int) -> None:
        append(
            log,
            make_batch(
                2, producer_id=producer_id, producer_epoch=0, sequence=sequence, transactional=True
            ),
        )

    append(log, make_batch(1))
    transaction(1, 0)
    end_transaction(log, 1, commit=False)
    transaction(1, 2)
    end_transaction(log, 1, commit=True)
    transaction(2, 0)
    append(log, make_batch(1))
    log.close()
    every = pk("log", "cat", str(path), "-f", "%o ").text
    assert every == "0 1 2 4 5 7 8 9 "
    for _ in range(2):
        command = ("log", "cat", str(path), "-f", "%o ", "--isolation-level", "read_committed")
        assert pk(*command).text == "0 4 5 "
        for index in path.glob("*.txnindex"):
            index.unlink()


def test_all_works_beside_a_running_broker(pk: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running_node(RealDisk(), directory=str(tmp_path / "live")) as node,
            caller_of(node) as caller,
        ):
            await make_topic(caller, "live")
            for i in range(20):
                batch = build_batch([(T0 + i, None, b"%d" % i, ())])
                topic = TopicProduceData(
                    name="live",
                    partition_data=[PartitionProduceData(index=0, records=memoryview(batch))],
                )
                await caller.call(ProduceRequest(acks=1, timeout_ms=9000, topic_data=[topic]), 9)
            where = str(tmp_path / "live")
            assert pk("log", "verify", where).code == 0
            assert pk("log", "cat", where, "-f", "%v ").text == "".join(f"{i} " for i in range(20))
            refused = await trio.to_thread.run_sync(pk, "log", "adopt", where, "-y")
            assert (refused.code, "is in use" in refused.err) == (1, True)

    trio.run(main)


def test_adopt_refuses_what_it_must_not_touch(pk: Run, data: Path, tmp_path: Path) -> None:
    ours = pk("log", "adopt", str(data), "-y")
    assert (ours.code, "is pk's already" in ours.err) == (1, True)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no meta.properties" in pk("log", "adopt", str(empty), "-y").err


@pytest.fixture
def apache_like(data: Path) -> Path:
    """The directory as if an Apache Kafka without readable metadata had left it."""
    shutil.rmtree(data / "pk-metadata")
    (data / "__cluster_metadata-0").mkdir()
    (data / "__cluster_metadata-0" / "quorum-state").write_text("{}")
    return data.rename(data.with_name("kafka data"))


def test_adopt_shows_its_plan_asks_and_takes_over(pk: Run, apache_like: Path) -> None:
    where = str(apache_like)
    before = sorted(str(p) for p in apache_like.rglob("*"))
    dry = pk("log", "adopt", where, "--dry-run", "-f", "json")
    check_json(("log", "adopt", where, "-f", "json"), dry.out)
    assert dry.code == 0
    assert [(r["topic"], r["partitions"]) for r in dry.json if r["topic"] == "orders"] == [
        ("orders", 2)
    ]
    assert "cannot be read (it is empty): configs come from -c alone" in dry.err
    assert pk("log", "adopt", where).code == 5
    assert sorted(str(p) for p in apache_like.rglob("*")) == before
    for bad in (
        "orders.retention.ms=1",
        "nope:retention.ms=1",
        "orders:retention.ms=x",
        "orders:no.such=1",
    ):
        assert pk("log", "adopt", where, "-y", "-c", bad).code in (1, 2), bad
    assert sorted(str(p) for p in apache_like.rglob("*")) == before
    taken = pk("log", "adopt", where, "-y", "-c", "orders:retention.ms=-1")
    assert taken.code == 0, taken.err
    assert f"`pk up --data '{where}'` serves them" in taken.err
    assert (
        apache_like / "apache-kafka" / "__cluster_metadata-0" / "quorum-state"
    ).read_text() == "{}"
    events = [
        r["value"]
        for r in json_of(
            pk, "log", "dump", f"{where}/pk-metadata/__cluster_metadata-0", "--records"
        )
    ]
    created = next(e for e in events if e["event"] == "TopicCreated" and e["name"] == "orders")
    partitions = [
        e for e in events if e.get("topic_id") == created["topic_id"] and "partition" in e
    ]
    assert [(p["partition"], p["leader"], p["leader_epoch"]) for p in partitions] == [
        (0, 1, 1),
        (1, 1, 1),
    ]
    assert any(e["event"] == "ConfigChanged" and e["value"] == "-1" for e in events)

    async def serve() -> list[str]:
        async with node_at(apache_like) as node:
            partition = node.broker.data.replicas.partition("orders", 0)
            return [
                str(partition.log.state.log_end_offset),
                str(node.broker.image.topics["orders"].topic_id.hex()),
            ]

    end, _ = trio.run(serve)
    assert end == "15"
    assert pk("log", "verify", where).code == 0


def test_adopt_refuses_a_topic_that_is_not_all_there(pk: Run, apache_like: Path) -> None:
    shutil.rmtree(apache_like / "orders-0")
    ran = pk("log", "adopt", str(apache_like), "-y")
    assert (ran.code, "orders has no partition 0" in ran.err) == (1, True), ran.err


def test_adopt_can_be_run_again_after_it_was_interrupted(pk: Run, apache_like: Path) -> None:
    (apache_like / "pk-metadata").mkdir()
    (apache_like / ".pk-adopt").mkdir()
    assert pk("log", "adopt", str(apache_like), "-y").code == 0
    assert (apache_like / "apache-kafka" / "pk-metadata").is_dir()
    assert not (apache_like / ".pk-adopt").exists()


@asynccontextmanager
async def node_at(directory: Path) -> AsyncIterator[Node]:
    async with running_node(RealDisk(), directory=str(directory)) as node:
        yield node


def test_adopt_takes_over_segments_of_the_formats_before_0_11(pk: Run, apache_like: Path) -> None:
    old = apache_like / "orders-1"
    for file in old.glob("0*"):
        file.unlink()
    rows = [(n, T0 + n, b"k%d" % n, b"old %d" % n) for n in range(20)]
    (old / f"{0:020d}.log").write_bytes(build_set(rows, 1, Codec.LZ4))
    (apache_like / ".kafka_cleanshutdown").unlink(missing_ok=True)
    assert pk("log", "adopt", str(apache_like), "-y").code == 0

    async def serve() -> int:
        async with node_at(apache_like) as node:
            return node.broker.data.replicas.partition("orders", 1).log.state.log_end_offset

    assert trio.run(serve) == 20
    reported = pk("log", "cat", str(old), "-o", "start..end", "-f", "%o %k %v\\n")
    assert reported.text == "".join(f"{n} k{n} old {n}\n" for n in range(20))
