"""Conversations with the coordinators of streams groups, for tests/api/test_streams_groups.py."""

from __future__ import annotations

import itertools
from typing import Any

import trio
from group import conversation
from group.conversation import Conversation, Script

from pk.core.group.streams.partition_counts import StatusCode
from pk.core.wire.messages import streams_group_heartbeat as wire
from pk.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest
from pk.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.list_groups import ListGroupsRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pk.core.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from pk.core.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

Tasks = dict[str, list[int]]
TOPIC, GROUP = 2, 32
_CHANGES = itertools.count()


def ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=s, partitions=partitions) for s, partitions in tasks.items()]


def tasks_of(answer: StreamsGroupHeartbeatResponse) -> tuple[Tasks, Tasks]:
    """The active and standby tasks in an answer."""
    active, standby = (
        {one.subtopology_id: one.partitions for one in kind or ()}
        for kind in (answer.active_tasks, answer.standby_tasks)
    )
    return active, standby


async def create_topic(c: Conversation, name: str, partitions: int) -> None:
    topic_id = await conversation.create_topic(c, name, partitions)
    c.call(topic_id, f"id-of-{name.removesuffix(c.mark)}")


async def configure(c: Conversation, **configs: str) -> None:
    """Set keys of the group, _ for the dots."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=GROUP,
                resource_name=c.group,
                configs=[
                    AlterableConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ]
    )
    answer = await c.peer.ask(request, 1)
    assert answer.responses[0].error_code == 0, answer
    # A topic made after it is known: so is this, to Apache's coordinator too.
    await conversation.create_topic(c, f"after-{next(_CHANGES)}{c.mark}", 1)


async def until_deleted(c: Conversation, topic: str) -> None:
    """Delete a topic, and wait until the broker no longer has it."""
    await c.peer.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    while True:
        if (await c.peer.ask(asked, 8)).topics[0].error_code != 0:
            break
        await trio.sleep(0.05)


class Members:
    """The members of a streams group, who say what the script has them say, and remember their
    tasks."""

    def __init__(self, c: Conversation) -> None:
        self.c = c
        self.epochs: dict[str, int] = {}
        self.active: dict[str, Tasks] = {}
        self.standby: dict[str, Tasks] = {}

    def request(self, name: str, epoch: int | None, **fields: Any) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.c.group),
            member_id=fields.pop("member_id", name),
            member_epoch=self.epochs.get(name, 0) if epoch is None else epoch,
            **fields,
        )

    async def ask(self, name: str, epoch: int | None, **fields: Any) -> Any:
        """A heartbeat that is not noted."""
        answer = await self.c.peer.ask(self.request(name, epoch, **fields), 0, name)
        if answer.error_code == 0:
            self.epochs[name] = answer.member_epoch
            if answer.active_tasks is not None:
                self.active[name], self.standby[name] = tasks_of(answer)
        return answer

    def note(self, name: str, answer: StreamsGroupHeartbeatResponse) -> None:
        for kind in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks):
            if kind is not None:
                kind.sort(key=lambda one: one.subtopology_id)
        if answer.partitions_by_user_endpoint is not None:
            answer.partitions_by_user_endpoint.sort(key=lambda each: each.user_endpoint.port)
        for endpoint in answer.partitions_by_user_endpoint or ():
            for topics in (endpoint.active_partitions, endpoint.standby_partitions):
                topics.sort(key=lambda one: one.topic)
        for status in answer.status or ():
            first, colon, topics = status.status_detail.partition("missing: ")
            if colon:
                status.status_detail = first + colon + ", ".join(sorted(topics.split(", ")))
        self.c.note(StreamsGroupHeartbeatRequest(), 0, name, answer)

    async def say(self, name: str, epoch: int | None = None, **fields: Any) -> Any:
        """A heartbeat."""
        answer = await self.ask(name, epoch, **fields)
        self.note(name, answer)
        return answer

    async def own(self, name: str, **fields: Any) -> Any:
        """A heartbeat that names the tasks that the member has."""
        return await self.say(
            name,
            active_tasks=ids(self.active.get(name, {})),
            standby_tasks=ids(self.standby.get(name, {})),
            warmup_tasks=[],
            **fields,
        )

    async def join(self, name: str, topology: Topology, **fields: Any) -> Any:
        return await self.say(name, 0, **self.joining(topology, **fields))

    @staticmethod
    def joining(topology: Topology, **fields: Any) -> dict[str, Any]:
        """The fields of a heartbeat that joins."""
        return {
            "topology": topology,
            "rebalance_timeout_ms": 60_000,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": "process",
            "client_tags": [],
            **fields,
        }

    async def settle(self, *names: str) -> None:
        """Heartbeats until everybody has what they are to have."""
        for _ in range(3):
            for name in names:
                await self.own(name)

    async def until(self, name: str, *, missing: bool = False) -> Any:
        """Heartbeats until no topic is missing, or until one is; the last one is noted."""
        codes = {StatusCode.MISSING_INTERNAL_TOPICS, StatusCode.MISSING_SOURCE_TOPICS}
        while True:
            answer = await self.ask(name, None)
            assert answer.error_code == 0, answer
            if missing is any(status.status_code in codes for status in answer.status or ()):
                break
            await trio.sleep(0.05)
        self.note(name, answer)
        return answer

    async def describe(self, *groups: str) -> None:
        request = StreamsGroupDescribeRequest(
            group_ids=list(groups) or [self.c.group], include_authorized_operations=True
        )
        answer = await self.c.peer.ask(request, 0, "watch")
        answer.groups.sort(key=lambda group: group.group_id)
        for group in answer.groups:
            group.members.sort(key=lambda member: member.member_id)
            for subtopology in (group.topology.subtopologies or []) if group.topology else []:
                for topic in (
                    *subtopology.state_changelog_topics,
                    *subtopology.repartition_source_topics,
                ):
                    topic.topic_configs.sort(key=lambda config: config.key)
        self.c.note(request, 0, "watch", answer)

    async def listed(self, **fields: Any) -> None:
        request = ListGroupsRequest(**fields)
        answer = await self.c.peer.ask(request, 5, "watch")
        answer.groups = [group for group in answer.groups if group.group_id == self.c.group]
        self.c.note(request, 5, "watch", answer)


def five() -> TopicInfo:
    """A repartition topic with as many partitions as its application says."""
    return TopicInfo(name="fixed", partitions=5)


def any_count() -> TopicInfo:
    """A repartition topic whose partitions are decided here."""
    return TopicInfo(name="flexible")


def reading(*topics: str, subtopology_id: str = "0", **fields: Any) -> Subtopology:
    return Subtopology(subtopology_id=subtopology_id, source_topics=list(topics), **fields)


def one(*topics: str, epoch: int = 0, **fields: Any) -> Topology:
    """A topology of one subtopology."""
    return Topology(epoch=epoch, subtopologies=[reading(*topics, **fields)])


async def members(c: Conversation) -> None:
    """Members come, share out tasks, commit and go."""
    await create_topic(c, c.topic, 3)
    m, topology = Members(c), one(c.topic)
    await m.join(
        "a",
        topology,
        process_id="p1",
        rack_id="r",
        client_tags=[KeyValue(key="zone", value="x"), KeyValue(key="cluster", value="y")],
    )
    await m.describe()
    await m.own("a")
    await m.say("a")
    await m.join("b", topology, process_id="p2")
    await m.say("b")
    await m.describe()
    await m.own("a")
    await m.listed()
    await m.own("a")
    await m.say("b")
    await m.own("b")
    await m.own("a")
    await m.describe()
    await m.listed(types_filter=["streams"])
    await m.listed(types_filter=["consumer"], states_filter=["Stable"])
    await m.listed(states_filter=["stable"])
    for epoch in (m.epochs["a"] - 1, m.epochs["a"] + 5, 1):
        await m.say("a", epoch)
        await m.say("a", epoch, active_tasks=ids(m.active["a"]), standby_tasks=[], warmup_tasks=[])
    for member, epoch in (
        ("a", m.epochs["a"]),
        ("a", 1),
        ("a", 99),
        ("b", m.epochs["b"]),
        ("x", 1),
        ("", -1),
    ):
        for version in (8, 9):
            await c.ask(c.commit(member, epoch, partitions=3), version, "a")
    await c.ask(c.commit("a", 2, topic=f"other{c.mark}"), 9, "a")
    await c.ask(c.fetch(9), 9)
    await c.ask(c.delete(c.topic, "missing"), 0)
    await m.join("c", topology, process_id="p1")
    await m.own("b")
    await m.own("a")
    await m.own("c")
    await m.own("a")
    await m.own("b")
    await m.own("c")
    await m.describe()
    await m.join("c", topology, process_id="p3")
    await m.say("b", -1)
    await m.say("b", -1)
    await m.say("b")
    await m.own("a")
    await m.own("c")
    await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    await m.say("a", -1)
    await m.say("c", -1)
    await m.describe()
    await m.listed(states_filter=["Empty"])
    await c.ask(c.commit(partitions=1), 9)
    await c.log(as_hashed=True)
    await m.join("a", topology, process_id="p1")
    await m.say("a", -1)
    await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    await m.describe()


async def topologies(c: Conversation) -> None:
    """Topics come and go; the broker makes internal ones."""
    left, right = f"left{c.mark}", f"right{c.mark}"
    repartition, changelog = f"{c.group}-by-repartition", f"{c.group}-by-changelog"
    topology = Topology(
        epoch=3,
        subtopologies=[
            reading(left, right, repartition_sink_topics=[repartition]),
            reading(
                subtopology_id="1",
                repartition_source_topics=[
                    TopicInfo(
                        name=repartition, topic_configs=[KeyValue(key="retention.ms", value="-1")]
                    )
                ],
                state_changelog_topics=[
                    TopicInfo(
                        name=changelog,
                        replication_factor=1,
                        topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
                    )
                ],
            ),
        ],
    )
    m = Members(c)
    await m.join("a", topology, process_id="p1")
    await m.describe()
    await m.listed()
    await m.say("a")
    await create_topic(c, left, 2)
    await m.say("a")
    await create_topic(c, right, 4)
    await m.until("a")
    await m.own("a")
    await m.describe()
    for topic in (repartition, changelog):
        described = await c.peer.ask(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=TOPIC,
                        resource_name=topic,
                        configuration_keys=["cleanup.policy", "retention.ms"],
                    )
                ]
            ),
            4,
        )
        c.say(f"{topic}: {[(each.name, each.value) for each in described.results[0].configs]}")
    older = Topology(epoch=2, subtopologies=topology.subtopologies)
    newer = Topology(epoch=4, subtopologies=topology.subtopologies)
    other = Topology(epoch=3, subtopologies=topology.subtopologies[:1])
    await m.join("b", older, process_id="p2")
    await m.join("c", newer, process_id="p2")
    await m.join("c", other, process_id="p2")
    await m.describe()
    await m.say("b")
    await m.settle("a", "b")
    await until_deleted(c, changelog)
    await m.until("a", missing=True)
    await m.settle("a", "b")
    await m.until("a")
    await m.settle("a", "b")
    await until_deleted(c, left)
    await m.until("a", missing=True)
    await m.own("a")
    await m.describe()
    await m.say("b", shutdown_application=True)
    await m.say("a")
    await m.say("a", -1)
    await m.say("b")
    await m.say("b", -1, shutdown_application=True)
    await c.log(as_hashed=True)


async def copartitions(c: Conversation) -> None:
    """Topics that must have equally many partitions."""
    left, right = f"left{c.mark}", f"right{c.mark}"
    await create_topic(c, left, 2)
    await create_topic(c, right, 3)

    def topology(*repartitions: TopicInfo, sources: list[int], sinks: list[int]) -> Topology:
        for topic in repartitions:
            topic.name = f"{c.group}-{len(cases)}-{topic.name}"
        return Topology(
            subtopologies=[
                reading(left, repartition_sink_topics=[topic.name for topic in repartitions]),
                reading(
                    left,
                    right,
                    subtopology_id="1",
                    repartition_source_topics=list(repartitions),
                    copartition_groups=[
                        CopartitionGroup(source_topics=sources, repartition_source_topics=sinks)
                    ],
                ),
            ]
        )

    m = Members(c)
    cases: list[Topology] = []
    cases.append(topology(sources=[0, 1], sinks=[]))
    cases.append(topology(five(), sources=[0], sinks=[0]))
    cases.append(topology(five(), any_count(), sources=[0], sinks=[1]))
    cases.append(topology(five(), any_count(), sources=[], sinks=[0, 1]))
    cases.append(topology(any_count(), sources=[1], sinks=[0]))
    cases.append(topology(sources=[], sinks=[]))
    for case in cases:
        await m.join("a", case)
        await m.describe()
        await m.say("a", -1)
        await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    odd = [
        Topology(subtopologies=[reading(repartition_sink_topics=[any_count().name])]),
        Topology(subtopologies=[reading(repartition_source_topics=[any_count()])]),
        Topology(
            subtopologies=[
                reading(
                    repartition_source_topics=[any_count()],
                    repartition_sink_topics=[any_count().name],
                )
            ]
        ),
        one(left, state_changelog_topics=[TopicInfo(name="changes", partitions=2)]),
        one("__consumer_offsets", "__transaction_state"),
        one(left, "no/name"),
        one(left, "", "."),
        one(left, source_topic_regex=["t.*"]),
    ]
    for case in odd:
        await m.join("a", case)


async def standbys(c: Conversation) -> None:
    """Stateful tasks have standbys in other processes; endpoints tell where everything is."""
    await create_topic(c, c.topic, 4)
    await configure(c, streams_num_standby_replicas="1", streams_heartbeat_interval_ms="150")
    changelogs = [TopicInfo(name=f"{c.group}-store-changelog")]
    topology = Topology(
        subtopologies=[
            reading(c.topic, state_changelog_topics=changelogs),
            reading(c.topic, subtopology_id="1"),
        ]
    )
    m = Members(c)
    await m.join("a", topology, process_id="p1", user_endpoint=wire.Endpoint(host="h1", port=81))
    await m.until("a")
    await m.own("a", endpoint_information_epoch=1)
    await m.own("a")
    await m.join("b", topology, process_id="p2", user_endpoint=wire.Endpoint(host="h2", port=82))
    for _ in range(2):
        await m.own("a")
        await m.own("b")
    await m.describe()
    await m.join("c", topology, process_id="p1")
    await m.join("d", topology, process_id="p3")
    for _ in range(4):
        for name in "abcd":
            await m.own(name, endpoint_information_epoch=5)
    await m.describe()
    await m.say("b", -1)
    for _ in range(3):
        for name in "acd":
            await m.own(name)
    await m.describe()
    await configure(c, streams_num_standby_replicas="2")
    for _ in range(3):
        for name in "acd":
            await m.own(name)
    await m.describe()
    await c.log(as_hashed=True)


async def delays(c: Conversation) -> None:
    """A new group waits for more members, and one that has just been assigned for more changes."""
    await create_topic(c, c.topic, 2)
    await configure(c, streams_initial_rebalance_delay_ms="600000")
    m, topology = Members(c), one(c.topic)
    await m.join("a", topology)
    await m.own("a")
    await m.join("b", topology)
    await m.describe()
    await m.say("a", -1)
    await m.say("b", -1)
    await m.join("b", topology)
    await c.log(as_hashed=True)


async def strangers(c: Conversation) -> None:
    """Refused requests, and groups of other types."""
    await create_topic(c, c.topic, 1)
    m, topology = Members(c), one(c.topic)
    await m.describe(c.group, "", f"unknown{c.mark}")
    for change in (
        {"member_id": ""},
        {"member_id": " "},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"active_tasks": None},
        {"active_tasks": ids({"0": [0]})},
        {"standby_tasks": ids({"0": [0]})},
        {"warmup_tasks": ids({"0": [0]})},
        {"topology": None},
        {"instance_id": "i"},
        {"instance_id": ""},
        {"task_offsets": []},
        {"task_end_offsets": [wire.TaskOffset(subtopology_id="0")]},
    ):
        await m.say("a", 0, **{**m.joining(topology), **change})
    for epoch in (1, -1, -2, -3):
        await m.say("a", epoch)
    await m.say("a", -2, instance_id="i")
    await m.say("a", 1, topology=topology)
    await m.say("a", 1, active_tasks=[])
    await m.join("a", topology)
    for active in ({"0": [1]}, {"0": [-1]}, {"7": [0]}, {"0": [0, 0]}):
        await m.say("a", m.epochs["a"], active_tasks=ids(active), standby_tasks=[], warmup_tasks=[])
    await m.say("x", 1)
    await m.say("x", -1)
    await c.ask(c.join(), 9, "classic")
    await c.ask(c.sync("a", 1), 5, "classic")
    await c.ask(c.beat("a", 1), 4, "classic")
    await c.ask(c.leave(("a", None)), 5, "classic")
    await c.describe()
    await c.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=c.group,
            member_id="a",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[c.topic],
            topic_partitions=[],
        ),
        1,
    )
    await c.ask(
        ShareGroupHeartbeatRequest(
            group_id=c.group, member_id="a", subscribed_topic_names=[c.topic]
        ),
        1,
    )
    await m.say("a", -1)
    joined = await c.ask(c.join(), 3, "classic")
    await m.describe()
    await m.join("a", topology)
    await m.say("a", 1)
    await c.ask(c.sync(joined.member_id, 1, {}), 3, "classic")
    await c.ask(c.leave((joined.member_id, None)), 3, "classic")
    await c.until("Empty", 0)
    await m.join("a", topology)
    await m.describe()
    await c.log(as_hashed=True)


SCRIPTS: list[Script] = [
    members,
    topologies,
    copartitions,
    standbys,
    delays,
    strangers,
]
