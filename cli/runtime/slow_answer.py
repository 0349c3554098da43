"""Whom a command waits for: a line on the terminal where a broker does not answer for a while, gone once there is more to say;
and that a change is still being made, where that takes longer than a moment.

A process that was stopped, or a host that swaps, takes connections and requests and answers none of them. Commands give
such brokers time; whoever sits before the terminal is to know why nothing happens.
"""

import os
from collections.abc import Sequence
from typing import Final

import trio

from pk.cli.runtime.context import Context, Handler, join
from pk.net.client.results import Node

_AFTER_S: Final = 2.0
_WORKING_AFTER_S: Final = 1.0
_EVERY_S: Final = 0.25

OWN_WORDS: Final = frozenset(
    (
        "top",
        "cp",
        "console-consumer",
        "console-producer",
        "groups watch",
        "perf produce",
        "perf consume",
        "perf e2e",
    )
)
"""Commands that draw on the terminal themselves, and say there what they wait for."""


def telling(handler: Handler, path: Sequence[str]) -> Handler:
    """`handler`, and as long as it has said nothing yet, whom it waits for."""
    if " ".join(path) in OWN_WORDS:
        return handler

    async def run(context: Context) -> int | None:
        streams = context.streams
        live = context.given(
            "watch"
        )  # the own -w of `pk isr` and `pk reassign status` draws itself
        if live or not streams.err_terminal or os.environ.get("TERM") == "dumb":
            return await handler(context)
        assert context.session is not None
        with context.session.beside(_tell, context):
            try:
                return await handler(context)
            finally:
                context.clear_status()

    return run


async def _tell(context: Context) -> None:
    assert context.session is not None
    changes = context.takes("yes")
    began = trio.current_time()
    while not context.spoke:
        passed_s = trio.current_time() - began
        if silent := context.session.silent(_AFTER_S):
            context.show_status(_waits_for(silent, passed_s))
        elif changes and passed_s >= _WORKING_AFTER_S:
            context.show_status(f"Working, {passed_s:.0f} s; Ctrl-C stops.")
        await trio.sleep(_EVERY_S)


def _waits_for(nodes: Sequence[Node], passed_s: float) -> str:
    return f"Waiting for {join([node.who for node in nodes], 3)}, {passed_s:.0f} s; Ctrl-C stops."
