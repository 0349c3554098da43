"""Makes many topics (`t-0000` …) and many groups (`g-0000` …) on a broker: `many.py BOOTSTRAP
TOPICS GROUPS`."""

import sys

import trio

from pk.core.values import TopicPartition
from pk.net.client.admin import Admin, open_admin
from pk.net.client.results import NewTopic, OffsetAndMetadata

_AT_ONCE = 500
_GROUPS_AT_ONCE = 50


async def make_topics(admin: Admin, count: int) -> None:
    """Topics of one partition each."""
    for first in range(0, count, _AT_ONCE):
        names = [f"t-{n:04}" for n in range(first, min(first + _AT_ONCE, count))]
        answers = await admin.create_topics([NewTopic(name, 1, 1) for name in names])
        for error in answers.errors.values():
            raise error


async def make_groups(admin: Admin, count: int, topics: int) -> None:
    """Groups without members, each with commits in three topics."""

    async def one(number: int) -> None:
        async with limit:
            places = {
                TopicPartition(f"t-{(number * 7 + k) % topics:04}", 0): OffsetAndMetadata(0)
                for k in range(3)
            }
            answers = await admin.alter_group_offsets(f"g-{number:04}", places)
            for error in answers.errors.values():
                raise error

    limit = trio.CapacityLimiter(_GROUPS_AT_ONCE)
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(one, number)


async def main(bootstrap: str, topics: int, groups: int) -> None:
    """Creates all of them."""
    async with open_admin(bootstrap, {"default.api.timeout.ms": "120000"}) as admin:
        await make_topics(admin, topics)
        await make_groups(admin, groups, topics)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
