"""Options of the larger commands of `pk profile`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, config_pair


@dataclass(frozen=True, kw_only=True)
class AddProfile:
    """Options of `pk profile add`."""

    name: Annotated[str, Argument("NAME", help="The profile.")]
    bootstrap_server: Annotated[
        str | None,
        Option(
            "-b", "--bootstrap-server", value="HOST:PORT[,…]", help="Brokers to connect to first."
        ),
    ] = None
    client_properties: Annotated[
        tuple[Pair, ...],
        Option(
            "-X",
            value="KEY=VALUE",
            parser=config_pair,
            help="A client config, by Kafka's name; repeatable.",
            complete="client-key",
        ),
    ] = ()
    config_file: Annotated[
        str | None,
        Option(
            "--config-file",
            "--command-config",
            value="FILE",
            help="A properties file, whose client configs the profile copies.",
            complete="file",
        ),
    ] = None
    guard: Annotated[
        Literal["none", "confirm", "type-name", "insist", "readonly"] | None,
        Option(
            "--guard",
            value="GUARD",
            help=(
                "What a change needs. none: nothing; confirm (the default): a yes; type-name: the "
                "resource's name; insist: the name even with -y; readonly: changes are refused."
            ),
        ),
    ] = None
    color: Annotated[
        Literal["red", "yellow", "green", "blue", "magenta", "cyan"] | None,
        Option(
            "--color",
            "--colour",
            value="COLOR",
            help="The profile's color in questions and in the shell's prompt.",
        ),
    ] = None
    cluster_id: Annotated[
        str | None,
        Option(
            "--cluster-id",
            value="ID",
            help="The id of the expected cluster: commands refuse to run on another.",
        ),
    ] = None
    pin: Annotated[
        bool, Option("--pin", help="Same, with the id of the cluster that answers now.")
    ] = False
    schema_registry: Annotated[
        str | None,
        Option(
            "--schema-registry",
            value="URL",
            help="The cluster's schema registry: a URL, or a directory of files.",
        ),
    ] = None
    secrets: Annotated[
        tuple[Pair, ...],
        Option(
            "--secret",
            value="KEY=SOURCE",
            help=(
                "A client config whose value comes from prompt, keyring or command:WORDS when it "
                "is needed."
            ),
        ),
    ] = ()
