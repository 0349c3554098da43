"""Rows of client quotas, for `pk quotas` and for undoing a change of quotas."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


def show_number(value: float) -> str:
    """Show a whole number without a decimal point."""
    return str(int(value)) if value.is_integer() else str(value)


class QuotaRow(TypedDict):
    """One value of a quota. A name is null if the quota does not depend on it, and `<default>` for
    all names without a quota."""

    user: str | None
    client_id: Annotated[str | None, Shown("CLIENT ID")]
    ip: str | None
    key: str
    value: Annotated[float, Shown(show=show_number)]


ChangedQuotaRow = TypedDict(
    "ChangedQuotaRow",
    {
        "user": str | None,
        "client_id": Annotated[str | None, Shown("CLIENT ID")],
        "ip": str | None,
        "key": str,
        "from": Annotated[float | None, Shown(show=show_number)],
        "to": Annotated[float | None, Shown(show=show_number)],
        "result": str,
        "error": Annotated[str | None, Shown(wide=True)],
    },
)
"""The result of changing one value of a quota; `from` and `to` are null if there is none. `error`
is the name of Kafka's error."""
