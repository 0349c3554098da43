"""A group machine with topics, and members of streams groups that behave as clients do."""

from __future__ import annotations

from typing import Any

from group.consumer.world import World
from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.records import Record
from pk.core.group.settings import Client, GroupSettings, StreamsGroupSettings
from pk.core.group.streams import records
from pk.core.group.streams.group import StreamsGroup
from pk.core.group.streams.internal_topics import CreateInternalTopics
from pk.core.group.streams.member import MemberState
from pk.core.machine import Decision
from pk.core.wire.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

AT_ONCE = GroupSettings(
    streams=StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
)


def stateless(*topics: str) -> Topology:
    """One subtopology that reads these topics."""
    return Topology(
        subtopologies=[Subtopology(subtopology_id="0", source_topics=list(topics or ("t",)))]
    )


def stateful(changelog: str = "changes") -> Topology:
    """One subtopology with state."""
    topology = stateless()
    topology.subtopologies[0].state_changelog_topics = [TopicInfo(name=changelog)]
    return topology


class StreamsWorld(World):
    """One machine, its log, its clock, its topics, and what the broker is asked to create."""

    def __init__(self, settings: GroupSettings = AT_ONCE, topics: dict[str, int] | None = None):
        self.to_create: list[CreateInternalTopics] = []
        super().__init__(settings, topics or {"t": 4})

    def take(self, decision: Decision[Record, Any]) -> Any:
        wishes = [e for e in decision.effects if isinstance(e, CreateInternalTopics)]
        decision.effects = [e for e in decision.effects if e not in wishes]
        if self.refuse is None or not decision.records:
            self.to_create += wishes
        return super().take(decision)

    def say(self, **fields: Any) -> StreamsGroupHeartbeatResponse | ErrorCode:
        """StreamsGroupHeartbeat: the answer, or the error."""
        request = StreamsGroupHeartbeatRequest(group_id=fields.pop("group", "g"), **fields)
        try:
            return self.take(
                self.machine.streams_heartbeat(request, Client("c", "/1.2.3.4"), self.now_ms)
            )
        except KafkaError as e:
            return ErrorCode(e.code)

    def lose_state(self, member_id: str) -> None:
        """A record says that a member is in a state that this version does not know."""
        lost = replace(self.streams.members[member_id], state=MemberState.UNKNOWN)
        self.take(Decision([records.current_assignment("g", lost)]))

    def thread(self, member_id: str, topology: Topology | None = None, **fields: Any) -> Thread:
        """A member that joins."""
        thread = Thread(self, member_id, topology or stateless(), **fields)
        thread.join()
        return thread

    def settle_threads(self, *threads: Thread, rounds: int = 6) -> None:
        """Let the members beat until nothing changes."""
        for _ in range(rounds):
            for thread in threads:
                thread.beat()
            self.compute()

    @property
    def streams(self) -> StreamsGroup:
        """Group `g`."""
        group = self.machine.groups.get_of(StreamsGroup, "g")
        assert group is not None
        return group


class Thread:
    """One member: it does as the coordinator says, at once."""

    def __init__(
        self,
        world: StreamsWorld,
        member_id: str,
        topology: Topology,
        process: str | None = None,
        port: int | None = None,
    ) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}
        self.endpoints: dict[int, list[int]] = {}
        """Port → the partitions that are active there."""
        self.endpoint_epoch = 0
        self.statuses: list[int] = []
        self._world = world
        self._topology = topology
        self._process = process or member_id
        self._endpoint = None if port is None else Endpoint(host="h", port=port)

    def join(self) -> None:
        self._heard(
            self._world.say(
                member_id=self.member_id,
                member_epoch=0,
                topology=self._topology,
                rebalance_timeout_ms=30_000,
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                process_id=self._process,
                user_endpoint=self._endpoint,
                client_tags=[],
            )
        )

    def beat(self, *, silent: bool = False) -> StreamsGroupHeartbeatResponse | ErrorCode:
        """Report the held tasks. With `silent` the tasks are left out, as by a member that has not
        given up anything yet."""
        tasks: dict[str, Any] = {}
        if not silent:
            tasks = {
                "active_tasks": _ids(self.active),
                "standby_tasks": _ids(self.standby),
                "warmup_tasks": [],
            }
        answer = self._world.say(
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            **tasks,
        )
        self._heard(answer)
        return answer

    def leave(self) -> None:
        self._world.say(member_id=self.member_id, member_epoch=-1)

    def _heard(self, answer: StreamsGroupHeartbeatResponse | ErrorCode) -> None:
        if isinstance(answer, ErrorCode):
            return
        self.epoch = answer.member_epoch
        self.statuses = [status.status_code for status in answer.status or ()]
        if answer.active_tasks is not None:
            self.active = {t.subtopology_id: t.partitions for t in answer.active_tasks}
            self.standby = {t.subtopology_id: t.partitions for t in answer.standby_tasks or ()}
        if answer.partitions_by_user_endpoint is not None:
            self.endpoint_epoch = answer.endpoint_information_epoch
            self.endpoints = {
                each.user_endpoint.port: [
                    p for topic in each.active_partitions for p in topic.partitions
                ]
                for each in answer.partitions_by_user_endpoint
            }


def _ids(tasks: dict[str, list[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=s, partitions=partitions) for s, partitions in tasks.items()]
