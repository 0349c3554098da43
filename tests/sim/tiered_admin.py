"""An administrator of tiered topics: records are deleted, retention and copying change, topics come
and go, and in some seeds remote storage is turned off."""

from __future__ import annotations

from typing import Any, Final

import trio
from sim.clients import AGAIN, SimClient, produce_request
from sim.tiered import PARTITIONS, TOPIC, Tiers

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, error_name
from pk.core.record.build import build_batch
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
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TIMEOUT_MS: Final = 8_000
SET, DELETE = 0, 1
OF_RETENTION: Final = (
    {"retention.bytes": "-1"},
    {"retention.bytes": "3000"},
    {"retention.bytes": "9000"},
    {"retention.ms": "4000"},
    {"retention.ms": "12000"},
    {"local.retention.ms": "0"},
    {"local.retention.ms": "2000"},
    {"local.retention.ms": "-2"},
    {"local.retention.bytes": "1000"},
    {"local.retention.bytes": "-2"},
)
COPY_OFF: Final = {
    "remote.log.copy.disable": "true",
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
}
COPY_ON: Final = {"remote.log.copy.disable": "false", "local.retention.ms": "0"}
OFF: Final = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
ON: Final = {"remote.storage.enable": "true", "remote.log.delete.on.disable": "false"}


class TieredAdmin(SimClient):
    """Does one thing after another."""

    def __init__(self, *args: Any, tiers: Tiers, rate_s: float, turns_off: bool) -> None:
        """`turns_off`: whether remote storage is turned off at times."""
        super().__init__(*args)
        self.tiers = tiers
        self.rate_s = rate_s
        self.turns_off = turns_off
        self._made = 0
        self._scratch: list[str] = []

    async def run(self) -> None:
        """Do things for ever, while not idle."""
        await self.places(TOPIC, PARTITIONS)
        doings = [
            *(self._delete_records, self._delete_records, self._configure, self._configure),
            *(self._copy_or_not, self._create, self._delete),
        ]
        while True:
            await trio.sleep(self.rate_s * (0.5 + self.random.random()))
            if self.idle:
                continue
            try:
                if self.turns_off and self.random.random() < 0.2:
                    await self._turn_off_or_on()
                else:
                    await self.random.choice(doings)()
            except PeerLost as e:
                self.note(f"gives up: {e}")

    async def _delete_records(self) -> None:
        await self.refresh([TOPIC])
        place = self.place(TOPIC, self.random.randrange(PARTITIONS))
        end = self.history.partition(place.key).end
        start = self.history.starts.get(place.key, 0)
        if end <= start:
            return
        offset = self.random.randint(start, end)
        self.tiers.may_start(place.key, offset)
        partition = DeleteRecordsPartition(partition_index=place.key[1], offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=TIMEOUT_MS
        )
        answer = await self.ask(place.leader, request, TIMEOUT_MS + 2_000)
        code = answer.topics[0].partitions[0].error_code
        self.note(f"deletes records of {TOPIC}-{place.key[1]} before {offset}: {error_name(code)}")

    async def _configure(self) -> None:
        changed = self.random.choice(OF_RETENTION)
        self.tiers.may_expire(changed)
        await self._alter(changed)

    async def _copy_or_not(self) -> None:
        await self._alter(self.random.choice((COPY_OFF, COPY_ON)))

    async def _turn_off_or_on(self) -> None:
        """It is often turned on again while the segments are still being deleted."""
        if not self.tiers.is_off:
            await self._alter(OFF)
        elif self.tiers.is_deleted or self.random.random() < 0.5:
            await self._alter(ON)

    async def _alter(self, changed: dict[str, str]) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name=TOPIC,
                    configs=[
                        AlterableConfig(name=name, config_operation=SET, value=value)
                        for name, value in changed.items()
                    ],
                )
            ]
        )
        answer = await self.ask_any(request, TIMEOUT_MS + 2_000)
        self.note(f"sets {changed}: {error_name(answer.responses[0].error_code)}")

    # --- topics that come and go ---

    async def _create(self) -> None:
        """Create a topic, and write to it."""
        self._made += 1
        name = f"passing{self._made}"
        configs = {"remote.storage.enable": "true", "segment.ms": "300", "local.retention.ms": "0"}
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=3,
            configs=[CreatableTopicConfig(name=key, value=configs[key]) for key in configs],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        answer = await self.ask_any(request, TIMEOUT_MS + 2_000)
        code = answer.topics[0].error_code
        self.note(f"creates {name}: {error_name(code)}")
        self._scratch.append(name)
        if code:
            return
        for number in range(self.random.randint(1, 5)):
            await trio.sleep(0.4)
            await self._write(name, number)

    async def _write(self, name: str, number: int) -> None:
        await self.refresh([name])
        place = self._places.get((name, 0))
        if place is None:
            return
        now_ms = 1_700_000_000_000 + int(trio.current_time() * 1000)
        data = bytes(build_batch([(now_ms, None, f"{name} {number}".encode(), ())]))
        answer = await self.ask(place.leader, produce_request(place, data, 1, TIMEOUT_MS))
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.NONE or code in AGAIN, error_name(code)

    async def _delete(self) -> None:
        if not self._scratch:
            return
        name = self._scratch.pop(self.random.randrange(len(self._scratch)))
        answer = await self.ask_any(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS),
            TIMEOUT_MS + 2_000,
        )
        self.note(f"deletes {name}: {error_name(answer.responses[0].error_code)}")
