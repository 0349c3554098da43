"""Whom a command waits for: a line on the terminal where a broker does not answer for a while, gone once there is more to say.

A process that was stopped, or a host that swaps, takes connections and requests and answers none of them. Commands give
such brokers time; whoever sits before the terminal is to know why nothing happens.
"""

import os
import time
from collections.abc import Sequence
from typing import Final

import trio

from pk.cli.context import Context, Handler, join
from pk.net.client.results import Node

_AFTER_S: Final = 2.0
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
        live = context.args.values().get("watch")  # it draws itself, too
        if live or not streams.err_terminal or os.environ.get("TERM") == "dumb":
            return await handler(context)
        assert context.session is not None
        with context.session.beside(_tell, context):
            try:
                return await handler(context)
            finally:
                context.hush()

    return run


async def _tell(context: Context) -> None:
    assert context.session is not None
    began = time.monotonic()
    while not context.spoke:
        if silent := context.session.silent(_AFTER_S):
            context.whisper(_waits_for(silent, time.monotonic() - began))
        await trio.sleep(_EVERY_S)


def _waits_for(nodes: Sequence[Node], passed_s: float) -> str:
    return f"Waiting for {join([node.who for node in nodes], 3)}, {passed_s:.0f} s; Ctrl-C stops."
