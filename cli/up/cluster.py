"""`pk up --brokers N`: runs several brokers on this machine, each with its own process and
directory."""

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import trio

from pk.cli.exits import CommandError, Unusable
from pk.cli.runtime import cluster_files
from pk.cli.runtime.cluster_files import ETCD, ClusterState, NodeState
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import read_properties
from pk.cli.terminal.text import folded_addresses
from pk.cli.up.etcd import (
    member_job,
    members_of,
    metadata_store,
    required_program,
    store_keys,
)
from pk.cli.up.node import (
    HOST,
    PORT,
    broker_config,
    check_port,
    exit_of_server,
    remove_tree,
    say_stopped,
)
from pk.cli.up.options import Up
from pk.cli.up.schema_registry import registry_port, serve_beside
from pk.cli.up.secure import CONTROLLER as LISTENER
from pk.cli.up.secure import LISTENER as SECURED_LISTENER
from pk.cli.up.secure import Secured, check_keys, is_secured
from pk.cli.up.supervisor import CONTROLLER, Supervisor
from pk.net.shutdown_signals import redirect_closed_terminal, shutdown_signals

EMBEDDED = "embedded"

READY_FD = "PK_READY_FD"
"""The environment variable with a descriptor to which the addresses are written when the cluster is
ready, for programs that start one."""

OURS = (
    "node.id",
    "broker.id",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "log.dir",
    "process.roles",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "pk.metadata.store",
)
"""Configs that differ between nodes, or that make them a cluster. Only `pk up` sets them."""


def brokers_of(options: Up) -> int:
    """The number of brokers: --brokers, or that of the cluster in the directory. Raises
    CommandError."""
    data = options.data
    found = cluster_files.read_state(data) if data is not None else None
    had = found.brokers if found else 1
    wanted = had if options.brokers is None else options.brokers
    if wanted < 1:
        raise Unusable(f"--brokers must be at least 1, not {wanted}.")
    if found is not None and wanted < found.brokers:
        raise Unusable(
            f"{data} belongs to a cluster of {found.brokers} brokers; with {wanted}, some replicas"
            " would have no broker."
        )
    if wanted > 1 and data is not None and found is None:
        single = os.path.join(data, "meta.properties")
        if os.path.exists(single):
            raise Unusable(
                f"{data} belongs to a single broker; --brokers {wanted} needs another directory."
            )
    return wanted


def _given(options: Up, count: int) -> dict[str, str]:
    """The config that all nodes share: pk's defaults, overridden by the file, overridden by -X."""
    from_file = read_properties(options.config_file) if options.config_file else {}
    for key in dict(options.properties):
        if key in OURS:
            raise Unusable(
                f"-X {key} would apply to every broker; `pk up` sets it for each broker."
            )
    given = {
        "offsets.topic.replication.factor": str(min(3, count)),
        "transaction.state.log.replication.factor": str(min(3, count)),
        "transaction.state.log.min.isr": "2" if count >= 3 else "1",
        "share.coordinator.state.topic.replication.factor": str(min(3, count)),
        "share.coordinator.state.topic.min.isr": "2" if count >= 3 else "1",
        "pk.remote.metadata.replication.factor": str(min(3, count)),
        "group.initial.rebalance.delay.ms": "0",
    }
    given |= {key: value for key, value in from_file.items() if key not in OURS}
    return given | dict(options.properties)


def _store(options: Up, found: ClusterState | None) -> str:
    """The metadata store: --store, or that of the cluster in the directory. Raises Unusable."""
    had = found.store if found is not None else None
    store = options.store or had or EMBEDDED
    if had is not None and had.partition(":")[0] != store.partition(":")[0]:
        raise Unusable(f"{options.data} has its metadata in {had}; it cannot be moved to {store}.")
    return store


