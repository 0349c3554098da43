"""Subjects: the names under which versions of a schema are registered, and the subject of a record.

A context is a registry within the registry, with ids of its own: `:.test:orders-value` is the
subject `orders-value` in the context `.test`. A name without a context is in the context `.`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ":.__GLOBAL:"
"""The context whose settings apply to all contexts."""

SUBJECT_CHARS_MAX: Final = 1_000


class SubjectError(ValueError):
    """A name is not valid as a subject."""


def split(subject: str) -> tuple[str, str]:
    """Split a subject into its context and the name within it: `(".", "orders-value")` for
    `orders-value`."""
    if subject.startswith(":."):
        context, _, name = subject[1:].partition(":")
        return context, name
    if subject.startswith(":*:"):
        return "*", subject[3:]
    return DEFAULT_CONTEXT, subject


def join(context: str, name: str) -> str:
    """Return the full name of a subject, which has no prefix in the default context."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def context_of(subject: str) -> str:
    """Return the context of a subject."""
    return split(subject)[0]


def is_context(subject: str) -> bool:
    """Return whether this is the name of a whole context, such as `:.test:`."""
    return subject.startswith(":.") and split(subject)[1] == ""


def normalize(subject: str) -> str:
    """Return the canonical name of a subject: `orders` for `:.:orders`. Raises SubjectError."""
    if any(ord(each) < 32 or ord(each) == 127 for each in subject):
        raise SubjectError("a control character")
    if not subject or len(subject) > SUBJECT_CHARS_MAX:
        raise SubjectError(f"a name must have from 1 to {SUBJECT_CHARS_MAX} characters")
    if subject.startswith(":.") and ":" not in subject[1:]:
        subject += ":"
    context, name = split(subject)
    if name in ("__GLOBAL", "__EMPTY"):
        raise SubjectError("reserved")
    return join(context, name) if name or context != DEFAULT_CONTEXT else ":.:"


def topic_name(topic: str, is_key: bool, record: str | None) -> str:
    """Return the subject of TopicNameStrategy, the default: `orders-value`."""
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, record: str | None) -> str:
    """Return the subject of RecordNameStrategy: the full name of the record or message."""
    if not record:
        raise SubjectError("RecordNameStrategy needs a schema that has a name")
    return record


def topic_record_name(topic: str, is_key: bool, record: str | None) -> str:
    """Return the subject of TopicRecordNameStrategy: the topic, then the full name of the record or
    message."""
    if not record:
        raise SubjectError("TopicRecordNameStrategy needs a schema that has a name")
    return f"{topic}-{record}"


STRATEGIES: Final[Mapping[str, Callable[[str, bool, str | None], str]]] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
}
"""(topic, whether it is the key, the schema's own name) → subject."""
