"""A node of `pk up --brokers N`, as a process of its own: `python -m pk.cli.up.child broker-2`.

Its config arrives as a line of JSON on standard input, which stays open: when the parent ends, for
whatever reason, the stream closes, and the node drains and exits. Once it serves, the node writes
its address to standard output, as a line of JSON. Everything is imported before the config is read,
so that a parent can start many nodes and release them one after another.
"""

import json
import sys

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.runtime.connect import run_loop
from pk.cli.up.logs import log_to_stderr, use_log_format
from pk.cli.up.node import broker_config
from pk.core.log.disk import RealDisk
from pk.core.log.failures import LogDirError
from pk.core.log.memory_disk import MemoryDisk
from pk.net.endpoints import StartError
from pk.net.node import Node, run_node


def main() -> int:
    """Run the node. Returns its exit code."""
    line = sys.stdin.buffer.readline()
    if not line:
        return Exit.OK  # the parent ended before it sent the config
    job = json.loads(line)
    log_to_stderr()
    try:
        config = broker_config(job["config"])
        use_log_format(config)
        disk = MemoryDisk(config.pk_memory_bytes_max) if job["memory"] else RealDisk()

        async def run() -> None:
            await run_node(config, disk=disk, ready=_ready, parent=sys.stdin.fileno())

        run_loop(run)
    except (StartError, LogDirError, CommandError, Unusable) as e:
        sys.stderr.write(f"{e}\n")
        return Exit.FAILED
    return Exit.OK


def _ready(node: Node) -> None:
    sys.stdout.write(
        json.dumps({"address": node.address, "controller": node.controller_address}) + "\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
