"""The commands of `pk users`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.users.options import DeleteUsers, SetPassword
from pk.cli.nouns.users.rows import ChangedUserRow, UserRow
from pk.cli.options.option_sets import Change, Connection, Listing, Watch
from pk.cli.options.parameters import Argument

USERS = Noun("users")

_PASSWORD = (
    "pk asks for the password twice; without a terminal it is the first line of standard input. "
    "pk sends a salted hash, never the password."
)


@dataclass(frozen=True, kw_only=True)
class ListUsers:
    """Arguments of `pk users list`."""

    pattern: Annotated[
        str | None,
        Argument("PATTERN", help="Only users whose whole name matches this regular expression."),
    ] = None


USERS.command(
    "list",
    "ls",
    help="List users who log in by SCRAM, with their mechanisms.",
    worker="users:list_users",
    arguments=ListUsers,
    takes=(Listing, Watch, Connection),
    examples=("pk users list", "pk users list --where 'iterations < 8192'"),
    shows=UserRow,
)


USERS.command(
    "add",
    help="Add a user with a password for SCRAM.",
    worker="users:add",
    options=SetPassword,
    takes=(Change, Listing, Connection),
    examples=(
        "pk users add alice",
        "pass show kafka/alice | pk users add alice --mechanism SCRAM-SHA-256 -y",
    ),
    notes=_PASSWORD,
    shows=ChangedUserRow,
)


USERS.command(
    "alter",
    help="Change a user's password.",
    worker="users:alter",
    options=SetPassword,
    takes=(Change, Listing, Connection),
    examples=("pk users alter alice", "pk users alter alice --iterations 8192"),
    notes=(
        f"{_PASSWORD} Open connections stay open; the old password cannot be read back, so "
        "there is no undo."
    ),
    shows=ChangedUserRow,
)


USERS.command(
    "delete",
    "rm",
    help="Delete users, or their passwords for one mechanism.",
    worker="users:delete",
    options=DeleteUsers,
    takes=(Change, Listing, Connection),
    examples=("pk users delete alice", "pk users delete alice bob --mechanism SCRAM-SHA-256"),
    notes="Open connections stay open. The password cannot be read back, so there is no undo.",
    shows=ChangedUserRow,
)
