"""A member of a streams group (KIP-1071) that sends its heartbeats itself, for tests of tools."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio
from clients.fixtures import Kafka
from group.peers import Theirs

from pk.core.wire.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

BUSY = (14, 15, 16)
"""Errors of a coordinator that is on its way."""


class Thread:
    """A member of a streams group that reads a topic and counts: two subtopologies, one with
    state."""

    def __init__(self, kafka: Kafka, group: str, topic: str, member_id: str) -> None:
        self._kafka = kafka
        self._group = group
        self._member_id = member_id
        self._epoch = 0
        self._tasks: dict[str, list[TaskIds]] = {"active_tasks": [], "standby_tasks": []}
        repartition, changelog = f"{group}-words-repartition", f"{group}-words-changelog"
        self._topology = Topology(
            epoch=7,
            subtopologies=[
                Subtopology(
                    subtopology_id="0",
                    source_topics=[topic],
                    repartition_sink_topics=[repartition],
                ),
                Subtopology(
                    subtopology_id="1",
                    repartition_source_topics=[TopicInfo(name=repartition, replication_factor=1)],
                    state_changelog_topics=[TopicInfo(name=changelog, replication_factor=1)],
                ),
            ],
        )

    def until_it_has_tasks(self) -> None:
        """Join, and send heartbeats until all is assigned."""
        trio.run(self._until_it_has_tasks)

    async def _until_it_has_tasks(self) -> None:
        peer = Theirs(self._kafka.host, self._kafka.port)
        try:
            with trio.fail_after(60):
                await peer.until_it_coordinates(self._group)
                while not self._tasks["active_tasks"]:
                    await self._say(peer)
                await self._say(peer)
        finally:
            await peer.close()

    @contextmanager
    def staying(self) -> Iterator[None]:
        """It keeps sending heartbeats, however long the block takes."""
        over = threading.Event()

        async def stay() -> None:
            peer = Theirs(self._kafka.host, self._kafka.port)
            while not over.is_set():
                await self._say(peer)
                await trio.to_thread.run_sync(over.wait, 1.0)
            await peer.close()

        beating = threading.Thread(target=trio.run, args=(stay,))
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()

    def leave(self) -> None:
        """Leave the group."""

        async def leave() -> None:
            peer = Theirs(self._kafka.host, self._kafka.port)
            self._epoch = -1
            await self._say(peer)
            await peer.close()

        trio.run(leave)

    async def _say(self, peer: Theirs) -> None:
        joins = self._epoch == 0
        fields: dict[str, Any] = {"warmup_tasks": [], **self._tasks}
        if joins:
            fields |= {"topology": self._topology, "rebalance_timeout_ms": 60_000}
            fields |= {"process_id": "p1", "user_endpoint": Endpoint(host="h", port=8080)}
            fields |= {"client_tags": []}
        if self._epoch < 0:
            fields = {}
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member_id, member_epoch=self._epoch, **fields
        )
        answer = await peer.ask(request, 0, "application")
        if answer.error_code in BUSY:
            await trio.sleep(0.05)
            return
        assert answer.error_code == 0, answer
        self._epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self._tasks = {
                "active_tasks": answer.active_tasks,
                "standby_tasks": answer.standby_tasks,
            }
