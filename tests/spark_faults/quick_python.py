"""A Python that starts at once, for Spark's workers.

Spark starts a process for each stream's reader, and gives it ten seconds to answer. On a busy
machine the imports alone take longer, and a run under faults starts workers all the time. So a
process that has imported everything waits for orders: the program that Spark starts passes it its
arguments, environment and descriptors, and it forks. Whichever of the two is killed, the other ends
too.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IMPORTED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark_pk",
    "spark_faults.faulty",
)
KILLED = 137

CALLER = """\
#!{python} -IS
import json, os, socket, sys
if sys.argv[1] not in ("-m", "-c"):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
order = {{"words": sys.argv[1:], "environ": dict(os.environ), "folder": os.getcwd()}}
data = json.dumps(order).encode()
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
socket.send_fds(connection, [len(data).to_bytes(4, "big")], [0, 1, 2])
connection.sendall(data)
code = connection.recv(1)
os._exit(code[0] if code else {killed})
"""


@contextmanager
def quick_python() -> Iterator[str]:
    """The path of a program that stands for `python` in Spark's `python -m MODULE …` and
    `python -c TEXT`; with other options it is the interpreter itself."""
    with tempfile.TemporaryDirectory(prefix="pk-quick-") as folder:
        address = f"{folder}/socket"
        program = Path(folder) / "python"
        program.write_text(CALLER.format(python=sys.executable, address=address, killed=KILLED))
        program.chmod(0o755)
        path = os.pathsep.join(filter(None, sys.path))
        server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "spark_faults.quick_python", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": path},
        )
        try:
            assert server.stdout is not None
            if not server.stdout.readline():
                raise RuntimeError("no quick Python started")
            yield str(program)
        finally:
            server.kill()
            server.communicate()


def serve(address: str) -> None:
    """Forks for each caller, until the process that started it is gone."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while sys.stdin.fileno() not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _be(connection)
            connection.close()


def _be(connection: socket.socket) -> None:
    """Is the process that the caller asked for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
    data = b""
    while len(data) < int.from_bytes(head, "big"):
        data += connection.recv(1 << 16)
    order = json.loads(data)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["folder"])
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [path for path in paths if path not in sys.path]
    option, what, *words = order["words"]
    sys.argv = [what if option == "-m" else option, *words]

    def end_with_caller() -> None:
        connection.recv(1)
        os._exit(KILLED)

    threading.Thread(target=end_with_caller, daemon=True).start()
    code = 0
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            assert option == "-c", option
            exec(what, {"__name__": "__main__"})  # noqa: S102
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:  # noqa: BLE001 (as the interpreter does)
        code = 1
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed
            stream.flush()
    with suppress(OSError):  # the caller is gone
        connection.send(bytes([code & 255]))
    os._exit(code & 255)


if __name__ == "__main__":
    serve(sys.argv[1])
