"""The commands of `pk profile`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.profile.options import AddProfile
from pk.cli.nouns.profile.rows import ProfileRow
from pk.cli.options.option_sets import Change, Debug, Listing, Yes
from pk.cli.options.parameters import Argument

PROFILE = Noun("profile")


PROFILE.command(
    "list",
    "ls",
    help="List profiles.",
    worker="profile:list_profiles",
    takes=(Listing, Debug),
    examples=("pk profile list",),
    shows=ProfileRow,
    blocking=True,
    repeatable=True,
)


@dataclass(frozen=True, kw_only=True)
class ShowProfile:
    """Arguments of `pk profile show`."""

    name: Annotated[
        str | None,
        Argument("NAME", help="The profile (default: the current one).", complete="profile"),
    ] = None


PROFILE.command(
    "show",
    "describe",
    help="Show a profile, and what a command takes from it.",
    worker="profile:show",
    arguments=ShowProfile,
    takes=(Listing, Debug),
    examples=("pk profile show prod",),
    shows=ProfileRow,
    blocking=True,
    repeatable=True,
)


PROFILE.command(
    "add",
    "set",
    help="Add a profile, or change one.",
    worker="profile:add",
    options=AddProfile,
    takes=(Yes, Debug),
    examples=(
        "pk profile add prod -b k1:9092,k2:9092 --guard type-name --color red",
        "pk profile add dev -b 127.0.0.1:9092 --guard none",
        "pk profile add prod -X client.rack=eu-1 -X request.timeout.ms=10000",
        "pk profile add prod --config-file client.properties",
    ),
    notes=(
        "Guards apply to every command: `readonly` also forbids producing records and joining "
        "groups. Lowering a profile's guard asks first. TLS and SASL are set by Kafka's keys, as "
        "in `-X security.protocol=SASL_SSL --secret sasl.password=prompt`."
    ),
)


@dataclass(frozen=True, kw_only=True)
class UseProfile:
    """Arguments of `pk profile use`."""

    name: Annotated[str, Argument("NAME", help="The profile; - for none.", complete="profile")]


PROFILE.command(
    "use",
    help="Set the current profile.",
    worker="profile:use",
    arguments=UseProfile,
    takes=(Yes, Debug),
    examples=("pk profile use prod", "pk profile use -"),
    blocking=True,
)


PROFILE.command(
    "edit",
    help="Open the profiles file in $EDITOR.",
    worker="profile:edit",
    takes=(Debug,),
    examples=("pk profile edit",),
    blocking=True,
    screen="paints",
)


@dataclass(frozen=True, kw_only=True)
class DeleteProfile:
    """Arguments of `pk profile delete`."""

    name: Annotated[str, Argument("NAME", help="The profile.", complete="profile")]


PROFILE.command(
    "delete",
    "rm",
    help="Delete a profile.",
    worker="profile:delete",
    arguments=DeleteProfile,
    takes=(Change, Debug),
    examples=("pk profile delete old -y",),
)
