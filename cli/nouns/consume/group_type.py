"""The errors of `pk consume` if the group that it joins has another type."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pk.cli.cluster.groups import SHARE, types_of
from pk.cli.exits import CommandError
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import leaf
from pk.core.errors import ErrorCode, KafkaError

_OF_ANOTHER_TYPE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
"""The errors of a coordinator if a member joins a group of another type."""


@asynccontextmanager
async def joining(context: Context, group: str, *, share: bool) -> AsyncGenerator[None]:
    """Convert errors of a group that is joined during the block. Raises CommandError if the group's
    type is wrong: it is a share group, or, if `share`, it is not."""
    try:
        yield
    except Exception as error:
        found = leaf(error)
        if isinstance(found, KafkaError) and found.code in _OF_ANOTHER_TYPE:
            type = (await types_of(await context.admin(), (group,)))[group]
            if type and share != (type == SHARE):
                raise CommandError(_of_another_type(group, type)) from error
        raise


def _of_another_type(group: str, type: str) -> str:
    if type == SHARE:
        return f"Group {group!r} is a share group; add --share, or give another group with -g."
    return (
        f"Group {group!r} is not a share group (its type is {type}); leave out --share, or give "
        "another group with -g."
    )
