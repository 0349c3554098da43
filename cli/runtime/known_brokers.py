"""The brokers of clusters that earlier commands used: if the given address does not answer, another
broker of the cluster may.

They come from the last metadata, which is kept in a small file for each cluster's addresses in the
user's state directory, and from the files of the clusters that `pk up` runs on this machine. A
cluster is remembered only if it advertises the given address itself: a tunnel or proxy may lead to
another cluster tomorrow. The files contain addresses and the cluster's id, but no secrets.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable

from pk.cli.runtime import cluster_files
from pk.cli.runtime.paths import make_user_dir, user_dir
from pk.net.client.broker_store import RememberedBrokers
from pk.net.client.cluster import parse_bootstrap
from pk.net.client.errors import ConfigError
from pk.net.client.node import Node

_MOST = 50
"""The most brokers to keep of a cluster."""


class KnownBrokers:
    """The brokers of earlier runs. `name` is the profile in use, since two profiles may use
    different clusters at one address."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or ""
        self._written: dict[str, RememberedBrokers] = {}

    def brokers(self, given: Iterable[Node]) -> RememberedBrokers:
        """The brokers of the cluster to which `given` belong: those that run on this machine, or
        else those of the last metadata."""
        addresses = [node.address for node in given]
        state = cluster_files.at(addresses)
        if state is not None:
            running = [
                node.address
                for node in state.nodes
                if "broker" in node.role and node.state == cluster_files.RUNNING and node.address
            ]
            return RememberedBrokers(_nodes(running))
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(self._path(addresses), encoding="utf-8") as file:
                found = json.load(file)
            return RememberedBrokers(_nodes(found["brokers"]), str(found["cluster_id"]))
        return RememberedBrokers()

    def store(self, given: Iterable[Node], found: RememberedBrokers) -> None:
        """Keep the brokers, if they have changed."""
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
