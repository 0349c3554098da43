"""An addition to msgspec's structs: a field that `repr` leaves out.

Nearly every class of values in pk is a `msgspec.Struct`: it is cheap to define, create and compare,
and immutable with `frozen=True`. docs/architecture.md explains the benefits.
"""

from msgspec import Struct


def repr_without(struct: Struct, *hidden: str) -> str:
    """Return the repr of `struct` without some fields, such as secrets or redundant ones."""
    shown = (
        f"{name}={getattr(struct, name)!r}"
        for name in struct.__struct_fields__
        if name not in hidden
    )
    return f"{type(struct).__name__}({', '.join(shown)})"
