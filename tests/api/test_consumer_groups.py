"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: which broker answers, and when they are not
offered."""

from __future__ import annotations

from group.brokers import running, simulated

from pk.core.errors import ErrorCode
from pk.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pk.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest

JOIN = ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    rebalance_timeout_ms=1000,
    subscribed_topic_names=["t"],
    topic_partitions=[],
)
DESCRIBE = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)


@simulated
async def test_a_member_joins_and_is_described() -> None:
    async with running() as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        await test.loaded()
        await test.create_topics("t")
        joined = await test.ask(JOIN, 1)
        assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 2)
        [group] = (await test.ask(DESCRIBE, 1)).groups
        assert (group.group_state, group.group_epoch, len(group.members)) == ("Stable", 2, 1)
        assert group.authorized_operations > 0


@simulated
async def test_without_a_coordinator_every_group_says_so() -> None:
    async with running() as test:
        assert (await test.ask(JOIN, 1)).error_code == ErrorCode.NOT_COORDINATOR
        [group] = (await test.ask(DESCRIBE, 1)).groups
        assert group.error_code == ErrorCode.NOT_COORDINATOR


@simulated
async def test_a_broker_need_not_offer_the_protocol() -> None:
    async with running(group_coordinator_rebalance_protocols="classic") as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        await test.loaded()
        assert (await test.ask(JOIN, 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
        [group] = (await test.ask(DESCRIBE, 1)).groups
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
