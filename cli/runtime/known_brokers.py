"""The brokers of clusters that commands have talked to: if the address that was given does not
answer, another of the cluster's brokers does.

They come from the last metadata, kept in a small file of the user's state directory for each
cluster's addresses, and from the files of the clusters that `pk up` runs on this machine. Only an
address that the cluster itself advertises is remembered: a tunnel or proxy may lead to another
cluster tomorrow. The files hold addresses and the cluster's id, no secrets.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable

from pk.cli.runtime import cluster_files
from pk.cli.runtime.paths import make_user_dir, user_dir
from pk.net.client.cluster import parse_bootstrap
from pk.net.client.errors import ConfigError
from pk.net.client.node import Node
from pk.net.client.recall import Remembered

_MOST = 50
"""How many brokers are kept of a cluster."""


class KnownBrokers:
    """The brokers of earlier runs. `name` is the profile in use: two of them may lead to different
    clusters at one address."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or ""
        self._written: dict[str, Remembered] = {}

    def brokers(self, given: Iterable[Node]) -> Remembered:
        """The brokers of the cluster that `given` belongs to: those that run on this machine, else
        those of the last metadata."""
        addresses = [node.address for node in given]
        state = cluster_files.at(addresses)
        if state is not None:
            running = [
                node.address
                for node in state.nodes
                if "broker" in node.role and node.state == cluster_files.RUNNING and node.address
            ]
            return Remembered(_nodes(running))
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(self._path(addresses), encoding="utf-8") as file:
                found = json.load(file)
            return Remembered(_nodes(found["brokers"]), str(found["cluster_id"]))
        return Remembered()

    def learned(self, given: Iterable[Node], found: Remembered) -> None:
        """Keep the brokers, if they are others than before."""
        addresses = [node.address for node in given]
        advertised = {node.address for node in found.nodes}
        if found.cluster_id is None or len(advertised) < 2 or advertised.isdisjoint(addresses):
            return
        path = self._path(addresses)
        if self._written.get(path) == found:
            return
        self._written[path] = found
        text = json.dumps(
            {"cluster_id": found.cluster_id, "brokers": sorted(advertised)[:_MOST]}, indent=1
        )
        with contextlib.suppress(OSError):
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    if file.read() == text:
                        return
            os.makedirs(os.path.join(make_user_dir("state"), "brokers"), mode=0o700, exist_ok=True)
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}.{os.getpid()}", path)

    def _path(self, addresses: Iterable[str]) -> str:
        key = "\n".join((self._name, *sorted(addresses)))
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        return os.path.join(user_dir("state"), "brokers", f"{digest}.json")


def _nodes(addresses: Iterable[str]) -> tuple[Node, ...]:
    """Parse addresses. Raises ValueError if one is invalid."""
    wanted = list(addresses)
    try:
        return parse_bootstrap(wanted) if wanted else ()
    except ConfigError as e:
        raise ValueError(str(e)) from None
