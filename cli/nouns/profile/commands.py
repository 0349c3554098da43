"""The commands of `pk profile`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Debug, Listing, Yes
from pk.cli.command_line.parameters import Argument
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
    repeatable=True,
)
def list_profiles(context: "Context") -> int | None:
    """List profiles."""
    from pk.cli.nouns.profile.profile import list_profiles

    return list_profiles(context)


@PROFILE.command(
    "show",
    "describe",
    takes=(Listing, Debug),
    examples=("pk profile show prod",),
    shows=ProfileRow,
    blocking=True,
    repeatable=True,
)
def show(
    context: "Context",
    name: Annotated[
        str | None,
        Argument("NAME", help="The profile (default: the current one).", complete="profile"),
    ] = None,
) -> int | None:
    """Show a profile, and what a command takes from it."""
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
        "Guards apply to every command: `readonly` also forbids producing records and joining "
        "groups. Lowering a profile's guard asks first. TLS and SASL are set by Kafka's keys, as "
        "in `-X security.protocol=SASL_SSL --secret sasl.password=prompt`."
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
    name: Annotated[str, Argument("NAME", help="The profile; - for none.", complete="profile")],
) -> int | None:
    """Set the current profile."""
    from pk.cli.nouns.profile.profile import use

    return use(context, name)


@PROFILE.command(
    "edit",
    takes=(Debug,),
    examples=("pk profile edit",),
    blocking=True,
    screen="paints",
)
def edit(context: "Context") -> int | None:
    """Open the profiles file in $EDITOR."""
    from pk.cli.nouns.profile.profile import edit

    return edit(context)


@PROFILE.command("delete", "rm", takes=(Change, Debug), examples=("pk profile delete old -y",))
def delete(
    context: "Context",
    name: Annotated[str, Argument("NAME", help="The profile.", complete="profile")],
) -> Running:
    """Delete a profile."""
    from pk.cli.nouns.profile.profile import delete

    return delete(context, name)
