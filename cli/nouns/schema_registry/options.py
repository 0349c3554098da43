"""Options of `pk schema-registry start`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Option


@dataclass(frozen=True, kw_only=True)
class StartRegistry:
    """Options of `pk schema-registry start`."""

    host: Annotated[
        str, Option("--host", value="HOST", help="The address to listen on (default: 127.0.0.1).")
    ] = "127.0.0.1"
    port: Annotated[
        int, Option("--port", value="PORT", help="The port; 0 picks a free one (default: 8081).")
    ] = 8081
    advertised_host: Annotated[
        str | None,
        Option(
            "--advertised-host",
            value="HOST",
            help="Where other instances reach this one (default: --host).",
        ),
    ] = None
    topic: Annotated[
        str, Option("-t", "--topic", value="TOPIC", help="The registry's topic.", complete="topic")
    ] = "_schemas"
    group: Annotated[
        str,
        Option(
            "-g", "--group", value="GROUP", help="The group in which instances choose a leader."
        ),
    ] = "schema-registry"
    replication_factor: Annotated[
        int,
        Option(
            "-r",
            "--replication-factor",
            value="N",
            help=(
                "Replicas of the topic if it must be created, as far as there are brokers "
                "(default: 3)."
            ),
        ),
    ] = 3
    follower: Annotated[bool, Option("--follower", help="Never lead: forward every change.")] = (
        False
    )
    users: Annotated[
        str | None,
        Option(
            "--users",
            value="FILE",
            help="Require a login; the file has a line NAME: PASSWORD for each user.",
            complete="file",
        ),
    ] = None
    tls_key: Annotated[
        str | None,
        Option(
            "--tls-key",
            value="FILE",
            help="Serve HTTPS with the private key and certificates of this PEM file.",
            complete="file",
        ),
    ] = None
    tls_trust: Annotated[
        str | None,
        Option(
            "--tls-trust",
            value="FILE",
            help="Trust these certificates (PEM) of other instances (default: the system's).",
            complete="file",
        ),
    ] = None
