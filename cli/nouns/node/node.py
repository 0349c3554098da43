"""`pk node start`, `stop` and `status`: manage a broker with a Kafka config file. With the number
of a node, these and `kill`, `restart`, `pause` and `resume` manage a node of `pk up --brokers
N`."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.nouns.node.options import StartNode, StopNode
from pk.cli.nouns.node.rows import DetachedBrokerRow, NodeRow
from pk.cli.options.values import Pair
from pk.cli.output.rows import listing
from pk.cli.runtime import cluster_files
from pk.cli.runtime.cluster_files import ETCD, is_held
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import read_properties
from pk.core.durations import Duration

_PID, _LOG, _LOCK = "pk.pid", "pk.log", ".lock"


def _given(
    config_file: str | None,
    properties: Iterable[Pair],
    data: str | None,
    port: int | None = None,
) -> dict[str, str]:
    """The broker's configs: the file's, then the options', then those of -X. Raises Unusable
    without log.dirs."""
    given = read_properties(config_file) if config_file else {}
    if data is not None:
        given["log.dirs"] = data
    if port is not None:
        from pk.cli.up.node import check_port

        given["listeners"] = f"PLAINTEXT://:{check_port(port)}"
    given |= dict(properties)
    if not given.get("log.dirs") and not given.get("log.dir"):
        raise Unusable(
            "Give the data directory: --data DIR, or log.dirs in the config file or with -X."
        )
    return given


def _directory(given: dict[str, str]) -> str:
    """The directory of pk.pid and pk.log: the first of the log directories."""
    return (given.get("log.dirs") or given["log.dir"]).split(",")[0].strip()


def start(context: Context, options: StartNode) -> int | None:
    """Run `pk node start`."""
    if options.node is not None:
        _check_node(context)
        return _of_cluster(context, "start", options.node, options.data, options.timeout.s)
    given = _given(options.config_file, options.properties, options.data, options.port)
    if options.detach:
        return _start_detached(context, options, given)
    from pk.cli.runtime.connect import run

    return run(lambda context: _foreground(context, given), context)


async def _foreground(context: Context, given: dict[str, str]) -> int:
    from pk.cli.up.logs import log_to_stderr
    from pk.cli.up.node import broker_config, ready_line, run_broker

    started = time.monotonic()
    log_to_stderr()
    if "node.id" not in given and "broker.id" not in given:
        raise Unusable("Give the node id: -X node.id=1, or node.id in the config file.")
    config = broker_config(given)
    directory = _directory(given)
    notify = int(os.environ.pop("PK_NOTIFY_FD", "-1"))
    pid_file = os.path.join(directory, _PID) if notify >= 0 else None

    async def on_ready(address: str) -> None:
        tell(address)

    def tell(address: str) -> None:
        line = ready_line(config, address, started, f"data in {directory}")
        context.write(line)
        if pid_file is not None:
            with open(pid_file, "w", encoding="ascii") as file:
                file.write(f"{os.getpid()}\n")
            os.write(notify, line)
            os.close(notify)

    try:
        return await run_broker(config, memory=False, on_ready=on_ready)
    finally:
        _forget(pid_file)


def _forget(pid_file: str | None) -> None:
    if pid_file is not None:
        try:
            os.unlink(pid_file)
        except FileNotFoundError:
            return


def _start_detached(context: Context, options: StartNode, given: dict[str, str]) -> int:
    """Start a process of its own, and wait for its ready line or its end."""
    directory = _directory(given)
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as e:
        raise CommandError(f"{directory}: {e.strerror}.") from None
    running = running_pid(directory)
    if running is not None:
        raise CommandError(
            f"A broker is already running in {directory}, as process {running}; `pk node stop` "
            "stops it."
        )
    words = [sys.executable, "-m", "pk.cli.main", "node", "start", *_asked(options)]
    reader, writer = os.pipe()
    log_path = os.path.join(directory, _LOG)
    with open(log_path, "ab") as log:
        before = log.tell()
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(writer,),
            env={**os.environ, "PK_NOTIFY_FD": str(writer)},
        )
    os.close(writer)
    line = _await_line(reader)
    os.close(reader)
    if line:
        context.write(line)
        return Exit.OK
    code = child.wait()
    with open(log_path, "rb") as log:
        log.seek(before)
        said = log.read().decode(errors="replace").strip().splitlines()
    raise CommandError(
        (
            f"The broker did not start: {said[-1] if said else f'it exited with code {code}'} "
            f"(more in {log_path})"
        ),
        Exit(code) if code in set(Exit) and code else Exit.FAILED,
    )


def _asked(options: StartNode) -> list[str]:
    """The words of the command line that identify the broker, without secrets, since anyone can
    read the arguments of a process."""
    named = {"--config-file": options.config_file, "--data": options.data, "--port": options.port}
    words = [f"{name}={value}" for name, value in named.items() if value is not None]
    return words + [f"-X{key}={value}" for key, value in options.properties]


def _await_line(reader: int) -> bytes:
    """Read the line that is written to a pipe; empty if the pipe closes without one."""
    data = b""
    while not data.endswith(b"\n"):
        select.select([reader], [], [])
        more = os.read(reader, 4096)
        if not more:
            break
        data += more
    return data


def running_pid(directory: str) -> int | None:
    """The pid of the detached broker in `directory`; None if it does not run, even if pk.pid has a
    pid."""
    try:
        with open(os.path.join(directory, _PID), encoding="ascii") as file:
            pid = int(file.read())
    except (OSError, ValueError):
        return None
    return pid if _alive(pid) and is_held(directory) else None


def stop(context: Context, options: StopNode) -> int | None:
    """Run `pk node stop`."""
    if options.node is not None:
        _check_node(context)
        return _of_cluster(context, "stop", options.node, options.data, options.timeout.s)
    directory = _directory(_given(options.config_file, options.properties, options.data))
    pid = running_pid(directory)
    if pid is None:
        if is_held(directory):
            raise CommandError(
                f"The broker in {directory} was not started with --detach; stop it where it runs "
                "(Ctrl-C, or SIGTERM)."
            )
        raise CommandError(f"No broker is running in {directory}.")
    try:
        os.kill(pid, signal.SIGTERM)
    except OSError as e:
        raise CommandError(f"Process {pid} cannot be stopped: {e.strerror}.") from None
    deadline = time.monotonic() + options.timeout.s
    while is_held(directory) and _alive(pid):
        if time.monotonic() > deadline:
            raise CommandError(
                f"The broker (process {pid}) is still draining after {options.timeout.s:g} s; "
                f"another `kill -TERM {pid}` ends it at once.",
                Exit.TIMED_OUT,
            )
        time.sleep(0.02)
    _forget(os.path.join(directory, _PID))
    context.say(f"The broker in {directory} has stopped.")
    return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def status(
    context: Context, config_file: str | None, properties: Sequence[Pair], data: str | None
) -> int:
    """Run `pk node status`. The exit code is 1 if the broker, or any node of the cluster, is not
    running."""
    if (state := _cluster_asked_for(config_file, properties, data)) is not None:
        return _cluster_status(context, state)
    directory = _directory(_given(config_file, properties, data))
    running = is_held(directory)
    log = os.path.join(directory, _LOG)
    row: DetachedBrokerRow = {
        "directory": directory,
        "running": running,
        "pid": running_pid(directory),
        "log": log if os.path.exists(log) else None,
    }
    context.show(listing(DetachedBrokerRow, [row]))
    return Exit.OK if running else Exit.FAILED


# --- of a cluster of `pk up --brokers N` ---


def kill(context: Context, node: int, data: str | None, timeout: Duration) -> int:
    """Run `pk node kill`."""
    return _of_cluster(context, "kill", node, data, timeout.s)


def restart(context: Context, node: int, data: str | None, timeout: Duration) -> int:
    """Run `pk node restart`."""
    return _of_cluster(context, "restart", node, data, timeout.s)


def pause(context: Context, node: int, data: str | None, timeout: Duration) -> int:
    """Run `pk node pause`."""
    return _of_cluster(context, "pause", node, data, timeout.s)


def resume(context: Context, node: int, data: str | None, timeout: Duration) -> int:
    """Run `pk node resume`."""
    return _of_cluster(context, "resume", node, data, timeout.s)


_DONE = {
    "start": "is ready at {address}",
    "stop": "has stopped",
    "kill": "was killed",
    "restart": "is ready again at {address}",
    "pause": "is paused",
    "resume": "has resumed",
}


_OF_A_BROKER = {
    "config_file": "--config-file",
    "properties": "-X",
    "port": "--port",
    "detach": "--detach",
}
"""The options that describe a broker, which `pk up` has set for its nodes."""


def _check_node(context: Context) -> None:
    """Raise Unusable if an option is given that does not apply to a node of a cluster."""
    for dest, name in _OF_A_BROKER.items():
        if context.given(dest):
            raise Unusable(
                f"`pk up` has set the options of its nodes; {name} cannot be combined "
                "with a node's number."
            )


def _of_cluster(context: Context, do: str, number: int, data: str | None, timeout_s: float) -> int:
    state = cluster_files.find(data)
    node = cluster_files.command(state, do, number, timeout_s)
    what = {"controller": "The controller", ETCD: node.name}.get(node.role, f"Broker {node.node}")
    context.say(f"{what} {_DONE[do].format(address=node.address)}.")
    return Exit.OK


def _cluster_asked_for(
    config_file: str | None, properties: Sequence[Pair], data: str | None
) -> cluster_files.ClusterState | None:
    """The cluster for `status`: the one in --data or, if nothing names a broker, the only one that
    runs."""
    if data is not None:
        return cluster_files.read_state(data)
    if config_file or properties or not cluster_files.running():
        return None
    return cluster_files.find(None)


def _cluster_status(context: Context, state: cluster_files.ClusterState) -> int:
    runs = is_held(state.directory)
    rows: list[NodeRow] = [
        {
            "node": node.node,
            "role": node.role,
            "state": node.state if runs else cluster_files.STOPPED,
            "address": node.address,
            "pid": node.pid if runs else None,
            "starts": node.starts,
            "directory": node.directory,
        }
        for node in state.nodes
    ]
    context.show(listing(NodeRow, rows))
    all_run = runs and all(node.state == cluster_files.RUNNING for node in state.nodes)
    return Exit.OK if all_run else Exit.FAILED
