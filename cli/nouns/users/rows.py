"""The rows of `pk users`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class UserRow(TypedDict):
    """A user's SCRAM credential for one mechanism."""

    user: str
    mechanism: str
    iterations: int


class ChangedUserRow(TypedDict):
    """The result of a change to a user's credential."""

    user: str
    mechanism: str
    iterations: int | None
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]
    """The name of Kafka's error."""
