"""The program that Spark starts as Python in pk's sessions. It requests a process from the fork
server.

It runs as a script and imports only modules of the standard library, because it must start quickly.
Its arguments are SOCKET PYTHON ARGUMENTS. It runs as long as the requested process, passes SIGTERM
on to it, and exits with its status. If the server is gone or does not support the request, this
process executes PYTHON instead.
"""

import array
import json
import os
import signal
import socket
import struct
import sys

STATUS = struct.Struct("<i")
"""The server's messages: first the process id, then the exit code, or the negative number of the
signal that ended the process."""

SIZE = struct.Struct("<I")


def main(path: str, python: str, arguments: list[str]) -> int:
    """Request a process, and return its exit code. Does not return if this process executes
    PYTHON."""
    asked = socket.socket(socket.AF_UNIX)
    found: bytes = b""
    # Block SIGTERM until the process that must receive it is known.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if arguments[:1] == ["-m"]:
        found = _ask(asked, path, arguments)
    if len(found) < STATUS.size:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.execv(python, [python, *arguments])
    process_id = STATUS.unpack(found)[0]
    signal.signal(signal.SIGTERM, lambda *_: os.kill(process_id, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    ended = asked.recv(STATUS.size, socket.MSG_WAITALL)
    status = STATUS.unpack(ended)[0] if len(ended) == STATUS.size else 1
    return status if status >= 0 else 128 - status


def _ask(asked: socket.socket, path: str, arguments: list[str]) -> bytes:
    """Send the request. Returns the encoded process id, or fewer bytes if there is no server."""
    request = {"arguments": arguments, "folder": os.getcwd(), "environ": dict(os.environ)}
    encoded = json.dumps(request).encode()
    streams = array.array("i", (0, 1, 2)).tobytes()
    try:
        asked.connect(path)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
        asked.sendmsg([SIZE.pack(len(encoded))], rights)
        asked.sendall(encoded)
        return asked.recv(STATUS.size, socket.MSG_WAITALL)
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
