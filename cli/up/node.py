"""Runs a broker in this process, for `pk up` and `pk node start`. The node itself handles
signals."""

import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Mapping

import trio

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.runtime.context import Context
from pk.cli.up.logs import use_log_format
from pk.core.config import BrokerConfig, ConfigError
from pk.core.config.security_promises import check_security
from pk.core.log.disk import RealDisk
from pk.core.log.failures import LogDirError
from pk.core.log.memory_disk import MemoryDisk
from pk.net.endpoints import StartError
from pk.net.node import Node, run_node


def broker_config(given: Mapping[str, str]) -> BrokerConfig:
    """The config for running a broker. Raises Unusable."""
    try:
        config = BrokerConfig.parse(given)
        check_security(config)
    except ConfigError as e:
        raise Unusable(_sentence(e)) from None
    return config


def _sentence(error: Exception) -> str:
    text = str(error).rstrip(".")
    return (
        f"{text[:1].upper()}{text[1:]}." if text[:1].islower() and " " in text[:12] else f"{text}."
    )


async def run_broker(
    config: BrokerConfig, *, memory: bool, on_ready: Callable[[str], Awaitable[None]]
) -> Exit:
    """Run the broker until a signal has drained it. Calls `on_ready` with its address once it
    serves. Returns the exit code.

    Raises CommandError if the broker cannot start, or if `on_ready` does; the broker is drained
    first.
    """
    use_log_format(config)
    disk = MemoryDisk(config.pk_memory_bytes_max) if memory else RealDisk()
    failure: CommandError | None = None
    ended_by: int | None = None

    async def after_start(node: Node) -> None:
        nonlocal failure
        try:
            await on_ready(node.address)
        except CommandError as e:
            failure = e
            node.stop()

    async with trio.open_nursery() as nursery:
        try:
            ended_by = await run_node(
                config, disk=disk, ready=lambda node: nursery.start_soon(after_start, node)
            )
        except (StartError, LogDirError) as e:
            failure = CommandError(_sentence(e))
            failure.__cause__ = e
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return exit_of_server(ended_by)


def exit_of_server(signal_number: int | None) -> Exit:
    """The exit code of a server in the foreground that a signal drained. For SIGTERM, with which
    service managers stop a server, it is 0. For Ctrl-C, it is the code with which the process dies
    of SIGINT, so that a loop in a shell ends too."""
    return Exit.INTERRUPTED if signal_number == signal.SIGINT else Exit.OK


def say_stopped(context: Context, what: str) -> None:
    """Say at a terminal that a server in the foreground has stopped, below the `^C`."""
    if context.streams.err_terminal:
        context.say(f"\n{what} has stopped.")


def ready_line(config: BrokerConfig, address: str, started: float, where: str) -> bytes:
    """The line that says that the broker is ready; its last word is the address."""
    spent = (time.monotonic() - started) * 1000
    what = "Broker" if config.is_broker else "Controller"
    return (
        f"{what} {config.node_id} is ready after {spent:.0f} ms, {where}, at {address}\n".encode()
    )


def remove_tree(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def check_directory(path: str) -> None:
    """Create a data directory. Raises Unusable if something else than a directory exists at the
    path, and CommandError if it cannot be created."""
    above = os.path.abspath(path)
    while not os.path.lexists(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise Unusable(f"--data: {above} is not a directory.")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise CommandError(f"--data: {path} cannot be created: {e.strerror}.") from None


HOST = "127.0.0.1"
PORT = 9092
"""The port of `pk up` without --port, as in Apache's quick start."""


def check_port(port: int) -> int:
    """Check a port, and return it. Raises Unusable."""
    if not 0 <= port <= 65535:
        raise Unusable(f"--port must be from 0 to 65535, not {port}.")
    return port
