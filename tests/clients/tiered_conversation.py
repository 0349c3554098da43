"""A conversation about tiered storage with any broker that supports it: pk over a directory, or
Apache Kafka with its LocalTieredStorage. The text does not depend on times or ports."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from pk.core.errors import error_name
from pk.core.record.batch import iter_headers
from pk.core.record.build import build_batch
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pk.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC: Final = "t"
TOPIC_RESOURCE: Final = 2
BATCHES: Final = 22
VALUE_BYTES: Final = 100_000
BEGAN_MS: Final = 1_700_000_000_000
STEP_MS: Final = 1000
CONFIGS: Final = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "retention.ms": "-1",
    "local.retention.ms": "-1",
    "local.retention.bytes": "1",
}
POSITIONS: Final = {
    "latest": -1,
    "earliest": -2,
    "max timestamp": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "earliest pending upload": -6,
}
LAST_MS: Final = (BATCHES - 1) * STEP_MS + 1
CREATED: Final = {
    "compacted": "cleanup.policy=compact",
    "compacted and deleted": "cleanup.policy=compact,delete",
    "local.retention.ms above": "retention.ms=1000; local.retention.ms=2000",
    "local.retention.bytes above": "retention.bytes=10; local.retention.bytes=20",
    "local.retention.ms for ever": "retention.ms=1000; local.retention.ms=-1",
    "local.retention.ms -3": "local.retention.ms=-3",
    "local.retention.bytes for ever": "retention.bytes=10; local.retention.bytes=-1",
    "copying off, as long": "remote.log.copy.disable=true; local.retention.ms=604800000",
    "copying off, less": "remote.log.copy.disable=true; local.retention.ms=1000",
    "copying off, both less": (
        "remote.log.copy.disable=true; local.retention.ms=1000; local.retention.bytes=1"
    ),
    "to be deleted": "remote.log.delete.on.disable=true",
    "without a policy": "cleanup.policy=",
    "not tiered, copying off": "remote.storage.enable=false; remote.log.copy.disable=true",
}
"""Topics with `remote.storage.enable`, and what else they have."""
ALTERED: Final = {
    "off": "remote.storage.enable=false",
    "compact": "cleanup.policy=compact",
    "shorter than local": "retention.ms=1000; local.retention.ms=2000",
    "both": "remote.log.copy.disable=true; remote.log.delete.on.disable=true",
    "copying off": "remote.log.copy.disable=true",
    "off, to be deleted": "remote.storage.enable=false; remote.log.delete.on.disable=true",
}
PATIENCE_S: Final = 60.0


def _configs(text: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in text.split("; "))
    return {name: value for name, _, value in pairs}


class Peer:
    """A connection to a broker."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._socket.close()

    def ask(self, request: Any, version: int) -> Any:
        """The answer to a request."""
        key = request.API_KEY
        self._socket.sendall(frame_request(request, version, 1, "test"))
        frame = self._read(int.from_bytes(self._read(4), "big"))
        _, position = parse_response_header(frame, key, version)
        return decode_whole(MESSAGES[key].response, frame, version, position)

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the broker closed the connection"
            data += more
        return bytes(data)


def hold(port: int) -> list[str]:
    """The lines of the conversation with the broker at this port."""
    with Peer(port) as peer:
        return list(Conversation(peer).lines())


