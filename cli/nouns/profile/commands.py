"""`pk profile`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Running
from pk.cli.command_line.option_sets import Change, Debug, Listing, Yes
from pk.cli.nouns.profile.options import AddProfile
from pk.cli.nouns.profile.rows import ProfileRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PROFILE = Noun("profile")


@PROFILE.command(
    "list",
    "ls",
    takes=(Listing, Debug),
    examples=("pk profile list",),
    shows=ProfileRow,
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
    shows=ProfileRow,
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

    return show(context, name)


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

    return add(context, options)


@PROFILE.command(
    "use", takes=(Yes, Debug), examples=("pk profile use prod", "pk profile use -"), blocking=True
)
def use(
    context: "Context",
    name: Annotated[str, Argument("NAME", help="Its name; - for none.", complete="profile")],
) -> int | None:
    """Choose the profile that commands use."""
    from pk.cli.nouns.profile.profile import use

    return use(context, name)


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

    return delete(context, name)
