"""The parent process of a local cluster: it runs no broker itself, but starts the nodes, watches
them, and handles commands.

Each node is a process (`cli/up/child.py`) in its own process group, so that Ctrl-C reaches only the
parent, which knows the order in which to stop: the brokers together, then the controller or the
members of etcd (`cli/up/etcd_member.py`). A node that ends by itself is reported, and started again
after a pause that grows as long as the node keeps ending soon. A node that a command has ended
stays down until a command starts it.

The parent prints the lines that nodes write to standard error, each prefixed with the name of the
node.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import trio

from pk.cli.exits import CommandError
from pk.cli.runtime import cluster_files
from pk.cli.runtime.cluster_files import (
    DEAD,
    ETCD,
    PAUSED,
    RESTARTING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    ClusterState,
    NodeState,
)
from pk.cli.terminal.text import escaped_lines

CONTROLLER: Final = 0
"""The id of the node that is only a controller."""

LINE_BYTES_MAX: Final = 1 << 16

PAUSE_S_MIN: Final = 1.0
PAUSE_S_MAX: Final = 60.0
"""The longest pause before a node that ended by itself is started again. The pause doubles each
time."""

STEADY_S: Final = 60.0
"""If a node has run for this long, its next end counts as the first."""

JobOf = Callable[[NodeState], Mapping[str, Any]]
"""Computes the start instructions of a node's process when the process starts: only then is the
controller's address known."""


