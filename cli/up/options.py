"""The options of `pk up`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Option
from pk.cli.options.values import Pair, config_pair

PropertiesFile = Annotated[
    str | None,
    Option(
        "--config-file",
        value="FILE",
        help="A server.properties file, as for Kafka.",
        complete="file",
    ),
]

BrokerProperties = Annotated[
    tuple[Pair, ...],
    Option(
        "-X",
        value="KEY=VALUE",
        parser=config_pair,
        help="A broker config, by Kafka's name; repeatable.",
        complete="broker-config",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Up:
    """Options of `pk up`."""

    brokers: Annotated[
        int | None,
        Option(
            "--brokers",
            value="N",
            help=(
                "The number of brokers, each with a process and a directory (default: 1, or as "
                "many as --data has)."
            ),
        ),
    ] = None
    data: Annotated[
        str | None,
        Option(
            "--data",
            value="DIR",
            help="The data directory (default: a temporary one, deleted on exit).",
            complete="directory",
        ),
    ] = None
    port: Annotated[
        int | None,
        Option(
            "--port",
            value="PORT",
            help=(
                "The port to listen on, or the first of several brokers' ports; 0 picks a free one "
                "(default: 9092)."
            ),
        ),
    ] = None
    memory: Annotated[
        bool, Option("--memory", help="Keep everything in memory, nothing on disk.")
    ] = False
    secure: Annotated[
        bool,
        Option(
            "--secure",
            help=(
                "Turn on TLS, authentication and ACLs: creates a CA, certificates, an admin user "
                "and the profile `secure`, or reuses those in --data."
            ),
        ),
    ] = False
    store: Annotated[
        str | None,
        Option(
            "--store",
            value="STORE",
            help=(
                "The metadata store: embedded; etcd, which starts an etcd member beside each "
                "broker and needs at least three; or a running one, etcd://HOST:PORT,.../PATH or "
                "zookeeper://HOST:PORT,.../PATH (default: embedded, or the one that --data uses)."
            ),
        ),
    ] = None
    schema_registry: Annotated[
        bool, Option("--schema-registry", help="Also serve a schema registry on 127.0.0.1.")
    ] = False
    schema_registry_port: Annotated[
        int,
        Option(
            "--schema-registry-port",
            value="PORT",
            help="The port of the schema registry; 0 is a free one (default: 8081).",
        ),
    ] = 8081
    no_restart: Annotated[
        bool,
        Option(
            "--no-restart",
            help="With several brokers: do not restart a node that exits by itself.",
        ),
    ] = False
    config_file: PropertiesFile = None
    properties: BrokerProperties = ()
