"""Members of streams groups: time, failovers, refused appends, internal topics, large groups."""

from __future__ import annotations

from group.streams.world import AT_ONCE, StreamsWorld, stateful

from pk.core.errors import ErrorCode
from pk.core.group.settings import GroupSettings, StreamsGroupSettings
from pk.core.group.streams.configured import TASKS_MAX
from pk.core.group.streams.partition_counts import StatusCode
from pk.core.wire.messages.streams_group_heartbeat import (
    Subtopology,
    Topology,
)

SESSION_MS = 45_000


def test_members_share_the_tasks_and_hand_them_over_one_after_another() -> None:
    world = StreamsWorld()
    a = world.thread("a")
    assert a.active == {"0": [0, 1, 2, 3]}
    b = world.thread("b")
    assert b.active == {}, "a has everything still"
    b.beat()
    assert b.active == {}
    a.beat()
    assert a.active == {"0": [0, 1]}
    b.beat()
    assert b.active == {}, "a has not said that it gave anything up"
    a.beat()
    b.beat()
    assert b.active == {"0": [2, 3]}
    assert world.streams.state_name == "Stable"


def test_who_is_silent_for_a_session_is_out() -> None:
    world = StreamsWorld()
    a, b = world.thread("a"), world.thread("b")
    world.settle_threads(a, b)
    world.after(SESSION_MS - 1)
    a.beat()
    world.after(1)
    assert list(world.streams.members) == ["a"]
    world.settle_threads(a)
    assert a.active == {"0": [0, 1, 2, 3]}
    assert b.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_its_tasks_in_time_is_out() -> None:
    world = StreamsWorld()
    a = world.thread("a")
    b = world.thread("b")
    a.beat()
    for _ in range(3):
        world.after(9_000)
        a.beat(silent=True)
        b.beat()
    assert set(world.streams.members) == {"a", "b"}
    world.after(3_000)
    assert list(world.streams.members) == ["b"]
    world.settle_threads(b)
    assert b.active == {"0": [0, 1, 2, 3]}


def test_after_a_failover_members_go_on() -> None:
    world = StreamsWorld(topics={"t": 4, "changes": 4})
    world.configure("g", {"streams.num.standby.replicas": "1"})
    a, b = world.thread("a", stateful(), port=1), world.thread("b", stateful(), port=2)
    world.settle_threads(a, b)
    before = (a.epoch, a.active, a.standby, b.active, b.standby, a.endpoints)
    assert a.standby == b.active and b.standby == a.active
    world.restart()
    world.settle_threads(a, b)
    assert (a.epoch, a.active, a.standby, b.active, b.standby, a.endpoints) == before
    assert world.streams.state_name == "Stable"
    world.after(SESSION_MS - 1)
    assert len(world.streams.members) == 2, "each has a whole session"
    world.after(1)
    assert world.streams.is_empty
    assert world.delete_group() == 0
    world.restart()
    assert not world.machine.groups


def test_a_failover_while_tasks_are_handed_over_loses_none() -> None:
    world = StreamsWorld()
    a = world.thread("a")
    b = world.thread("b")
    a.beat()
    world.restart()
    b.beat()
    assert b.active == {}, "the log says that a may have it still"
    world.settle_threads(a, b)
    assert sorted([*a.active["0"], *b.active["0"]]) == [0, 1, 2, 3]
    world.after(60_000)


def test_a_new_group_waits_for_more_members() -> None:
    settings = GroupSettings(streams=StreamsGroupSettings(assignment_interval_ms=0))
    world = StreamsWorld(settings)
    a = world.thread("a")
    a.beat()
    b = world.thread("b")
    assert (a.statuses, b.statuses) == ([StatusCode.ASSIGNMENT_DELAYED],) * 2
    assert world.streams.state_name == "Assigning"
    world.after(3_000)
    for each in (a, b):
        each.beat()
    assert (a.active, b.active) == ({"0": [0, 2]}, {"0": [1, 3]}), "nothing is handed over"
    c = world.thread("c")
    assert not c.statuses, "the group has members: no delay any more"


def test_a_delay_that_could_not_be_logged_has_not_begun() -> None:
    world = StreamsWorld(GroupSettings(streams=StreamsGroupSettings(assignment_interval_ms=0)))
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    world.thread("a")
    assert not world.machine.groups and not world.timers.keys() - {("expiration",)}
    world.refuse = None
    a = world.thread("a")
    world.after(3_000)
    a.beat()
    assert a.active == {"0": [0, 1, 2, 3]}


def test_two_assignments_keep_an_interval() -> None:
    settings = GroupSettings(streams=StreamsGroupSettings(initial_rebalance_delay_ms=0))
    world = StreamsWorld(settings)
    world.thread("a")
    b = world.thread("b")
    assert b.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    world.after(999)
    b.beat()
    assert b.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    world.after(1)
    b.beat()
    assert not b.statuses and world.streams.assignment_epoch == world.streams.epoch


