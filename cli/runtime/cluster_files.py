"""The files in the directory of a `pk up --brokers N` cluster, with which other commands find and
control it.

    DIR/.lock             held by `pk up` while it runs
    DIR/pk-cluster.json   the nodes and their state; each change replaces the file
    DIR/pk-cluster.pipe   commands for `pk up`, each a line of JSON:
                          {"id": …, "do": "kill", "node": 2}
    DIR/controller, DIR/broker-1, DIR/broker-2, …, DIR/etcd-101, …

The response to a command appears under its id in `answers` of pk-cluster.json. The clusters that
run on this machine are listed in the user's state directory: each has a small file, whose name is
the process id of its `pk up`, and which is valid while the lock is held.
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shlex
import time
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, field, to_builtins

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.runtime.paths import make_user_dir, user_dir

STATE: Final = "pk-cluster.json"
PIPE: Final = "pk-cluster.pipe"
LOCK: Final = ".lock"
VERSION: Final = 1
ANSWERS_KEPT: Final = 50
POLL_S: Final = 0.02

ETCD: Final = "etcd"
"""The role of a member of etcd."""

RUNNING: Final = "running"
STARTING: Final = "starting"
PAUSED: Final = "paused"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
DEAD: Final = "dead"
"""The node ended without a request to do so."""
RESTARTING: Final = "restarting"
"""The node ended without a request to do so, and will be started again after a pause."""


class NodeState(Struct):
    """A node of a cluster."""

    node: int
    role: str
    """broker, controller, both with a comma, or etcd."""
    directory: str
    address: str | None = None
    """The node's address for clients (those of controllers and etcd are for brokers), once it was
    ready."""
    pid: int | None = None
    state: str = STARTING
    starts: int = 0
    peer: str | None = None
    """The address of a member of etcd for the other members."""

    @property
    def name(self) -> str:
        """The node's name in messages."""
        return "controller" if self.role == "controller" else f"{self._kind} {self.node}"

    @property
    def is_broker(self) -> bool:
        """Whether clients connect to the node."""
        return self._kind == "broker"

    @property
    def _kind(self) -> str:
        return self.role.partition(",")[0]


class ClusterState(Struct):
    """The content of pk-cluster.json."""

    pid: int
    """The process id of `pk up`."""
    directory: str
    brokers: int
    store: str
    bootstrap: str
    """The brokers' addresses, separated by commas."""
    nodes: list[NodeState]
    answers: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Id of a command → the error; None if it succeeded."""

    def node(self, number: int) -> NodeState:
        """The node with this id. Raises CommandError."""
        for node in self.nodes:
            if node.node == number:
                return node
        there = ", ".join(str(node.node) for node in self.nodes)
        raise CommandError(f"The cluster in {self.directory} has no node {number}; it has {there}.")


def write_state(state: ClusterState) -> None:
    """Replace pk-cluster.json. Raises OSError."""
    while len(state.answers) > ANSWERS_KEPT:
        del state.answers[next(iter(state.answers))]
    path = os.path.join(state.directory, STATE)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({"version": VERSION, **to_builtins(state)}, file, indent=1)
    os.replace(f"{path}.new", path)


def read_state(directory: str) -> ClusterState | None:
    """Read the state of the cluster in a directory, whether it runs or not; None if there is none.
    Raises CommandError."""
    path = os.path.join(directory, STATE)
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        if found.pop("version") != VERSION:
            raise CommandError(f"{path} was written by another version of pk.")
        nodes = [NodeState(**node) for node in found.pop("nodes")]
        return ClusterState(nodes=nodes, **found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise CommandError(f"{path} cannot be read: {e}.") from e


def hold(directory: str) -> int:
    """Lock a cluster's directory. Returns the descriptor of the lock. Raises CommandError."""
    fd = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 200, 0).decode(errors="replace").strip() or "another process"
        os.close(fd)
        raise CommandError(f"{directory} is in use: {holder} holds {LOCK} in it.") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"pk up, process {os.getpid()}\n".encode(), 0)
    return fd


