"""What a cluster of `pk up --brokers N` leaves in its directory for other commands to find, and how they talk to it.

    DIR/.lock             held by `pk up` as long as it runs
    DIR/pk-cluster.json   who runs where, written anew (never in place) with each change
    DIR/pk-cluster.pipe   commands for `pk up`, a line of JSON each: {"id": …, "do": "kill", "node": 2}
    DIR/controller, DIR/broker-1, DIR/broker-2, …

An answer is the entry of its id under `answers` in pk-cluster.json. Which clusters run on this machine is in the user's state
directory: one small file each, by the process id of its `pk up`, that counts while the lock is held.
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pk.cli.runtime.exits import CommandError, Exit, Unusable
from pk.cli.runtime.paths import make_user_dir, user_dir

STATE: Final = "pk-cluster.json"
PIPE: Final = "pk-cluster.pipe"
LOCK: Final = ".lock"
VERSION: Final = 1
ANSWERS_KEPT: Final = 50
POLL_S: Final = 0.02

RUNNING: Final = "running"
STARTING: Final = "starting"
PAUSED: Final = "paused"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
DEAD: Final = "dead"
"""It ended, and nobody had asked it to."""


@dataclass(slots=True)
class NodeState:
    """One node of a cluster."""

    node: int
    role: str
    """broker, controller, or both with a comma."""
    directory: str
    address: str | None = None
    """Where clients reach it (a controller: where brokers do), once it was ready."""
    pid: int | None = None
    state: str = STARTING
    starts: int = 0


@dataclass(slots=True)
class ClusterState:
    """What pk-cluster.json says."""

    pid: int
    """Of `pk up`."""
    directory: str
    brokers: int
    store: str
    bootstrap: str
    """The brokers' addresses, with commas."""
    nodes: list[NodeState]
    answers: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Id of a command → what went wrong, None where nothing did."""

    def node(self, number: int) -> NodeState:
        """The node with this id. Raises CommandError."""
        for node in self.nodes:
            if node.node == number:
                return node
        there = ", ".join(str(node.node) for node in self.nodes)
        raise CommandError(
            f"There is no node {number} in the cluster in {self.directory}; it has {there}."
        )


def write_state(state: ClusterState) -> None:
    """Bring pk-cluster.json up to date, whole. Raises OSError."""
    while len(state.answers) > ANSWERS_KEPT:
        del state.answers[next(iter(state.answers))]
    path = os.path.join(state.directory, STATE)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({"version": VERSION, **asdict(state)}, file, indent=1)
    os.replace(f"{path}.new", path)


def read_state(directory: str) -> ClusterState | None:
    """What the cluster in a directory is, or last was; None where it is none. Raises CommandError."""
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
    """Take the lock of a cluster's directory: its descriptor. Raises CommandError."""
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
    """Whether some process holds the lock of a data directory."""
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
    """Let commands find the cluster of this process; the path to remove at its end. None where that cannot be written."""
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
    """The directories of the clusters that run on this machine. What others left behind is taken away."""
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
    """The nodes of those clusters: the id of each, and what it is and does. What cannot be read is passed over."""
    found: list[tuple[str, str]] = []
    for directory in running():
        with contextlib.suppress(CommandError):
            state = read_state(directory)
            nodes = state.nodes if state else ()
            found += [(str(node.node), f"{node.role}, {node.state}") for node in nodes]
    return found


def find(data: str | None) -> ClusterState:
    """The cluster that runs in `data`, or the only one that runs on this machine. Raises CommandError, Unusable."""
    if data is None:
        there = running()
        if not there:
            raise CommandError("No cluster runs on this machine: `pk up --brokers 3` starts one.")
        if len(there) > 1:
            raise Unusable(
                f"Several clusters run on this machine; say which: --data {' or --data '.join(there)}."
            )
        data = there[0]
    state = read_state(data)
    if state is None:
        raise CommandError(f"{data} holds no cluster of `pk up --brokers N`.")
    if not is_held(data):
        raise CommandError(f"The cluster in {data} does not run.")
    return state


# --- commands ---


def make_pipe(directory: str) -> int:
    """The pipe for commands, to read from; one that never ends, since it is open for writing too. Raises OSError."""
    path = os.path.join(directory, PIPE)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def command(state: ClusterState, do: str, node: int, timeout_s: float) -> NodeState:
    """Have `pk up` do something to a node, and wait until it is done; how the node is then. Raises CommandError."""
    state.node(node)
    number = secrets.token_hex(8)
    line = json.dumps({"id": number, "do": do, "node": node}).encode() + b"\n"
    try:
        fd = os.open(os.path.join(state.directory, PIPE), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(fd, line)  # less than PIPE_BUF: whole or not at all
        finally:
            os.close(fd)
    except OSError as e:
        why = "it does not run" if e.errno in (errno.ENXIO, errno.ENOENT) else e.strerror
        raise CommandError(f"The cluster in {state.directory} cannot be told: {why}.") from None
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        now = read_state(state.directory)
        if now is not None and number in now.answers:
            if (wrong := now.answers[number]) is not None:
                raise CommandError(wrong)
            return now.node(node)
        if now is None or not is_held(state.directory):
            raise CommandError(f"The cluster in {state.directory} has ended.")
        time.sleep(POLL_S)
    raise CommandError(f"Node {node} has not done it within {timeout_s:g} s.", Exit.TIMED_OUT)
