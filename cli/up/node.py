"""Runs a broker in this process, for `pk up` and `pk broker start`. Signals are the node's own business."""

import logging
import shutil
import sys
import time
from collections.abc import Callable, Mapping

from pk.cli.runtime.exits import CommandError, Unusable
from pk.cli.terminal.text import escaped_lines
from pk.core.broker.replication import recovery_progress
from pk.core.config import BrokerConfig, ConfigError
from pk.core.config.security_promises import check_security
from pk.core.log.disk import RealDisk
from pk.core.log.failures import LogDirError
from pk.core.log.memory_disk import MemoryDisk
from pk.net.endpoints import StartError
from pk.net.node import run_node


def broker_config(given: Mapping[str, str]) -> BrokerConfig:
    """The config a broker is to run with. Raises Unusable."""
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
    config: BrokerConfig, *, memory: bool, on_ready: Callable[[str], None]
) -> None:
    """Runs the broker until a signal has drained it; `on_ready` is told where it listens.

    Raises CommandError where it cannot start.
    """
    disk = MemoryDisk(config.pk_memory_bytes_max) if memory else RealDisk()
    try:
        await run_node(config, disk=disk, ready=lambda node: on_ready(node.address))
    except (StartError, LogDirError) as e:
        raise CommandError(_sentence(e)) from e


class InertFormatter(logging.Formatter):
    """Lines in which nothing acts on a terminal: they may tell of what a client sent."""

    def format(self, record: logging.LogRecord) -> str:
        """Part of `logging.Formatter`."""
        return escaped_lines(super().format(record))


def log_to_stderr() -> None:
    """Warnings of the broker go to standard error, with their time, and how far a recovery is that takes long."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(InertFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    recovery_progress.logger.setLevel(logging.INFO)


def ready_line(config: BrokerConfig, address: str, started: float, where: str) -> bytes:
    """The line by which others know that the broker is up; its last word is its address."""
    spent = (time.monotonic() - started) * 1000
    what = "Broker" if config.is_broker else "Controller"
    return (
        f"{what} {config.node_id} is ready after {spent:.0f} ms, {where}, at {address}\n".encode()
    )


def remove_tree(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


HOST = "127.0.0.1"
PORT = 9092
"""The port of `pk up` without --port, as Apache's quick start has it."""


def check_port(port: int) -> int:
    """`port`, if it is one. Raises Unusable."""
    if not 0 <= port <= 65535:
        raise Unusable(f"--port wants a number from 0 to 65535, not {port}.")
    return port