def is_held(directory: str) -> bool:
    """Whether a process holds the lock of a data directory."""
    try:
        fd = os.open(os.path.join(directory, LOCK), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


# --- which clusters run ---


def enlist(directory: str) -> str | None:
    """Record the cluster of this process, so that commands find it. Returns the path to delete at
    the end; None if it cannot be written."""
    try:
        folder = os.path.join(make_user_dir("state"), "clusters")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, f"{os.getpid()}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"directory": os.path.abspath(directory)}, file)
    except OSError:
        return None
    return path


def running() -> list[str]:
    """The directories of the clusters that run on this machine. Deletes the records of those that
    do not."""
    folder = os.path.join(user_dir("state"), "clusters")
    found: list[str] = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            try:
                with open(path, encoding="utf-8") as file:
                    directory = json.load(file)["directory"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if is_held(directory):
                found.append(directory)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(path)
    return found


def nodes_running() -> list[tuple[str, str]]:
    """The nodes of those clusters: the id, role and state of each. Files that cannot be read are
    skipped."""
    found: list[tuple[str, str]] = []
    for directory in running():
        with contextlib.suppress(CommandError):
            state = read_state(directory)
            nodes = state.nodes if state else ()
            found += [(str(node.node), f"{node.role}, {node.state}") for node in nodes]
    return found


def at(addresses: Iterable[str]) -> ClusterState | None:
    """The running cluster of this machine with a node at one of these addresses."""
    wanted = set(addresses)
    for directory in running():
        with contextlib.suppress(CommandError):
            state = read_state(directory)
            if state is not None and any(node.address in wanted for node in state.nodes):
                return state
    return None


def another_address() -> str | None:
    """The address of a running broker of a cluster on this machine; None if there is none."""
    for directory in running():
        with contextlib.suppress(CommandError):
            state = read_state(directory)
            for node in state.nodes if state is not None else ():
                if node.is_broker and node.address and node.state == RUNNING:
                    return node.address
    return None


_WHY_SILENT: Final = {
    STOPPED: ("was stopped or killed", "start"),
    DEAD: ("has died", "start"),
    PAUSED: ("is paused", "resume"),
}
"""State → why the node does not answer, and the verb of `pk node` that changes this."""


def silent_controller(addresses: Iterable[str]) -> tuple[str, str] | None:
    """Why the cluster with these addresses has no controller that could answer, and the command
    that starts it; None if one runs, or it is not a cluster on this machine."""
    state = at(addresses)
    if state is None:
        return None
    controllers = [node for node in state.nodes if "controller" in node.role]
    if not controllers or any(node.state not in _WHY_SILENT for node in controllers):
        return None
    node = controllers[0]
    why, _ = _WHY_SILENT[node.state]
    said = (
        f"The controller, node {node.node} of the cluster in {state.directory}, {why}, and nothing "
        "can be changed without it"
    )
    return said, start_command(state, node)


def start_command(state: ClusterState, node: NodeState) -> str:
    """The command that starts or resumes a stopped or paused node."""
    _, verb = _WHY_SILENT.get(node.state, ("", "start"))
    several = f" --data {shlex.quote(state.directory)}" if len(running()) > 1 else ""
    return f"pk node {verb} {node.node}{several}"


def start_commands(addresses: Iterable[str]) -> dict[int, str]:
    """Stopped or paused node of the cluster with these addresses → the command that starts or
    resumes it; empty if it is not a cluster on this machine."""
    state = at(addresses)
    nodes = state.nodes if state is not None else ()
    return {
        node.node: start_command(state, node)
        for node in nodes
        if state and node.state in _WHY_SILENT
    }


def silent_nodes(addresses: Iterable[str]) -> str | None:
    """The nodes of the cluster with these addresses that do not run, and how to restart them; None
    if all run, or it is not a cluster on this machine."""
    state = at(addresses)
    dead = [node for node in state.nodes if node.state in _WHY_SILENT] if state else []
    if state is None or not dead:
        return None
    said = [f"node {node.node} {_WHY_SILENT[node.state][0]}" for node in dead]
    steps = " and ".join(f"`{start_command(state, node)}`" for node in dead)
    brings = "brings it" if len(dead) == 1 else "bring them"
    return f"{', '.join(said)}: {steps} {brings} back"


def find(data: str | None) -> ClusterState:
    """The cluster that runs in `data`, or the only one on this machine. Raises CommandError,
    Unusable."""
    if data is None:
        there = running()
        if not there:
            raise CommandError("No cluster runs on this machine: `pk up --brokers 3` starts one.")
        if len(there) > 1:
            raise Unusable(
                "Several clusters run on this machine; say which: --data "
                f"{' or --data '.join(there)}."
            )
        data = there[0]
    state = read_state(data)
    if state is None:
        raise CommandError(f"{data} does not contain a cluster of `pk up --brokers N`.")
    if not is_held(data):
        raise CommandError(f"The cluster in {data} is not running.")
    return state


# --- commands ---


def make_pipe(directory: str) -> int:
    """Make the pipe for commands, for reading. It is open for writing too, so that reading never
    ends. Raises OSError."""
    path = os.path.join(directory, PIPE)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def command(state: ClusterState, do: str, node: int, timeout_s: float) -> NodeState:
    """Send `pk up` a command for a node, and wait until it is done. Returns the new state of the
    node. Raises CommandError."""
    state.node(node)
    number = secrets.token_hex(8)
    line = json.dumps({"id": number, "do": do, "node": node}).encode() + b"\n"
    try:
        fd = os.open(os.path.join(state.directory, PIPE), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(fd, line)  # shorter than PIPE_BUF, so the write is atomic
        finally:
            os.close(fd)
    except OSError as e:
        why = "it is not running" if e.errno in (errno.ENXIO, errno.ENOENT) else e.strerror
        raise CommandError(f"The cluster in {state.directory} cannot be reached: {why}.") from None
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        now = read_state(state.directory)
        if now is not None and number in now.answers:
            if (wrong := now.answers[number]) is not None:
                raise CommandError(f"{wrong[:1].upper()}{wrong[1:]}")
            return now.node(node)
        if now is None or not is_held(state.directory):
            raise CommandError(f"The cluster in {state.directory} has stopped.")
        time.sleep(POLL_S)
    raise CommandError(f"Node {node} did not finish within {timeout_s:g} s.", Exit.TIMED_OUT)