class _Plan:
    """The config of each node of the cluster."""

    def __init__(
        self,
        given: Mapping[str, str],
        store: str,
        port: int,
        memory: bool,
        nodes: list[NodeState],
        secured: Secured | None,
    ) -> None:
        self._given = given
        self._store = store
        self._port = port
        self._memory = memory
        self._nodes = nodes
        self._members = [node for node in nodes if node.role == ETCD]
        self._secured = secured

    def job_of(self, node: NodeState) -> dict[str, Any]:
        """The start instructions for the process of a node."""
        if node.role == ETCD:
            return member_job(required_program(), node, self._members, self._secured)
        return {"config": self.config_of(node), "memory": self._memory}

    def config_of(self, node: NodeState) -> dict[str, str]:
        """The config for a node that starts now. A node keeps the address that it had before."""
        config = {
            **self._given,
            "node.id": str(node.node),
            "process.roles": node.role,
            "log.dirs": "/memory" if self._memory else node.directory,
            "controller.listener.names": LISTENER,
        }
        clients = "PLAINTEXT"
        if self._secured is not None:
            secured = self._secured.config_of(str(node.node), broker=node.node != CONTROLLER)
            config = secured | config
            clients = SECURED_LISTENER
        if node.node == CONTROLLER:
            config["listeners"] = f"{LISTENER}://{node.address or f'{HOST}:0'}"
            return config
        port = self._port + node.node - 1 if self._port else 0
        config["listeners"] = f"{clients}://{node.address or f'{HOST}:{port}'}"
        if self._store == EMBEDDED:
            address = next(n.address for n in self._nodes if n.node == CONTROLLER)
            config["controller.quorum.bootstrap.servers"] = address or f"{HOST}:1"
            return config
        config["listeners"] += f",{LISTENER}://{HOST}:0"
        if self._store != ETCD:
            return config | {"pk.metadata.store": self._store}
        config["pk.metadata.store"] = metadata_store(self._members)
        return config | store_keys(self._secured, str(node.node))


def _nodes(directory: str, count: int, store: str, found: ClusterState | None) -> list[NodeState]:
    nodes: list[NodeState] = members_of(directory, count, found) if store == ETCD else []
    if store == EMBEDDED:
        nodes.append(NodeState(CONTROLLER, "controller", os.path.join(directory, "controller")))
    role = "broker" if store == EMBEDDED else "broker,controller"
    for number in range(1, count + 1):
        nodes.append(NodeState(number, role, os.path.join(directory, f"broker-{number}")))
    return nodes


