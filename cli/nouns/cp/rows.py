"""The rows of `pk cp`."""

from typing import TypedDict

CopiedRow = TypedDict(
    "CopiedRow",
    {
        "topic": str,
        "partition": int,
        "target": str,
        "from": int,
        "up_to": int | None,
        "offsets": int | None,
        "copied": int | None,
    },
)
"""A partition that is copied. `offsets` is the number of offsets from `from` to `up_to`, which is
None if the copy continues with new records; `copied` is None before the copy."""
