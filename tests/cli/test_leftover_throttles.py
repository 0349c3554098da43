"""Throttles that an earlier command left in the cluster: the next command warns of them, and the
shell does so once."""

import os
import re
import subprocess
from collections.abc import Callable

import pytest
import trio
from clients.fixtures import Kafka
from terminal import Terminal

from pk.cli.cluster import rollback_files
from pk.cli.cluster.throttles import Throttled
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin

Start = Callable[..., Terminal]
TP = TopicPartition("moved", 0)


@pytest.fixture
def left(kafka: Kafka) -> None:
    """The file of a reassignment whose process has ended without removing its throttle."""

    async def cluster_id() -> str | None:
        async with open_admin(kafka.bootstrap) as admin:
            return (await admin.describe_cluster()).cluster_id

    gone = subprocess.Popen(["true"])
    gone.wait()
    path = rollback_files.new_path(1).replace(f"-{os.getpid()}.json", f"-{gone.pid}.json")
    throttled = Throttled(5, {1: {"leader.replication.throttled.rate": None}})
    rollback_files.write(
        rollback_files.Rollback(
            path, trio.run(cluster_id) or "", 1, {TP: (1,)}, {TP: (2,)}, throttled
        )
    )


@pytest.mark.usefixtures("left")
def test_a_leftover_throttle_is_reported_by_the_next_command(kafka: Kafka, terminal: Start) -> None:
    one = terminal("brokers", "list", "-b", kafka.bootstrap)
    shown = one.wait_for("throttle --remove")
    assert "Warning: a reassignment left its throttle on broker 1" in " ".join(shown.split())
    assert one.end() == 0


@pytest.mark.usefixtures("left")
def test_a_command_that_says_it_itself_is_not_followed_by_a_warning(
    kafka: Kafka, terminal: Start
) -> None:
    """This holds for every noun; the test tries two commands of one."""
    broker = ("-b", kafka.bootstrap)
    rate = "leader.replication.throttled.rate=5000000"
    set_rate = terminal("configs", "alter", "broker", "1", "-c", rate, "-y", *broker)
    assert set_rate.end() == 0
    try:
        one = terminal("reassign", "status", *broker)
        assert one.end() == 0
        said = " ".join(one.screen().split())
        assert "Throttles are left behind" in said and "Warning:" not in said
    finally:
        removed = terminal("reassign", "throttle", "--remove", "-y", *broker)
        assert removed.end() == 0
    assert "Warning:" not in removed.screen()


@pytest.mark.usefixtures("left")
def test_in_the_shell_it_is_reported_once(kafka: Kafka, terminal: Start) -> None:
    one = terminal("shell", "-b", kafka.bootstrap, PAGER="cat")
    one.wait_for("under-replicated")
    one.line("brokers list")
    one.wait_for("throttle --remove")
    one.line("cluster describe")
    one.wait_for("controller")
    one.line("topics list nothing-of-that-name")
    one.wait_for(re.compile(r"lists\s+them\.\n\S+>"))  # a Ctrl-D before the prompt is lost
    assert one.output.count(b"Warning: a reassignment") == 1
    one.keys("ctrl-d")
    assert one.end() == 0
