"""A member of etcd below `pk up`, as a process of its own: `python -m pk.cli.up.etcd_member
etcd-101`.

The job arrives as a line of JSON on standard input, which stays open. This process forks a second
one that watches, and then becomes etcd, so that its parent sees the end of etcd itself. The
watching process writes the member's address to standard output, as a line of JSON, once the member
has a leader. When standard input closes, it ends the member, since etcd itself does not notice that
its parent has ended. It waits before it does so, since the brokers need the member for their
shutdown.
"""

import contextlib
import json
import os
import select
import signal
import ssl
import sys
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final

LOOK_S: Final = 0.05
"""How often the member is asked whether it is ready, in seconds."""

ANSWER_S: Final = 2.0

CHECK_S: Final = 1.0
"""How often to check whether the member runs, in seconds."""

BROKERS_END_S: Final = 6.0
"""How long the brokers may take to shut down once their parent has ended."""

MEMBER_ENDS_S: Final = 5.0


def main() -> int:
    """Run the member. Returns only in the process that watches."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 0  # the parent ended before it sent the job
    job = json.loads(line)
    member = os.getpid()
    if os.fork():
        program = job["program"]
        # etcd refuses an option that is also in a variable.
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ETCD_")}
        machine = {"aarch64": "arm64"}.get(os.uname().machine)
        if machine is not None:  # etcd 3.4 requires this option
            kept["ETCD_UNSUPPORTED_ARCH"] = machine
        os.execve(program[0], program, kept)
    _watch(member, job)
    return 0


def _watch(member: int, job: Mapping[str, Any]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    context = None
    if "ca" in job:
        context = ssl.create_default_context(cafile=job["ca"])
        context.load_cert_chain(job["certificate"])
    while _lives(member) and not _parent_ended(LOOK_S):
        if _is_ready(job["address"], context):
            sys.stdout.write(json.dumps({"address": job["address"]}) + "\n")
            sys.stdout.flush()
            break
    # The parent reads both until they close, which they do with the member.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    while _lives(member) and not _parent_ended(CHECK_S):
        pass
    for number, wait_s in (
        (0, BROKERS_END_S),
        (signal.SIGTERM, MEMBER_ENDS_S),
        (signal.SIGKILL, 0),
    ):
        deadline = time.monotonic() + wait_s
        if _lives(member):
            os.kill(member, number)
        while _lives(member) and time.monotonic() < deadline:
            time.sleep(LOOK_S)


def _lives(member: int) -> bool:
    """Whether the member runs: it is the parent of this process."""
    return os.getppid() == member


def _parent_ended(wait_s: float) -> bool:
    """Whether the parent of both has ended, which closes standard input."""
    readable, _, _ = select.select([0], [], [], wait_s)
    return bool(readable) and not os.read(0, 1)


def _is_ready(address: str, context: ssl.SSLContext | None) -> bool:
    if context is None:
        connection = HTTPConnection(address, timeout=ANSWER_S)
    else:
        connection = HTTPSConnection(address, timeout=ANSWER_S, context=context)
    try:
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            return json.loads(connection.getresponse().read()).get("health") == "true"
    except (OSError, ValueError, HTTPException):
        return False


if __name__ == "__main__":
    sys.exit(main())