class _Child:
    """One run of a node's process."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.ready = trio.Event()
        self.ended = trio.Event()
        self.asked = False
        """Whether the end of the process was requested."""
        self.ready_at = 0.0
        """The time at which the node was ready."""


class Supervisor:
    """Starts, watches and stops the nodes. Its tasks run in the nursery."""

    def __init__(
        self,
        state: ClusterState,
        job_of: JobOf,
        nursery: trio.Nursery,
        *,
        memory: bool,
        restart: bool,
        say: Callable[[str], None],
    ) -> None:
        """`memory` says whether brokers and controller keep nothing on disk; `restart`, whether
        nodes that end by themselves are started again. `say` prints a line for the user."""
        self.state = state
        self._job_of = job_of
        self._nursery = nursery
        self._memory = memory
        self._restart = restart
        self._say = say
        self._children: dict[int, _Child] = {}
        self._spawning: set[int] = set()
        """Nodes whose process is being started. A second request to start one is refused."""
        self._returning: dict[int, trio.CancelScope] = {}
        """Node that will be started again → the scope that cancels this."""
        self._pauses_s: dict[int, float] = {}
        """The last pause of each node."""
        self._width = max(len(node.name) for node in state.nodes)

    async def start_all(self) -> None:
        """Start every node. Returns when all serve. Raises CommandError if one ends instead."""
        nodes = self.state.nodes
        for node in nodes:
            await self._spawn(node)
        for together in (
            [node for node in nodes if not node.is_broker],
            [node for node in nodes if node.is_broker],
        ):
            for node in together:
                await self._begin(node)
            for node in together:
                await self._await_ready(node)

    async def stop_all(self) -> None:
        """Drain all brokers at once, then stop the controller, or the members of etcd one after
        another: a leader hands over its role, and would wait for members that are ending."""
        self._disable_restarts()
        async with trio.open_nursery() as nursery:
            for node in self.state.nodes:
                if node.is_broker and node.node in self._children:
                    nursery.start_soon(self._stop, node)
        for node in self.state.nodes:
            if node.node in self._children:
                await self._stop(node)

    def kill_all(self) -> None:
        """Kill every node."""
        self._disable_restarts()
        for child in self._children.values():
            child.asked = True
            child.process.kill()

    async def all_ended(self) -> None:
        """Wait until every process has ended."""
        for child in list(self._children.values()):
            await child.ended.wait()

    async def run_commands(self, pipe: int) -> None:
        """Handle commands from the pipe, until cancelled."""
        data = b""
        while True:
            await trio.lowlevel.wait_readable(pipe)
            data += os.read(pipe, LINE_BYTES_MAX)
            *lines, data = data.split(b"\n")
            for line in lines:
                try:
                    asked = json.loads(line)
                    number, do, node = str(asked["id"]), str(asked["do"]), int(asked["node"])
                except (ValueError, KeyError, TypeError):
                    continue  # only this user can write here, so this is a mistake
                self._nursery.start_soon(self._answer, number, do, node)
            if len(data) > LINE_BYTES_MAX:
                data = b""

    async def _answer(self, number: str, do: str, node_id: int) -> None:
        wrong: str | None = None
        try:
            await self._do(do, self.state.node(node_id))
        except CommandError as e:
            wrong = str(e)
        except OSError as e:
            wrong = f"Node {node_id}: {do} failed: {e}."
        self.state.answers[number] = wrong
        self._write()

    async def _do(self, do: str, node: NodeState) -> None:
        runs = node.node in self._children
        name = node.name
        if node.node in self._spawning:
            raise CommandError(f"{name} is already starting.")
        if do == "start":
            if runs:
                raise CommandError(f"{name} is already running, as process {node.pid}.")
        elif not runs and do != "restart":
            if do not in ("stop", "kill") or not self._leave(node):
                raise CommandError(f"{name} is not running.")
            self._move(node, STOPPED)
            return
        self._leave(node)
        match do:
            case "start":
                await self._start(node)
            case "restart":
                if runs:
                    await self._stop(node)
                await self._start(node)
            case "stop":
                await self._stop(node)
            case "kill":
                await self._kill(node)
            case "pause" | "resume":
                pause = do == "pause"
                self._signal(node, signal.SIGSTOP if pause else signal.SIGCONT)
                self._move(node, PAUSED if pause else RUNNING)
            case _:
                raise CommandError(f"Unknown command for a node: {do}.")

    async def _start(self, node: NodeState) -> None:
        await self._spawn(node)
        await self._begin(node)
        await self._await_ready(node)
        self._say(f"{node.name} is ready at {node.address}, process {node.pid}")

    async def _stop(self, node: NodeState) -> None:
        child = self._children[node.node]
        child.asked = True
        paused = node.state == PAUSED
        self._move(node, STOPPING)
        self._signal(node, signal.SIGTERM)
        if paused:
            self._signal(node, signal.SIGCONT)
        await child.ended.wait()

    async def _kill(self, node: NodeState) -> None:
        child = self._children[node.node]
        child.asked = True
        child.process.kill()
        await child.ended.wait()

    def _leave(self, node: NodeState) -> bool:
        """Whether the node was about to be started again; if so, that is cancelled."""
        scope = self._returning.pop(node.node, None)
        if scope is not None:
            scope.cancel()
        return scope is not None

    def _disable_restarts(self) -> None:
        self._restart = False
        for node in self.state.nodes:
            self._leave(node)

    def _signal(self, node: NodeState, number: int) -> None:
        self._children[node.node].process.send_signal(number)

    async def _spawn(self, node: NodeState) -> None:
        """Start the process, which waits for its job."""
        self._spawning.add(node.node)
        try:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", _program_of(node), node.name.replace(" ", "-")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        finally:
            self._spawning.discard(node.node)
        child = self._children[node.node] = _Child(process)
        node.pid, node.starts = process.pid, node.starts + 1
        self._move(node, STARTING)
        self._nursery.start_soon(self._watch, node, child)

    async def _begin(self, node: NodeState) -> None:
        """Send the process its job. A process that has already ended is reported later, when it
        should be ready."""
        child = self._children.get(node.node)
        if child is None:
            return
        job = self._job_of(node)
        assert child.process.stdin is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await child.process.stdin.send_all(json.dumps(job).encode() + b"\n")

    async def _await_ready(self, node: NodeState) -> None:
        child = self._children.get(node.node)
        if child is not None:
            async with trio.open_nursery() as nursery:
                for event in (child.ready, child.ended):
                    nursery.start_soon(_cancel_when, event, nursery.cancel_scope)
            if not child.ended.is_set():
                return
        raise CommandError(f"{node.name} did not start.")

    async def _watch(self, node: NodeState, child: _Child) -> None:
        """Follow a process: its output, and its end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_ready, node, child)
            nursery.start_soon(self._pass_on, node, child)
            status = await child.process.wait()
        assert child.process.stdin is not None
        await child.process.stdin.aclose()
        if self._children.get(node.node) is child:
            del self._children[node.node]
        node.pid = None
        died = not child.asked and child.ready.is_set()
        pause_s = self._next_pause(node, child) if died and self._keeps(node) else None
        ended = DEAD if pause_s is None else RESTARTING
        self._move(node, STOPPED if child.asked else ended)
        # Printed after the state is written, so that a program that reads the line finds the new
        # state.
        if died:
            again = (
                f"`pk node start {node.node}` starts it again"
                if pause_s is None
                else f"it is started again in {pause_s:g} s"
            )
            self._say(f"{node.name} (process {child.process.pid}) {_how(status)}; {again}")
        if pause_s is not None:
            self._returning[node.node] = scope = trio.CancelScope()
            self._nursery.start_soon(self._restart_node, node, pause_s, scope)
        child.ended.set()

    def _keeps(self, node: NodeState) -> bool:
        """Whether the node is started again. A controller with its metadata only in memory would
        begin a new cluster."""
        return self._restart and not (self._memory and node.node == CONTROLLER)

    def _next_pause(self, node: NodeState, child: _Child) -> float:
        last_s = self._pauses_s.get(node.node, 0.0)
        if trio.current_time() - child.ready_at >= STEADY_S:
            last_s = 0.0
        pause_s = self._pauses_s[node.node] = min(max(2 * last_s, PAUSE_S_MIN), PAUSE_S_MAX)
        return pause_s

    async def _restart_node(self, node: NodeState, pause_s: float, scope: trio.CancelScope) -> None:
        """Start a node that ended by itself, after a pause, and wait until it is ready."""
        with scope:
            while True:
                await trio.sleep(pause_s)
                try:
                    await self._start(node)
                except (CommandError, OSError) as e:
                    pause_s = self._pauses_s[node.node] = min(2 * pause_s, PAUSE_S_MAX)
                    self._move(node, RESTARTING)
                    self._say(f"{str(e).rstrip('.')}; it is started again in {pause_s:g} s")
                else:
                    break
        if self._returning.get(node.node) is scope:
            del self._returning[node.node]

    async def _read_ready(self, node: NodeState, child: _Child) -> None:
        stream, data = child.process.stdout, b""
        assert stream is not None
        async with stream:
            while more := await stream.receive_some():
                data += more
                *lines, data = data.split(b"\n")
                for line in lines:
                    if not child.ready.is_set() and line.startswith(b"{"):
                        node.address = json.loads(line)["address"]
                        self._move(node, RUNNING)
                        child.ready_at = trio.current_time()
                        child.ready.set()

    async def _pass_on(self, node: NodeState, child: _Child) -> None:
        """Forward the node's standard error, line by line."""
        stream, data = child.process.stderr, b""
        assert stream is not None
        async with stream:
            while more := await stream.receive_some():
                *lines, data = (data + more).split(b"\n")
                for line in lines:
                    self._line(node, line)
        if data:
            self._line(node, data)

    def _line(self, node: NodeState, line: bytes) -> None:
        text = escaped_lines(line.decode(errors="replace"))
        # An event of pk.log.format=json stays one object on a line; it names its node.
        name = "" if text.startswith('{"time": ') else f"{node.name:<{self._width}} | "
        sys.stderr.write(f"{name}{text}\n")
        sys.stderr.flush()

    def _move(self, node: NodeState, state: str) -> None:
        node.state = state
        self._write()

    def _write(self) -> None:
        self.state.bootstrap = ",".join(
            node.address for node in self.state.nodes if node.is_broker and node.address
        )
        cluster_files.write_state(self.state)


def _program_of(node: NodeState) -> str:
    return "pk.cli.up.etcd_member" if node.role == ETCD else "pk.cli.up.child"


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _how(status: int) -> str:
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"exited with code {status}"
