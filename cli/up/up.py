"""`pk up`: runs one broker, or several (`cluster.py`), on this machine, until a signal ends it."""

import contextlib
import tempfile
import time

import trio

from pk.cli.exits import Unusable
from pk.cli.runtime.cluster_files import ETCD
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import read_properties
from pk.cli.up.logs import log_to_stderr
from pk.cli.up.node import (
    HOST,
    PORT,
    broker_config,
    check_directory,
    check_port,
    ready_line,
    remove_tree,
    run_broker,
    say_stopped,
)
from pk.cli.up.options import Up
from pk.cli.up.schema_registry import check_registry, registry_port, serve_beside
from pk.cli.up.secure import CONTROLLER, Secured, check_keys, is_secured
from pk.cli.up.secure import LISTENER as SECURED_LISTENER

FIRST_NODE = "1"
_ROLES = ("process.roles", "controller.listener.names", "listener.security.protocol.map")


def _node_id(directory: str) -> str:
    """The node id of an existing data directory, which need not be 1 after `pk log adopt`."""
    from pk.core.log.disk import RealDisk
    from pk.core.log.failures import LogDirError
    from pk.core.log.log_dir import read_meta_properties

    try:
        return str(read_meta_properties(RealDisk(read_only=True), directory).node_id)
    except (OSError, LogDirError):
        return FIRST_NODE  # a new directory, or starting the broker reports the problem


def _given(options: Up, directory: str, secured: Secured | None) -> dict[str, str]:
    """The broker's config: pk's defaults, overridden by the file, then by options, then by -X."""
    port = check_port(PORT if options.port is None else options.port)
    given = {
        "node.id": _node_id(options.data) if options.data is not None else FIRST_NODE,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": directory,
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "pk.remote.metadata.replication.factor": "1",
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
    if secured is not None:
        return _secured(said, options, secured)
    if "listeners" not in dict(options.properties) and not any(key in said for key in _ROLES):
        # Controller requests have a listener of their own, as in Kafka.
        said["listeners"] += f",CONTROLLER://{HOST}:0"
        said["controller.listener.names"] = "CONTROLLER"
    return said


def _secured(given: dict[str, str], options: Up, secured: Secured) -> dict[str, str]:
    """The config of a broker that serves only secured listeners. Raises Unusable, CommandError."""
    check_keys(given)
    for key in ("listeners", "advertised.listeners", *_ROLES):
        if key in options_of(options):
            raise Unusable(f"{key}: pk up --secure sets it. --port chooses the port.")
    port = check_port(PORT if options.port is None else options.port)
    return {
        **secured.config_of(given["node.id"]),
        **given,
        "listeners": f"{SECURED_LISTENER}://{HOST}:{port},{CONTROLLER}://{HOST}:0",
        "controller.listener.names": CONTROLLER,
    }


def options_of(options: Up) -> dict[str, str]:
    """The user's options, from the file and from -X."""
    in_file = read_properties(options.config_file) if options.config_file else {}
    return in_file | dict(options.properties)


async def up(context: Context, options: Up) -> int:
    """Run `pk up`."""
    from pk.cli.up.cluster import brokers_of, up_cluster

    started = time.monotonic()
    if options.memory and options.data is not None:
        raise Unusable("--memory keeps nothing on disk; it cannot be combined with --data.")
    if options.data is not None:
        check_directory(options.data)
    check_registry(registry_port(options), secure=options.secure)
    log_to_stderr()
    if (brokers := brokers_of(options)) > 1 or options.store == ETCD:
        return await up_cluster(context, options, brokers)
    user_gave = options_of(options)
    named = options.data or user_gave.get("log.dirs") or user_gave.get("log.dir")
    temporary = None
    if options.memory:
        directory, where = "/memory", "in memory"
    elif named:
        directory, where = options.data or "", "on disk"
    else:
        directory = temporary = tempfile.mkdtemp(prefix="pk-")
        where = "in a temporary directory"
    with contextlib.ExitStack() as stack:
        if temporary is not None:
            stack.callback(remove_tree, temporary)
        secured = None
        beside = (named or directory).split(",")[0].strip()
        if options.secure or (not options.memory and is_secured(beside)):
            if options.memory:
                beside = tempfile.mkdtemp(prefix="pk-")
                stack.callback(remove_tree, beside)
            secured = Secured(beside)
            if options.memory or temporary is not None:
                stack.callback(secured.close)
        config = broker_config(_given(options, directory, secured))

        async with trio.open_nursery() as nursery:

            async def tell(address: str) -> None:
                hints = await secured.open_to(address) if secured is not None else ()
                context.write(ready_line(config, address, started, where))
                for line in hints:
                    context.say(line)
                registry = registry_port(options)
                if registry is not None:
                    nursery.start_soon(serve_beside, address, registry, context.write)

            ended = await run_broker(config, memory=options.memory, on_ready=tell)
            nursery.cancel_scope.cancel()
        say_stopped(context, f"Broker {config.node_id}")
        return ended