def test_a_refused_heartbeat_changes_nothing() -> None:
    world = StreamsWorld()
    a = world.thread("a")
    logged = len(world.log)
    world.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    world.thread("b")
    a.beat()
    assert len(world.log) == logged and list(world.streams.members) == ["a"]
    world.refuse = None
    b = world.thread("b")
    world.settle_threads(a, b)
    assert sorted([*a.active["0"], *b.active["0"]]) == [0, 1, 2, 3]


def test_internal_topics_are_asked_for_once_until_they_fail() -> None:
    world = StreamsWorld()
    a = world.thread("a", stateful())
    a.beat()
    (effect,) = world.to_create
    assert [(t.name, t.num_partitions, t.replication_factor) for t in effect.topics] == [
        ("changes", 4, -1)
    ]
    assert a.statuses == [StatusCode.MISSING_INTERNAL_TOPICS]
    world.take(world.machine.streams_topics_created(effect, {"changes": "no room"}, world.now_ms))
    answer = a.beat()
    assert not isinstance(answer, ErrorCode) and answer.status
    assert answer.status[0].status_detail == (
        "Internal topics are missing: changes; Creation failed: changes (no room)."
    )
    assert len(world.to_create) == 1
    world.after(effect.timeout_ms)
    a.beat()
    assert len(world.to_create) == 2, "tried again"
    world.create("changes", 4)
    world.take(world.machine.streams_topics_created(world.to_create[1], {}, world.now_ms))
    a.beat()
    assert not a.statuses and a.active == {"0": [0, 1, 2, 3]}


def test_a_topic_that_grows_brings_tasks() -> None:
    world = StreamsWorld()
    a = world.thread("a")
    world.grow("t", 6)
    a.beat()
    assert a.active == {"0": [0, 1, 2, 3, 4, 5]}
    world.create("other", 3)
    epoch = world.streams.epoch
    a.beat()
    assert world.streams.epoch == epoch, "a topic of somebody else's"


def test_a_large_group_is_assigned_off_the_loop() -> None:
    world = StreamsWorld(topics={"t": 1000})
    a = world.thread("a")
    assert a.active == {} and len(world.computing) == 1
    a.beat()
    assert len(world.computing) == 1, "it is being made"
    world.compute()
    a.beat()
    assert a.active == {"0": list(range(1000))}
    world.thread("b")
    world.delete("t")
    a.beat()
    world.compute()
    assert "0" not in a.active or world.streams.target_of("a").active == {}, "tasks that are gone"


def test_a_heartbeat_that_is_refused_leaves_the_assignment_to_the_next() -> None:
    world = StreamsWorld(topics={"t": 1000})
    a = world.thread("a")
    world.settle_threads(a)
    world.lose_state("a")
    world.grow("t", 1001)
    assert a.beat() == ErrorCode.FENCED_MEMBER_EPOCH
    assert not world.computing
    a.join()
    world.settle_threads(a)
    assert a.active == {"0": list(range(1001))}


def test_a_topology_of_too_many_tasks_is_refused() -> None:
    world = StreamsWorld(topics={"t": 1000})
    topology = Topology(
        subtopologies=[
            Subtopology(subtopology_id=str(n), source_topics=["t"])
            for n in range(TASKS_MAX // 1000 + 1)
        ]
    )
    a = world.thread("a", topology)
    assert a.epoch == 0 and not world.machine.groups


def test_what_a_group_sets_is_drawn_into_the_brokers_bounds() -> None:
    world = StreamsWorld(AT_ONCE)
    world.configure(
        "g",
        {
            "streams.session.timeout.ms": "1",
            "streams.heartbeat.interval.ms": "999999",
            "streams.num.standby.replicas": "9",
        },
    )
    own = world.machine.streams.settings_of("g")
    assert (own.session_timeout_ms, own.heartbeat_interval_ms) == (45_000, 15_000)
    assert own.num_standby_replicas == 2
    world.configure_cluster({"group.streams.assignment.interval.ms": "77"})
    assert world.machine.streams.settings_of("other").assignment_interval_ms == 77


def test_offsets_stay_while_the_application_reads_the_topic() -> None:
    world = StreamsWorld()
    a = world.thread("a")
    world.commit({("t", 0): 5}, member_id="a", generation=a.epoch)
    week_ms = 8 * 24 * 3600 * 1000
    for _ in range(3):
        world.after(week_ms // 3 + 1)
        if "g" not in world.machine.groups or world.streams.is_empty:
            break
    assert world.streams.is_empty, "its session ran out"
    world.after(week_ms)
    assert "g" not in world.machine.groups and world.fetch() == {}
