"""The parent of a cluster on this machine: it runs no broker itself, it starts them, watches them, and does what is asked.

Each node is a process (`cli/up/child.py`) in a process group of its own, so that Ctrl-C reaches this one alone: it knows in which
order they end, brokers first, all at once, the controller last. A node that ends by itself is reported and left as it is, as
Kafka would: who wants it back says `pk broker start`. What the nodes write to standard error comes out here, each line with the
node's name before it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final

import trio

from pk.cli.runtime.exits import CommandError
from pk.cli.terminal.text import escaped_lines
from pk.cli.up import cluster_files
from pk.cli.up.cluster_files import (
    DEAD,
    PAUSED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    ClusterState,
    NodeState,
)

CONTROLLER: Final = 0
"""The id of the node that is a controller only."""

LINE_BYTES_MAX: Final = 1 << 16

ConfigOf = Callable[[NodeState], Mapping[str, str]]
"""What a node is to run with, known when it starts: the controller's address is not, before."""


class _Child:
    """One life of one node."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.ready = trio.Event()
        self.ended = trio.Event()
        self.asked = False
        """Whether its end was asked for."""


class Supervisor:
    """See the top of this file. Its tasks live in the nursery."""

    def __init__(
        self,
        state: ClusterState,
        config_of: ConfigOf,
        nursery: trio.Nursery,
        *,
        memory: bool,
        say: Callable[[str], None],
    ) -> None:
        """`say` takes lines for the person who looks."""
        self.state = state
        self._config_of = config_of
        self._nursery = nursery
        self._memory = memory
        self._say = say
        self._children: dict[int, _Child] = {}
        self._spawning: set[int] = set()
        """Nodes whose process is being made: who asks for the same meanwhile is refused, not given a second one."""
        self._width = max(len(name_of(node)) for node in state.nodes)

    async def start_all(self) -> None:
        """Start every node; returns when all serve. Raises CommandError when one ends instead."""
        nodes = self.state.nodes
        for node in nodes:
            await self._spawn(node)
        for together in (
            [node for node in nodes if node.node == CONTROLLER],
            [node for node in nodes if node.node != CONTROLLER],
        ):
            for node in together:
                await self._begin(node)
            for node in together:
                await self._await_ready(node)

    async def stop_all(self) -> None:
        """Drain the brokers, all at once, then the controller."""
        nodes = self.state.nodes
        for together in (
            [node for node in nodes if node.node != CONTROLLER],
            [node for node in nodes if node.node == CONTROLLER],
        ):
            async with trio.open_nursery() as nursery:
                for node in together:
                    if node.node in self._children:
                        nursery.start_soon(self._stop, node)

    def kill_all(self) -> None:
        """End every node at once."""
        for child in self._children.values():
            child.asked = True
            child.process.kill()

    async def all_ended(self) -> None:
        """Wait until no process is left."""
        for child in list(self._children.values()):
            await child.ended.wait()

    async def obey(self, pipe: int) -> None:
        """Do what comes through the pipe, until cancelled."""
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
                    continue  # whoever can write here is this user, and mistaken
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
        name = name_of(node)
        if node.node in self._spawning:
            raise CommandError(f"{name} is being started already.")
        if do == "start":
            if runs:
                raise CommandError(f"{name} runs already, as process {node.pid}.")
        elif not runs and do != "restart":
            raise CommandError(f"{name} does not run.")
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
                raise CommandError(f"Nobody knows how to {do} a node.")

    async def _start(self, node: NodeState) -> None:
        await self._spawn(node)
        await self._begin(node)
        await self._await_ready(node)
        self._say(f"{name_of(node)} is ready at {node.address}, process {node.pid}")

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

    def _signal(self, node: NodeState, number: int) -> None:
        self._children[node.node].process.send_signal(number)

    async def _spawn(self, node: NodeState) -> None:
        """Start the process; it waits for its config."""
        self._spawning.add(node.node)
        try:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "pk.cli.up.child", name_of(node).replace(" ", "-")],
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
        job = {"config": dict(self._config_of(node)), "memory": self._memory}
        stdin = self._children[node.node].process.stdin
        assert stdin is not None
        try:
            await stdin.send_all(json.dumps(job).encode() + b"\n")
        except trio.BrokenResourceError:
            return  # it has ended: whoever waits for it is told

    async def _await_ready(self, node: NodeState) -> None:
        child = self._children.get(node.node)
        if child is not None:
            async with trio.open_nursery() as nursery:
                for event in (child.ready, child.ended):
                    nursery.start_soon(_cancel_when, event, nursery.cancel_scope)
            if not child.ended.is_set():
                return
        raise CommandError(f"{name_of(node)} did not start.")

    async def _watch(self, node: NodeState, child: _Child) -> None:
        """A child's life: what it says, and its end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_ready, node, child)
            nursery.start_soon(self._pass_on, node, child)
            status = await child.process.wait()
        assert child.process.stdin is not None
        await child.process.stdin.aclose()
        if self._children.get(node.node) is child:
            del self._children[node.node]
        node.pid = None
        self._move(node, STOPPED if child.asked else DEAD)
        # Said when the state says it too: whoever reads it here may look there.
        if not child.asked and child.ready.is_set():
            again = f"`pk broker start {node.node}` starts it again"
            self._say(f"{name_of(node)} (process {child.process.pid}) {_how(status)}; {again}")
        child.ended.set()

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
                        child.ready.set()

    async def _pass_on(self, node: NodeState, child: _Child) -> None:
        """What it writes to standard error, line by line."""
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
        sys.stderr.write(f"{name_of(node):<{self._width}} | {text}\n")
        sys.stderr.flush()

    def _move(self, node: NodeState, state: str) -> None:
        node.state = state
        self._write()

    def _write(self) -> None:
        self.state.bootstrap = ",".join(
            node.address for node in self.state.nodes if node.node != CONTROLLER and node.address
        )
        cluster_files.write_state(self.state)


def name_of(node: NodeState) -> str:
    """How a node is called."""
    return "controller" if node.node == CONTROLLER else f"broker {node.node}"


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _how(status: int) -> str:
    if status < 0:
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"
    return f"ended by itself, with exit code {status}"
