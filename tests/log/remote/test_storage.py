"""Every store behaves alike: in memory, in a local directory, and S3."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from log.remote.stores import s3_server, s3_storage

from pk.core.log.files import Data
from pk.core.log.remote.memory_storage import MemoryStorage
from pk.core.log.remote.metadata import RemotePartition
from pk.core.log.remote.object_storage import PART_BYTES, ObjectStorage
from pk.core.log.remote.storage import (
    RemoteObjectMissing,
    RemoteStorage,
    RemoteStorageError,
    SegmentName,
    partition_folder,
)
from pk.core.record.batch import CorruptBatch


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(params=["memory", "local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteStorage:
    match request.param:
        case "memory":
            return MemoryStorage()
        case "local":
            return ObjectStorage.open(f"file://{tmp_path}/store", {})
        case _:
            return s3_storage(request.getfixturevalue("s3"), request.node.name.replace("[", "-"))


def pieces(*content: Data) -> Callable[[], Iterator[Data]]:
    return lambda: iter(content)


def names(storage: RemoteStorage, prefix: str) -> list[str]:
    return sorted(found.name for found in storage.list(prefix))


def test_ranges(storage: RemoteStorage) -> None:
    storage.put("a/b/one", pieces(b"hello ", memoryview(b"world")))
    assert storage.get("a/b/one") == b"hello world"
    assert storage.get("a/b/one", 6) == b"world"
    assert storage.get("a/b/one", 6, 3) == b"wor"
    assert storage.get("a/b/one", 6, 100) == b"world"
    assert storage.get("a/b/one", 6, 0) == b""


def test_an_object_may_be_put_again_and_deleted_twice(storage: RemoteStorage) -> None:
    storage.put("a/one", pieces(b"old"))
    storage.put("a/one", pieces(b"new"))
    assert storage.get("a/one") == b"new"
    storage.delete("a/one")
    storage.delete("a/one")
    with pytest.raises(RemoteObjectMissing):
        storage.get("a/one")
    with pytest.raises(RemoteObjectMissing):
        storage.get("a/one", 1, 1)


def test_lists_a_folder(storage: RemoteStorage) -> None:
    for name in ("a/1/x", "a/1/y", "a/10/z", "b/1/x"):
        storage.put(name, pieces(b"123"))
    assert names(storage, "a/1") == ["a/1/x", "a/1/y"]
    assert names(storage, "a") == ["a/1/x", "a/1/y", "a/10/z"]
    assert len(names(storage, "")) == 4
    assert names(storage, "c") == []
    assert {found.size for found in storage.list("a")} == {3}


def test_an_object_of_several_parts(storage: RemoteStorage) -> None:
    part = os.urandom(1 << 20)
    count = 2 * PART_BYTES // len(part) + 3
    storage.put("big", lambda: (part for _ in range(count)))
    assert next(iter(storage.list(""))).size == count * len(part)
    assert storage.get("big", PART_BYTES - 5, 10) == part[-5:] + part[:5]


@pytest.mark.parametrize("error", [OSError, CorruptBatch])
def test_an_object_whose_source_fails_does_not_appear(
    storage: RemoteStorage, error: type[Exception]
) -> None:
    def failing() -> Iterator[Data]:
        yield b"x" * (PART_BYTES + 1)
        raise error("the disk fails")

    with pytest.raises(error, match="the disk fails"):
        storage.put("half", failing)
    assert names(storage, "") == []


def test_a_store_that_is_away_says_so() -> None:
    storage = ObjectStorage.open(
        "s3://segments",
        {
            "endpoint": "http://127.0.0.1:9",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "secret-that-is-not-shown",
        },
    )
    with pytest.raises(RemoteStorageError) as raised:
        storage.get("one")
    assert "one" in str(raised.value)
    assert "secret-that" not in str(raised.value)
    assert "Generic" not in str(raised.value)


def test_an_unknown_kind_of_store_is_told_the_known_ones() -> None:
    with pytest.raises(RemoteStorageError, match=r"^foo://x: not a URL .*s3://"):
        ObjectStorage.open("foo://x", {})


@pytest.mark.parametrize("url", ["nonsense://x", "s3:", ""])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(RemoteStorageError):
        ObjectStorage.open(url, {})


def test_names_hold_everything() -> None:
    name = SegmentName(
        "cluster-1", RemotePartition("a-b.c_d-7", b"\xfb" * 16, 12), 345, b"\xff" * 16
    )
    assert str(name) == (
        "cluster-1/a-b.c_d-7--_v7-_v7-_v7-_v7-_v7-w/12/00000000000000000345-"
        "_____________________w.segment"
    )
    assert SegmentName.parse(str(name)) == name
    assert str(name).startswith(partition_folder("cluster-1", name.partition) + "/")


@pytest.mark.parametrize("name", ["x", "a/b/c/d", "c/t-x/0/1-2.segment"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        SegmentName.parse(name)
