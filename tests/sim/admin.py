"""An administrator who never rests: topics come and go, replicas move, leaders are elected, configs
change."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import trio
from sim.clients import SimClient

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.meta.events import GROUP
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.pk_unclean_recovery import PkUncleanRecoveryRequest
from pk.core.wire.messages.pk_unclean_recovery import TopicPartitions as Partitions

TIMEOUT_MS = 8_000


class Admin(SimClient):
    """Makes the run's topics, then does one thing after another."""

    def __init__(self, *args: Any, brokers: list[int], rate_s: float) -> None:
        super().__init__(*args)
        self.brokers = brokers
        self.rate_s = rate_s
        self.topics: dict[str, tuple[int, int]] = {}
        """Those that stay: (partitions, replication factor)."""
        self._made = 0
        self._scratch: list[str] = []

    async def create(self, name: str, partitions: int, factor: int, **configs: str) -> None:
        """Create a topic, however often it takes; in `configs` a dot is two underscores."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=factor,
                    configs=[
                        CreatableTopicConfig(name=key.replace("__", "."), value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=TIMEOUT_MS,
        )
        while True:
            try:
                answer = await self.ask_any(request, TIMEOUT_MS + 2_000)
                code = answer.topics[0].error_code
            except PeerLost:
                code = ErrorCode.NETWORK_EXCEPTION
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            self.note(f"{name} is not created: {error_name(code)}")
            await self.pause()
        self.topics[name] = (partitions, factor)

    async def configure_group(self, group: str, configs: dict[str, str]) -> None:
        """Set configs of a group, however often it takes."""
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=GROUP,
                    resource_name=group,
                    configs=[
                        AlterableConfig(name=name, config_operation=0, value=value)
                        for name, value in configs.items()
                    ],
                )
            ]
        )
        while True:
            try:
                answer = await self.ask_any(request, TIMEOUT_MS + 2_000)
                code = answer.responses[0].error_code
            except PeerLost:
                code = ErrorCode.NETWORK_EXCEPTION
            if code == ErrorCode.NONE:
                return
            self.note(f"{group} is not configured: {error_name(code)}")
            await self.pause()

    async def decide_between_logs(self, topics: Container[str]) -> None:
        """Say whose log counts in the partitions of these topics that have a follower which stopped
        and waits for an operator. Nothing is promised for these topics any more."""
        try:
            answer = await self.ask_any(PkUncleanRecoveryRequest(), TIMEOUT_MS)
            for found in answer.partitions:
                stopped = [one.broker_id for one in found.replicas if one.stopped]
                if found.topic not in topics or not stopped:
                    continue
                chosen = self.random.choice([found.leader_id, *stopped])
                request = PkUncleanRecoveryRequest(
                    topics=[Partitions(topic=found.topic, partitions=[found.partition])],
                    leader_id=chosen,
                )
                await self.ask_any(request, TIMEOUT_MS)
                self.note(f"has the log of {chosen} count in {found.topic}-{found.partition}")
        except (PeerLost, KafkaError) as e:
            self.note(f"decides nothing: {e}")

    async def run(self) -> None:
        """Do things for ever, while not idle."""
        # Fmt: skip.
        doings = [
            self._create,
            self._delete,
            self._reassign,
            self._reassign,
            self._elect,
            self._configure,
        ]
        while True:
            await trio.sleep(self.rate_s * (0.5 + self.random.random()))
            if self.idle:
                continue
            try:
                await self.random.choice(doings)()
            except (PeerLost, KafkaError) as e:
                self.note(f"gives up: {e}")

    async def _create(self) -> None:
        self._made += 1
        name = f"scratch{self._made}"
        factor = self.random.randint(1, min(3, len(self.brokers)))
        answer = await self.ask_any(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=self.random.randint(1, 3),
                        replication_factor=factor,
                    )
                ],
                timeout_ms=TIMEOUT_MS,
            ),
            TIMEOUT_MS + 2_000,
        )
        self.note(f"creates {name}: {error_name(answer.topics[0].error_code)}")
        self._scratch.append(name)

    async def _delete(self) -> None:
        if not self._scratch:
            return
        name = self._scratch.pop(self.random.randrange(len(self._scratch)))
        answer = await self.ask_any(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS),
            TIMEOUT_MS + 2_000,
        )
        self.note(f"deletes {name}: {error_name(answer.responses[0].error_code)}")

    async def _reassign(self) -> None:
        random = self.random
        topic = random.choice(list(self.topics))
        partitions, factor = self.topics[topic]
        partition = random.randrange(partitions)
        replicas: list[int] | None = random.sample(self.brokers, factor)
        if random.random() < 0.2:
            replicas = None
        answer = await self.ask_any(
            AlterPartitionReassignmentsRequest(
                timeout_ms=TIMEOUT_MS,
                topics=[
                    ReassignableTopic(
                        name=topic,
                        partitions=[
                            ReassignablePartition(partition_index=partition, replicas=replicas)
                        ],
                    )
                ],
            ),
            TIMEOUT_MS + 2_000,
        )
        code = answer.error_code
        for responded in answer.responses:
            code = code or responded.partitions[0].error_code
        self.note(f"reassigns {topic}-{partition} to {replicas}: {error_name(code)}")

    async def _elect(self) -> None:
        topic = self.random.choice(list(self.topics))
        answer = await self.ask_any(
            ElectLeadersRequest(
                election_type=0,
                topic_partitions=[
                    TopicPartitions(topic=topic, partitions=list(range(self.topics[topic][0])))
                ],
                timeout_ms=TIMEOUT_MS,
            ),
            TIMEOUT_MS + 2_000,
        )
        self.note(f"elects preferred leaders of {topic}: {error_name(answer.error_code)}")

    async def _configure(self) -> None:
        topic = self.random.choice(list(self.topics))
        name, value = self.random.choice(
            (("segment.bytes", "1048576"), ("max.message.bytes", "2000000"), ("retention.ms", "-1"))
        )
        answer = await self.ask_any(
            IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=2,
                        resource_name=topic,
                        configs=[AlterableConfig(name=name, config_operation=0, value=value)],
                    )
                ]
            ),
            TIMEOUT_MS + 2_000,
        )
        self.note(f"sets {name} of {topic}: {error_name(answer.responses[0].error_code)}")