async def up_cluster(context: Context, options: Up, count: int) -> int:
    """Run the cluster until a signal arrives, then drain it. A second signal ends it
    immediately."""
    started = time.monotonic()
    # Removed before there are children, which do not have the descriptor.
    notify = int(os.environ.pop(READY_FD, "-1"))
    found = cluster_files.read_state(options.data) if options.data is not None else None
    given, store = _given(options, count), _store(options, found)
    port = check_port(PORT if options.port is None else options.port)
    check_port(port + count - 1)
    temporary = tempfile.mkdtemp(prefix="pk-") if options.data is None else None
    directory = _absolute(temporary or str(options.data))
    nodes = _nodes(directory, count, store, found)
    if store == ETCD:
        _say(f"The metadata is in etcd ({required_program()}), data in {directory}/etcd-*")
    listed: str | None = None
    with contextlib.ExitStack() as stack:
        if temporary is not None:
            stack.callback(remove_tree, temporary)
        secured = None
        if options.secure or is_secured(directory):
            check_keys(given)
            secured = Secured(directory)
            if temporary is not None:
                stack.callback(secured.close)
        plan = _Plan(given, store, port, options.memory, nodes, secured)
        for node in nodes:  # here, so that an error is reported once, not by every node
            if node.role != ETCD:
                broker_config(plan.config_of(node))
        try:
            os.makedirs(directory, exist_ok=True)
            stack.callback(os.close, cluster_files.hold(directory))
            pipe = cluster_files.make_pipe(directory)
        except OSError as e:
            raise CommandError(f"{directory}: {e.strerror}.") from None
        stack.callback(_remove_files, directory, pipe)
        state = ClusterState(os.getpid(), directory, count, store, "", nodes)
        cluster_files.write_state(state)
        if (listed := cluster_files.enlist(directory)) is not None:
            stack.callback(os.unlink, listed)
        where = f"data in {directory}" if temporary is None else "in a temporary directory"
        where = "in memory" if options.memory else where
        with trio.open_signal_receiver(*shutdown_signals()) as signals:
            async with trio.open_nursery() as nursery:
                supervisor = Supervisor(
                    state,
                    plan.job_of,
                    nursery,
                    memory=options.memory,
                    restart=not options.no_restart,
                    say=_say,
                )

                async def run() -> None:
                    await supervisor.start_all()
                    hints = await secured.open_to(state.bootstrap) if secured else ()
                    spent_ms = (time.monotonic() - started) * 1000
                    _show(state)
                    context.write(ready_line(context, count, spent_ms, where, state.bootstrap))
                    if notify >= 0:
                        os.write(notify, f"{state.bootstrap}\n".encode())
                        os.close(notify)
                    for line in hints:
                        _say(line)
                    registry = registry_port(options)
                    if registry is not None:
                        nursery.start_soon(serve_beside, state.bootstrap, registry, context.write)
                    await supervisor.run_commands(pipe)

                ended_by = await _run_until_signal(run, supervisor, signals)
                nursery.cancel_scope.cancel()
    say_stopped(context, "The cluster")
    return exit_of_server(ended_by)


def ready_line(context: Context, count: int, spent_ms: float, where: str, bootstrap: str) -> bytes:
    """The line that says that the cluster is ready; its last word is the addresses. For a terminal,
    it is broken between addresses."""
    said = f"Cluster of {count} brokers is ready after {spent_ms:.0f} ms, {where}, at {bootstrap}"
    if context.streams.out_terminal:
        lines = folded_addresses(said, context.streams.width)
        said = "\n".join(lines)
    return f"{said}\n".encode()


async def _run_until_signal(
    run: Callable[[], Awaitable[None]], supervisor: Supervisor, signals: AsyncIterator[int]
) -> int | None:
    """Run until the first signal, then drain. The second signal kills all nodes. No node is left
    running in any case. Returns the first signal's number."""
    failure: CommandError | None = None
    ended_by: int | None = None
    try:
        async with trio.open_nursery() as nursery:

            async def guarded() -> None:
                nonlocal failure
                try:
                    await run()
                except CommandError as e:
                    failure = e
                    nursery.cancel_scope.cancel()

            nursery.start_soon(guarded)
            async for number in signals:
                ended_by = number
                if number == signal.SIGHUP:
                    redirect_closed_terminal()
                break
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:

            async def drain() -> None:
                await supervisor.stop_all()
                nursery.cancel_scope.cancel()

            nursery.start_soon(drain)
            async for number in signals:
                if number != signal.SIGHUP:  # may come twice if a shell closes with its terminal
                    break
            nursery.cancel_scope.cancel()
    finally:
        supervisor.kill_all()
        with trio.CancelScope(shield=True):
            await supervisor.all_ended()
    if failure is not None:
        raise failure
    return ended_by


def _absolute(path: str) -> str:
    return os.path.abspath(path)


def _remove_files(directory: str, pipe: int) -> None:
    os.close(pipe)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(directory, cluster_files.PIPE))


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the terminal has gone
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _show(state: ClusterState) -> None:
    rows = [("NODE", "ADDRESS", "PROCESS")]
    rows += [(node.name, node.address or "", str(node.pid)) for node in state.nodes]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for name, address, pid in rows:
        _say(f"{name:<{widths[0]}}  {address:<{widths[1]}}  {pid}")
