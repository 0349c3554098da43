"""The numbers of records that replicas lack, as data and for people."""

from collections.abc import Mapping


class About(int):
    """An estimated number of records."""


ReplicaLag = dict[str, int | None]
"""Broker → the number of records that its replica lacks; None if unknown. The keys are strings, as
JSON requires."""


def show_lag(lag: Mapping[str, int | None] | None) -> str:
    """Show the replicas that lack records: `2:15` lacks 15, `2:~15` an estimated 15, `2:?` an
    unknown number; `0` if none does."""
    if lag is None:
        return "-"
    lacking = {b: lag for b, lag in lag.items() if lag != 0 or isinstance(lag, About)}
    return ",".join(f"{broker}:{_show_one(behind)}" for broker, behind in lacking.items()) or "0"


def _show_one(behind: int | None) -> str:
    if behind is None:
        return "?"
    return f"~{behind}" if isinstance(behind, About) else str(behind)
