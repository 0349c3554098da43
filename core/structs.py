"""An addition to msgspec's structs: a field that `repr` leaves out.

Nearly every class of values in pk is a `msgspec.Struct`: cheap to define, to make and to compare,
and immutable with `frozen=True`. docs/architecture.md says what that is worth.
"""

from msgspec import Struct


def repr_without(struct: Struct, *hidden: str) -> str:
    """The repr of `struct` without some fields: secrets, or what only repeats the others."""
    shown = (
        f"{name}={getattr(struct, name)!r}"
        for name in struct.__struct_fields__
        if name not in hidden
    )
    return f"{type(struct).__name__}({', '.join(shown)})"
