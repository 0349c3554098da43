"""What the commands of `pk profile` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.values import Pair, config_pair


@dataclass(frozen=True, kw_only=True)
class AddProfile:
    """What `pk profile add` takes."""

    name: Annotated[str, Argument("NAME", help="Its name.")]
    bootstrap_server: Annotated[
        str | None,
        Option("-b", "--bootstrap-server", value="HOST:PORT[,…]", help="The brokers to ask first."),
    ] = None
    client_properties: Annotated[
        tuple[Pair, ...],
        Option(
            "-X",
            value="KEY=VALUE",
            parser=config_pair,
            help="A config key of the client.",
            complete="client-key",
        ),
    ] = ()
    guard: Annotated[
        Literal["none", "confirm", "type-name", "readonly"] | None,
        Option(
            "--guard",
            value="GUARD",
            help=(
                "What a change wants: nothing, a yes (the default), the thing's name typed; or none "
                "may be made."
            ),
        ),
    ] = None
    colour: Annotated[
        Literal["red", "yellow", "green", "blue", "magenta", "cyan"] | None,
        Option(
            "--colour",
            "--color",
            value="COLOUR",
            help="Its colour in questions and in the shell's prompt.",
        ),
    ] = None
    cluster_id: Annotated[
        str | None,
        Option(
            "--cluster-id",
            value="ID",
            help="The cluster it is meant for: commands refuse where another answers.",
        ),
    ] = None
    pin: Annotated[
        bool, Option("--pin", help="The same, with the id of the cluster that answers now.")
    ] = False
    secrets: Annotated[
        tuple[Pair, ...],
        Option(
            "--secret",
            value="KEY=SOURCE",
            help=(
                "A client key whose value comes from prompt, keyring or command:WORDS when it is "
                "needed."
            ),
        ),
    ] = ()
