"""`pk up`: a broker on this machine, or several (`up_cluster.py`), for as long as somebody looks."""

import tempfile
import time

from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import Unusable
from pk.cli.runtime.settings import read_properties
from pk.cli.up.node import (
    HOST,
    PORT,
    broker_config,
    check_port,
    log_to_stderr,
    ready_line,
    remove_tree,
    run_broker,
)
from pk.cli.up.options import Up

FIRST_NODE = "1"
_ROLES = ("process.roles", "controller.listener.names", "listener.security.protocol.map")


def _node_id(directory: str) -> str:
    """Whose an existing data directory is: one that was adopted need not be that of node 1."""
    from pk.core.log.dirs import read_meta_properties
    from pk.core.log.disk import RealDisk
    from pk.core.log.failures import LogDirError

    try:
        return str(read_meta_properties(RealDisk(read_only=True), directory).node_id)
    except (OSError, LogDirError):
        return FIRST_NODE  # nobody's yet; or the start says what is wrong with it


def _given(options: Up, directory: str) -> dict[str, str]:
    """The keys the broker runs with: our defaults, then the file, then options, then -X."""
    given = {
        "node.id": _node_id(options.data) if options.data is not None else FIRST_NODE,
        "listeners": f"PLAINTEXT://{HOST}:{check_port(PORT if options.port is None else options.port)}",
        "log.dirs": directory,
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    from_file = read_properties(options.config_file) if options.config_file else {}
    if "log.dir" in from_file and "log.dirs" not in from_file:
        from_file["log.dirs"] = from_file.pop("log.dir")
    given |= from_file
    if options.port is not None:
        given["listeners"] = f"PLAINTEXT://{HOST}:{options.port}"
    if options.data is not None or options.memory:
        given["log.dirs"] = directory
    if options.store is not None:
        given["pk.metadata.store"] = options.store
    said = given | dict(options.properties)
    if "listeners" not in dict(options.properties) and not any(key in said for key in _ROLES):
        # What only controllers serve has a listener of its own, as everywhere.
        said["listeners"] += f",CONTROLLER://{HOST}:0"
        said["controller.listener.names"] = "CONTROLLER"
    return said


async def up(context: Context, options: Up) -> int:
    """`pk up`."""
    from pk.cli.up.cluster import brokers_of, up_cluster

    started = time.monotonic()
    if options.memory and options.data is not None:
        raise Unusable("--memory keeps nothing on disk; --data does not go with it.")
    log_to_stderr()
    if (brokers := brokers_of(options)) > 1:
        return await up_cluster(context, options, brokers)
    named = dict(options.properties)
    in_file = read_properties(options.config_file) if options.config_file else {}
    kept = options.data is not None or any(
        k in m for m in (named, in_file) for k in ("log.dirs", "log.dir")
    )
    temporary = None
    if options.memory:
        directory, where = "/memory", "in memory"
    elif kept:
        directory, where = options.data or "", "on disk"
    else:
        directory = temporary = tempfile.mkdtemp(prefix="pk-")
        where = "in a temporary directory"
    try:
        config = broker_config(_given(options, directory))
        await run_broker(
            config,
            memory=options.memory,
            on_ready=lambda at: context.write(ready_line(config, at, started, where)),
        )
    finally:
        if temporary is not None:
            remove_tree(temporary)
    return 0
