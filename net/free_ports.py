"""Finds ports for programs that cannot choose one themselves and must keep it when they restart."""

import random
import secrets
import socket
from collections.abc import Sequence


def free_ports(host: str, ports: Sequence[int], count: int) -> list[int]:
    """Return `count` random ports from `ports` on which nothing listens at `host` now; fewer if
    there are not enough."""
    found: list[int] = []
    for port in random.Random(secrets.randbits(64)).sample(ports, len(ports)):
        if len(found) == count:
            break
        with socket.socket() as one:
            try:
                one.bind((host, port))
            except OSError:
                continue
        found.append(port)
    return found
