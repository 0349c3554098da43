"""The rows of `pk schema`."""

from typing import TypedDict


class SubjectRow(TypedDict):
    """A subject's version."""

    subject: str
    version: int
    id: int
    type: str
    references: int
    compatibility: str


class ChangedSchemaRow(TypedDict):
    """What became of a version."""

    subject: str
    version: int | None
    id: int | None
    result: str


class CheckedSchemaRow(TypedDict):
    """Whether a schema may follow a subject's versions."""

    subject: str
    compatible: bool
    reason: str | None
