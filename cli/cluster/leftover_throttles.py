"""Warns of throttles that an earlier command of this user left in the cluster.

A throttle of a reassignment that pk did not see end slows every replica that falls behind, forever,
and nothing in the cluster shows that. While `pk reassign` has a throttle set, a mark exists beside
its rollback file, so that the check only lists one directory. The cluster is asked whether anything
still moves only if there is a mark.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from pk.cli.cluster.throttle_marks import marked

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

_ASK_S = 2.0


async def warn_of_leftover_throttles(context: "Context") -> None:
    """Warn, on a terminal, of a throttle left in the cluster that the command used, and say how to
    remove it: only once, and not if the command has reported it itself
    (`pk.cli.runtime.session.Session.reported`)."""
    if not context.streams.err_terminal or context.session is None or not marked():
        return
    import trio

    from pk.cli.cluster.rollback_files import rollbacks
    from pk.cli.cluster.throttles import describe
    from pk.core.errors import KafkaError
    from pk.net.client.errors import ClientError

    admin = context.session.opened(context.settings)
    cluster_id = None if admin is None else admin.cluster.metadata.cluster_id
    left = [r for r in rollbacks(cluster_id) if r.throttled.any] if cluster_id else []
    reported = context.session.reported
    if (
        admin is None
        or not left
        or left[0].path in reported
        or any(_is_watched(r.path) for r in left)
    ):
        return
    with trio.move_on_after(_ASK_S), suppress(KafkaError, ClientError):
        if await admin.list_reassignments():
            return
        reported.add(left[0].path)
        context.say(
            f"Warning: a reassignment left its throttle on {describe(left[0].throttled)}, "
            "although nothing is moving; `pk reassign throttle --remove` removes it."
        )


def _is_watched(path: str) -> bool:
    """Whether the process that wrote a rollback file is still running, and will remove the
    throttle."""
    word = os.path.basename(path).removesuffix(".json").rpartition("-")[2]
    if not word.isdecimal() or int(word) == os.getpid():  # this shell, whose `reassign` has ended
        return False
    try:
        os.kill(int(word), 0)
    except OSError as e:
        return isinstance(e, PermissionError)
    return True