class Conversation:
    """See the top of this file."""

    def __init__(self, peer: Peer) -> None:
        self._ask = peer.ask
        self.sent: list[bytes] = []
        """The batches, as they stand in the log."""

    def lines(self) -> Iterator[str]:
        yield from self._create()
        self._produce()
        self._until(lambda: self._position(-4)[1] > 0, "local segments are dropped")
        yield from self._list()
        yield from self._fetch()
        yield from self._describe()
        yield from self._delete_records()
        yield from self._alter()

    def _until(self, ready: Callable[[], bool], what: str) -> None:
        """Wait until something holds twice."""
        deadline, held = time.monotonic() + PATIENCE_S, 0
        while held < 4:
            assert time.monotonic() < deadline, f"not in time: {what}"
            held = held + 1 if ready() else 0
            time.sleep(0.5)  # nothing tells a client that a segment was copied

    def _create(self) -> Iterator[str]:
        for about, configs in CREATED.items():
            tiered = {"remote.storage.enable": "true"} | _configs(configs)
            yield f"create {about}: {self._made('x', tiered)}"
        yield f"create: {self._made(TOPIC, CONFIGS)}"

    def _made(self, name: str, configs: dict[str, str]) -> str:
        own = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=own)
        request = CreateTopicsRequest(
            topics=[topic], timeout_ms=30_000, validate_only=name != TOPIC
        )
        [answer] = self._ask(request, 7).topics
        return f"{error_name(answer.error_code)} {answer.error_message or ''}".strip()

    def _produce(self) -> None:
        noise = random.Random(1)
        for n in range(BATCHES):
            records = [
                (BEGAN_MS + n * STEP_MS + i, None, noise.randbytes(VALUE_BYTES), ()) for i in (0, 1)
            ]
            data = bytes(build_batch(records))
            partition = PartitionProduceData(index=0, records=memoryview(data))
            request = ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])],
            )

            def produced(request: ProduceRequest = request) -> int:
                [answer] = self._ask(request, 9).responses[0].partition_responses
                return answer.error_code

            deadline = time.monotonic() + PATIENCE_S
            while produced():  # until the broker knows that it leads
                assert time.monotonic() < deadline
                time.sleep(0.1)
            self.sent.append((2 * n).to_bytes(8, "big") + data[8:12] + bytes(4) + data[16:])

    def _position(self, timestamp: int) -> tuple[str, int, int, int]:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name=TOPIC, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic], timeout_ms=30_000)
        [found] = self._ask(request, 11).topics[0].partitions
        return error_name(found.error_code), found.offset, found.timestamp, found.leader_epoch

    def _list(self) -> Iterator[str]:
        for name, position in POSITIONS.items():
            yield f"offset of {name}: {self._position(position)}"
        for n, more in (
            (0, -1),
            (0, 0),
            (0, 1),
            (0, 2),
            (3, 0),
            (9, 1),
            (BATCHES - 1, 1),
            (BATCHES, 0),
        ):
            found = self._position(BEGAN_MS + n * STEP_MS + more)
            yield f"offset of time {n * STEP_MS + more}: {found}"  # fmt: skip

    def _fetched(self, offset: int, bytes_max: int) -> str:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
        request = FetchRequest(
            max_wait_ms=5000, min_bytes=1, max_bytes=1 << 23, session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
        )  # fmt: skip
        deadline = time.monotonic() + PATIENCE_S
        while True:  # what the store does not bring in time is asked for again
            [found] = self._ask(request, 12).responses[0].partitions
            data = bytes(found.records or b"")
            if data or found.error_code or offset >= 2 * BATCHES:
                break
            assert time.monotonic() < deadline
        batches = list(iter_headers(data))
        whole = b"".join(self.sent[offset // 2 : offset // 2 + len(batches)])
        same = data[: len(whole)] == whole
        return (
            f"{error_name(found.error_code)} high watermark {found.high_watermark}, start"
            f" {found.log_start_offset}, from {batches[0][1].base_offset if batches else '–'}"
            + ("" if same else ", other bytes")
        )

    def _fetch(self) -> Iterator[str]:
        local = self._position(-4)[1]
        offsets = {"0": 0, "1": 1, "11": 11, "before the local start": local - 1}
        offsets |= {"the local start": local, "the end": 2 * BATCHES, "beyond": 2 * BATCHES + 1}
        for name, offset in offsets.items():
            for bytes_max in (1, 1 << 20):
                yield f"fetch {name}, {bytes_max} bytes: {self._fetched(offset, bytes_max)}"

    def _describe(self) -> Iterator[str]:
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        [found] = self._ask(request, 4).results
        for config in sorted(found.configs, key=lambda c: c.name):
            if config.name.startswith(("remote.", "local.")):
                synonyms = [(s.name, s.value, s.source) for s in config.synonyms]
                yield (
                    f"{config.name}: {config.value}, source {config.config_source}, type"
                    f" {config.config_type}, sensitive {config.is_sensitive}, {synonyms}"
                )

    def _delete_records(self) -> Iterator[str]:
        partition = DeleteRecordsPartition(partition_index=0, offset=3)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=30_000)
        [found] = self._ask(request, 2).topics[0].partitions
        yield f"delete to 3: {error_name(found.error_code)} {found.low_watermark}"
        for name in ("earliest", "earliest local", "latest tiered"):
            yield f"then {name}: {self._position(POSITIONS[name])}"
        for offset in (2, 3):
            yield f"then fetch {offset}: {self._fetched(offset, 1 << 20)}"

    def _alter(self) -> Iterator[str]:
        for about, configs in ALTERED.items():
            own = [
                AlterableConfig(name=name, config_operation=0, value=value)
                for name, value in _configs(configs).items()
            ]
            resource = AlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=own
            )
            [found] = self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
            yield f"alter, {about}: {error_name(found.error_code)} {found.error_message or ''}"
        self._until(
            lambda: self._position(-2)[1] == self._position(-4)[1], "the remote log is deleted"
        )
        for name, position in POSITIONS.items():
            yield f"when it is off, {name}: {self._position(position)}"


if __name__ == "__main__":
    import sys

    print("\n".join(hold(int(sys.argv[1]))))
