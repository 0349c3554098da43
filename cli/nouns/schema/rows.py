"""The rows of `pk schema`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class SubjectRow(TypedDict):
    """A subject's version."""

    subject: str
    version: int
    id: int
    type: Annotated[str, Shown(word=True)]
    references: int
    compatibility: str


class ChangedSchemaRow(TypedDict):
    """The result of a change to a version."""

    subject: str
    version: int | None
    id: int | None
    result: Annotated[str, Shown(word=True)]


class CheckedSchemaRow(TypedDict):
    """Whether a schema may follow a subject's versions."""

    subject: str
    compatible: bool
    reason: str | None
