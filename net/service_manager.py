"""What a node tells a service manager, such as systemd, that started it with `Type=notify`:
sd_notify(3).

The manager names a socket in NOTIFY_SOCKET and takes lines there. Below one, SIGHUP means "read
your files again" and not that a terminal has gone.
"""

import logging
import os
import socket
import time
from typing import Final

logger = logging.getLogger("pk.node")

VARIABLE: Final = "NOTIFY_SOCKET"


class ServiceManager:
    """The one that started this process, if there is one."""

    def __init__(self) -> None:
        """Takes NOTIFY_SOCKET out of the environment: processes that this one starts must not speak
        for it."""
        self._address = os.environ.pop(VARIABLE, "")

    def __bool__(self) -> bool:
        return bool(self._address)

    def ready(self) -> None:
        """The node serves, for the first time or again."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """The node drains."""
        self._tell("STOPPING=1")

    def reloading(self) -> None:
        """The node reads its files again; `ready` follows."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is of Linux's abstract namespace.
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(state.encode(), address)
        except OSError as e:
            logger.warning("%s %s cannot be notified: %s", VARIABLE, self._address, e.strerror)
