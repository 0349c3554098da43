"""How many records replicas lack, as numbers and for people."""

from collections.abc import Mapping


class About(int):
    """An estimated number of records."""


ReplicaLag = dict[str, int | None]
"""Broker → records that its replica lacks; None if unknown. JSON has no keys but strings."""


def show_lag(lag: Mapping[str, int | None] | None) -> str:
    """The replicas that lack records: `2:15` by 15, `2:~15` by an estimate, `2:?` by an unknown number; `0` if none does."""
    if lag is None:
        return "-"
    found = (
        f"{broker}:{'?' if behind is None else f'~{behind}' if isinstance(behind, About) else behind}"
        for broker, behind in lag.items()
        if behind != 0 or isinstance(behind, About)
    )
    return ",".join(found) or "0"
