"""A large topic is described page by page: every partition once, and no page larger than requested
or allowed."""

from __future__ import annotations

from api.admin import Admin, asking
from group.brokers import simulated

from pk.core.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

PARTITIONS = 5_000
PARTITIONS_A_PAGE_MAX = 700
"""The limit of the broker (`max.request.partition.size.limit`)."""

Page = list[tuple[str, int]]


async def pages(admin: Admin, limit: int, *topics: str, cursor: Cursor | None = None) -> list[Page]:
    """Every page as (topic, partition), asked for until no cursor comes back."""
    found: list[Page] = []
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in topics],
            response_partition_limit=limit,
            cursor=cursor,
        )
        answer = await admin.ask(request)
        assert all(topic.error_code == 0 for topic in answer.topics)
        found.append([(t.name, p.partition_index) for t in answer.topics for p in t.partitions])
        if answer.next_cursor is None:
            return found
        cursor = Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )


@simulated
async def test_a_topic_of_5_000_partitions_pages_by_cursor() -> None:
    keys = {"max_request_partition_size_limit": str(PARTITIONS_A_PAGE_MAX)}
    async with asking(**keys) as admin:
        await admin.create("large", PARTITIONS)
        await admin.create("after", 3)
        await admin.create("small", 3)
        all_of_it = [("large", n) for n in range(PARTITIONS)]
        for limit, size in ((699, 699), (2_000, PARTITIONS_A_PAGE_MAX)):
            found = await pages(admin, limit, "large")
            assert [row for page in found for row in page] == all_of_it
            assert [len(page) for page in found[:-1]] == [size] * (len(found) - 1)
            assert 0 < len(found[-1]) <= size
        # All topics, in order of their names: pages go over from one to the next.
        found = await pages(admin, PARTITIONS_A_PAGE_MAX)
        small = [("small", n) for n in range(3)]
        assert [row for page in found for row in page] == [
            *(("after", n) for n in range(3)),
            *all_of_it,
            *small,
        ]
        assert all(len(page) == PARTITIONS_A_PAGE_MAX for page in found[:-1])
        # Start at any partition.
        begin = Cursor(topic_name="large", partition_index=PARTITIONS - 2)
        found = await pages(admin, 4, "large", "small", cursor=begin)
        assert found == [[*all_of_it[-2:], *small[:2]], small[2:]]
