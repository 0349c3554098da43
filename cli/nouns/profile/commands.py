"""`pk profile`: its commands and their options."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import Change, Debug, Listing, Yes
from pk.cli.command_line.values import Pair, config_pair

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PROFILE = Noun("profile")


@PROFILE.command(
    "list",
    "ls",
    takes=(Listing, Debug),
    examples=("pk profile list",),
    shows=(
        "profile bootstrap? guard colour? cluster_id? chosen:bool properties:<str> secrets:<str>"
    ),
    blocking=True,
)
def list_profiles(context: "Context") -> int | None:
    """The profiles there are."""
    from pk.cli.nouns.profile.profile import list_profiles

    return list_profiles(context)


@PROFILE.command(
    "show",
    "describe",
    takes=(Listing, Debug),
    examples=("pk profile show prod",),
    shows=(
        "profile bootstrap? guard colour? cluster_id? chosen:bool properties:<str> secrets:<str>"
    ),
    blocking=True,
)
def show(
    context: "Context",
    name: Annotated[
        str | None,
        Argument("NAME", help="Its name (default: the one that commands use).", complete="profile"),
    ] = None,
) -> int | None:
    """One profile, and what a command would take from it."""
    from pk.cli.nouns.profile.profile import show

    return show(context)


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


@PROFILE.command(
    "add",
    "set",
    takes=(Yes, Debug),
    examples=(
        "pk profile add prod -b k1:9092,k2:9092 --guard type-name --colour red",
        "pk profile add dev -b 127.0.0.1:9092 --guard none",
        "pk profile add prod -X client.rack=eu-1 -X request.timeout.ms=10000",
    ),
    notes=(
        "Guards hold for every command: `readonly` also lets no record be produced and no "
        "group be joined. pk connects to PLAINTEXT listeners only: keys of TLS and SASL are "
        "refused."
    ),
)
def add(context: "Context", options: AddProfile) -> Running:
    """Add a profile, or change one."""
    from pk.cli.nouns.profile.profile import add

    return add(context)


@PROFILE.command(
    "use", takes=(Yes, Debug), examples=("pk profile use prod", "pk profile use -"), blocking=True
)
def use(
    context: "Context",
    name: Annotated[str, Argument("NAME", help="Its name; - for none.", complete="profile")],
) -> int | None:
    """Choose the profile that commands use."""
    from pk.cli.nouns.profile.profile import use

    return use(context)


@PROFILE.command("edit", takes=(Debug,), examples=("pk profile edit",), blocking=True)
def edit(context: "Context") -> int | None:
    """Open the profiles' file in $EDITOR."""
    from pk.cli.nouns.profile.profile import edit

    return edit(context)


@PROFILE.command(
    "delete", "rm", takes=(Change, Debug), examples=("pk profile delete old -y",), blocking=True
)
def delete(
    context: "Context", name: Annotated[str, Argument("NAME", help="Its name.", complete="profile")]
) -> int | None:
    """Remove a profile."""
    from pk.cli.nouns.profile.profile import delete

    return delete(context)
