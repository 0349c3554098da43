"""Runs a broker in this process, for `pk up` and `pk broker start`: signals, the ready line, the temporary directory.

The first SIGINT or SIGTERM drains, the second ends at once.
"""

import errno
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping

import trio

from pk.cli.context import Context
from pk.cli.exits import CommandError, Exit, Unusable
from pk.core.config import BrokerConfig, ConfigError, unsupported_keys
from pk.core.log.disk import RealDisk
from pk.core.log.failures import LogDirError
from pk.core.log.memory_disk import MemoryDisk


def broker_config(given: Mapping[str, str]) -> BrokerConfig:
    """The config a broker is to run with. Raises Unusable."""
    try:
        return BrokerConfig.parse(given)
    except ConfigError as e:
        raise Unusable(f"{str(e).rstrip('.')}.") from None


def warn_unsupported(context: Context, given: Mapping[str, str]) -> None:
    """One warning for all keys whose feature does not exist yet."""
    names = unsupported_keys(given)
    if names:
        context.say(
            f"Warning: these keys steer features that pk does not have yet: {', '.join(names)}."
        )


def explain_start(error: BaseException, config: BrokerConfig) -> CommandError | None:
    """The sentence for a broker that did not start; None where the error says nothing of the kind."""
    if isinstance(error, LogDirError):
        return CommandError(str(error))
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        asked = ", ".join(f"{item.host or '0.0.0.0'}:{item.port}" for item in config.listeners)
        return CommandError(f"{asked} is in use by another process; --port 0 takes a free port.")
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EADDRNOTAVAIL):
        return CommandError(f"The broker cannot listen or write there: {error}.")
    return None


async def run_until_signal(
    context: Context,
    config: BrokerConfig,
    *,
    memory: bool,
    on_ready: Callable[[str], None],
    on_hurry: Callable[[], None],
) -> None:
    """Runs the broker until a signal drains it. `on_hurry` is called before a second signal ends the process.

    Raises CommandError where it cannot start.
    """
    from pk.net.node import run_node

    disk = MemoryDisk(config.pk_memory_bytes_max) if memory else RealDisk()
    running = trio.CancelScope()

    async def watch() -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            count = 0
            async for _ in signals:
                count += 1
                if count == 1:
                    context.say("Draining; a second signal ends at once.")
                    running.cancel()
                else:
                    on_hurry()
                    os._exit(Exit.INTERRUPTED)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            with running:
                await run_node(config, disk=disk, ready=lambda address: on_ready(str(address)))
            nursery.cancel_scope.cancel()
    except BaseException as error:
        from pk.cli.failures import leaf

        said = explain_start(leaf(error), config)
        if said is None:
            raise
        raise said from error


def log_to_stderr() -> None:
    """Warnings of the broker go to standard error, with their time."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def ready_line(config: BrokerConfig, address: str, started: float, where: str) -> str:
    """The line by which others know that the broker is up; its last word is its address."""
    spent = (time.monotonic() - started) * 1000
    return f"Broker {config.node_id} is ready after {spent:.0f} ms, {where}, at {address}"


def remove_tree(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
