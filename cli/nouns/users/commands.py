"""The commands of `pk users`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.command_line.parameters import Argument
from pk.cli.nouns.users.options import DeleteUsers, SetPassword
from pk.cli.nouns.users.rows import ChangedUserRow, UserRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

USERS = Noun("users")

_PASSWORD = (
    "pk asks for the password twice; without a terminal it is the first line of standard input. "
    "What is sent is salted, never the password itself."
)


@USERS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=("pk users list", "pk users list --where 'iterations < 8192'"),
    shows=UserRow,
)
def list_users(
    context: "Context",
    pattern: Annotated[
        str | None,
        Argument("PATTERN", help="Only users whose whole name matches this regular expression."),
    ] = None,
) -> Running:
    """List users who log in by SCRAM, with their mechanisms."""
    from pk.cli.nouns.users.users import list_users

    return list_users(context, pattern)


@USERS.command(
    "add",
    takes=(Change, Listing, Connection),
    examples=(
        "pk users add alice",
        "pass show kafka/alice | pk users add alice --mechanism SCRAM-SHA-256 -y",
    ),
    notes=_PASSWORD,
    shows=ChangedUserRow,
)
def add(context: "Context", options: SetPassword) -> Running:
    """Add a user with a password for SCRAM."""
    from pk.cli.nouns.users.users import add

    return add(context, options)


@USERS.command(
    "alter",
    takes=(Change, Listing, Connection),
    examples=("pk users alter alice", "pk users alter alice --iterations 8192"),
    notes=(
        f"{_PASSWORD} Open connections stay open; the old password cannot be read back, so "
        "there is no undo."
    ),
    shows=ChangedUserRow,
)
def alter(context: "Context", options: SetPassword) -> Running:
    """Give a user another password."""
    from pk.cli.nouns.users.users import alter

    return alter(context, options)


@USERS.command(
    "delete",
    "rm",
    takes=(Change, Listing, Connection),
    examples=("pk users delete alice", "pk users delete alice bob --mechanism SCRAM-SHA-256"),
    notes="Open connections stay open. The password cannot be read back, so there is no undo.",
    shows=ChangedUserRow,
)
def delete(context: "Context", options: DeleteUsers) -> Running:
    """Delete users, or their passwords for one mechanism."""
    from pk.cli.nouns.users.users import delete

    return delete(context, options)
