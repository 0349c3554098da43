"""The rows of `pk users tokens`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_clock


class TokenRow(TypedDict):
    """A delegation token."""

    token: str
    """The id of the token, which is the user name of a login with it."""
    owner: str
    renewers: Annotated[list[str], Shown(show=", ".join)]
    expires: Annotated[str, Shown(show=show_clock)]
    ends: Annotated[str, Shown("MAX DATE", show=show_clock)]
    requester: Annotated[str, Shown(wide=True)]
    issued: Annotated[str, Shown(wide=True, show=show_clock)]
    hmac: Annotated[str | None, Shown("HMAC", null="(hidden)")]
    """The password for a login with this token, in base64. Present only on request, or when the
    token was just created."""


class ChangedTokenRow(TypedDict):
    """The result of a change to a delegation token."""

    token: str
    owner: str
    expires: Annotated[str | None, Shown(show=show_clock)]
    result: Annotated[str, Shown(word=True)]
