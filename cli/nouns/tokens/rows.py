"""The rows of `pk users tokens`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_clock


class TokenRow(TypedDict):
    """A delegation token."""

    token: str
    """Its id: the user name of a login by it."""
    owner: str
    renewers: Annotated[list[str], Shown(show=", ".join)]
    expires: Annotated[str, Shown(show=show_clock)]
    ends: Annotated[str, Shown("ENDS FOR GOOD", show=show_clock)]
    requester: Annotated[str, Shown(wide=True)]
    issued: Annotated[str, Shown(wide=True, show=show_clock)]
    hmac: Annotated[str | None, Shown("HMAC", null="(hidden)")]
    """In base64: the password of a login by it. Only where it is asked for, or just made."""


class ChangedTokenRow(TypedDict):
    """What became of a delegation token."""

    token: str
    owner: str
    expires: Annotated[str | None, Shown(show=show_clock)]
    result: Annotated[str, Shown(word=True)]
