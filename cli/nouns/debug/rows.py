"""The rows of `pk debug bundle`."""

from typing import Annotated, TypedDict

from pk.cli.output.amounts import show_bytes
from pk.cli.output.rows import Shown


class BundledRow(TypedDict):
    """A file in the bundle."""

    file: str
    bytes: Annotated[int, Shown(show=show_bytes)]
    contents: Annotated[str, Shown(word=True)]
