"""Notifies a service manager, such as systemd, that started the node with `Type=notify`:
sd_notify(3).

The manager names a socket in NOTIFY_SOCKET and receives lines there. Under a service manager,
SIGHUP means "reload your files", not that the terminal has hung up.
"""

import logging
import os
import socket
import time
from typing import Final

logger = logging.getLogger("pk.node")

VARIABLE: Final = "NOTIFY_SOCKET"


class ServiceManager:
    """The service manager that started this process, if any."""

    def __init__(self) -> None:
        """Remove NOTIFY_SOCKET from the environment, so that child processes cannot send
        notifications for this one."""
        self._address = os.environ.pop(VARIABLE, "")

    def __bool__(self) -> bool:
        return bool(self._address)

    def ready(self) -> None:
        """Report that the node serves, for the first time or again."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Report that the node drains."""
        self._tell("STOPPING=1")

    def reloading(self) -> None:
        """Report that the node reloads its files; `ready` follows."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is in Linux's abstract namespace.
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(state.encode(), address)
        except OSError as e:
            logger.warning(
                "the service manager (%s %s) cannot be notified: %s",
                VARIABLE,
                self._address,
                e.strerror,
            )
