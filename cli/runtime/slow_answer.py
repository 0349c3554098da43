"""Shows which broker a command waits for. If a broker does not answer for a while, a line on the
terminal says so, until there is other output; so does a line if a change takes longer than a
moment.

A suspended process, or a host that swaps, accepts connections and requests and answers none.
Commands wait for such brokers, and the user should know why nothing happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from pk.cli.phrases import join
from pk.cli.runtime.context import Context, Handler

if TYPE_CHECKING:
    from pk.net.client.node import Node

_AFTER_S: Final = 2.0
_WORKING_AFTER_S: Final = 1.0
_EVERY_S: Final = 0.25


def showing_waits(handler: Handler) -> Handler:
    """Wrap `handler`, to show the brokers that it waits for until it has produced output."""

    async def run(context: Context) -> int | None:
        streams = context.streams
        live = context.given("watch")  # -w of `pk isr` and `pk reassign status` draws by itself
        if live or not streams.err_redraws:
            return await handler(context)
        assert context.session is not None
        with context.session.beside(_show_waits, context):
            try:
                return await handler(context)
            finally:
                context.clear_status()

    return run


async def _show_waits(context: Context) -> None:
    assert context.session is not None
    changes = context.changes
    began = trio.current_time()
    while not context.has_printed:
        passed_s = trio.current_time() - began
        if silent := context.session.silent(_AFTER_S):
            through = context.session.awaits_controller
            context.show_status(_waits_for(silent, passed_s, through=through))
        elif changes and passed_s >= _WORKING_AFTER_S:
            context.show_status(f"Working, {passed_s:.0f} s; Ctrl-C stops.")
        await trio.sleep(_EVERY_S)


def _waits_for(nodes: Sequence[Node], passed_s: float, *, through: bool) -> str:
    """`through` means that the broker was to forward the request to the controller."""
    asked = join([node.label for node in nodes], 3)
    whom = f"the controller, asked through {asked}" if through else asked
    return f"Waiting for {whom}, {passed_s:.0f} s; Ctrl-C stops."
