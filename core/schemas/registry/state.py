"""The state in a registry's log: subjects, versions, ids, settings. Only `replay` changes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from pk.core.schemas import subjects
from pk.core.schemas.compatibility import DEFAULT_LEVEL, LEVELS
from pk.core.schemas.registry import records
from pk.core.schemas.registry.records import Record
from pk.core.schemas.schema import Schema, SchemaError, schema_of_json

READWRITE: Final = "READWRITE"
READONLY: Final = "READONLY"
READONLY_OVERRIDE: Final = "READONLY_OVERRIDE"
IMPORT: Final = "IMPORT"
MODES: Final = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)


class Version(Struct, frozen=True):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the version as the registry's API shows it."""
        return {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            "guid": self.schema.guid,
            **self.schema.to_json(),
        }


class Context(Struct):
    """A registry within the registry, which assigns ids of its own."""

    by_id: dict[int, Schema] = field(default_factory=dict[int, Schema])
    ids: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """The digest of a schema → its id."""

    used: dict[int, set[tuple[str, int]]] = field(default_factory=dict[int, "set[tuple[str, int]]"])
    """An id → the versions that have it."""

    max_id: int = 0
    """The highest id ever assigned. No id is assigned twice."""


class State:
    """The state of the registry according to its log."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, Version]] = {}
        """Subject → version number → version, including softly deleted ones."""

        self.contexts: dict[str, Context] = {}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.problems: list[str] = []
        """Descriptions of records that could not be parsed, to be logged."""

        self._references: dict[tuple[str, int], set[tuple[str, int]]] = {}
        """A version → the versions that refer to it."""

    # replay

    def replay(self, record: Record) -> None:
        """Apply one record of the log."""
        match record.kind:
            case records.SCHEMA:
                self._replay_schema(record)
            case records.CONFIG:
                _put(self.configs, record.subject, record.value and dict(record.value))
            case records.MODE:
                mode = record.value.get("mode") if record.value else None
                _put(self.modes, record.subject, mode if isinstance(mode, str) else None)
            case records.DELETE_SUBJECT:
                self._replay_deletion(record)
            case records.CLEAR_SUBJECT:
                self.configs.pop(record.subject, None)
                self.modes.pop(record.subject, None)
            case _:
                pass

    def _replay_schema(self, record: Record) -> None:
        subject, number = record.subject, record.version
        assert subject is not None
        self._forget(subject, number)
        if record.value is None:
            return
        value = record.value
        schema_id = value.get("id")
        try:
            schema = schema_of_json(value)
        except SchemaError as e:
            self.problems.append(f"{subject} version {number}: {e}")
            return
        if not isinstance(schema_id, int):
            self.problems.append(f"{subject} version {number} has no id")
            return
        version = Version(subject, number, schema_id, schema, value.get("deleted") is True)
        self.subjects.setdefault(subject, {})[number] = version
        context = self.contexts.setdefault(subjects.context_of(subject), Context())
        context.by_id[schema_id] = schema
        context.ids.setdefault(schema.md5, schema_id)
        context.used.setdefault(schema_id, set()).add((subject, number))
        context.max_id = max(context.max_id, schema_id)
        if not version.deleted:
            for each in schema.references:
                target = self.qualified(each.subject, subject), each.version
                self._references.setdefault(target, set()).add((subject, number))

    def _forget(self, subject: str, number: int) -> None:
        versions = self.subjects.get(subject, {})
        old = versions.pop(number, None)
        if not versions:
            self.subjects.pop(subject, None)
        if old is None:
            return
        self._drop_references(old)
        context = self.contexts[subjects.context_of(subject)]
        users = context.used[old.id]
        users.discard((subject, number))
        if not users:
            del context.used[old.id]
            context.by_id.pop(old.id, None)
            if context.ids.get(old.schema.md5) == old.id:
                del context.ids[old.schema.md5]

    def _drop_references(self, version: Version) -> None:
        for each in version.schema.references:
            target = self.qualified(each.subject, version.subject), each.version
            self._references.get(target, set()).discard((version.subject, version.version))

    def _replay_deletion(self, record: Record) -> None:
        subject = record.subject
        assert subject is not None
        last = record.value.get("version") if record.value else None
        for number, each in list(self.subjects.get(subject, {}).items()):
            if not isinstance(last, int) or number <= last:
                self._drop_references(each)
                self.subjects[subject][number] = Version(
                    subject, number, each.id, each.schema, deleted=True
                )

    # questions

    @staticmethod
    def qualified(name: str, within: str) -> str:
        """Return the full name of a referenced subject. A name without a context is in the context
        of the referring schema."""
        if name.startswith(":"):
            return subjects.normalize(name)
        return subjects.join(subjects.context_of(within), name)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return a subject's versions, oldest first. `deleted` includes softly deleted ones."""
        found = self.subjects.get(subject, {})
        return [found[n] for n in sorted(found) if deleted or not found[n].deleted]

    def with_id(self, context: str, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """Return the versions with an id, sorted by subject."""
        kept = self.contexts.get(context)
        used = sorted(kept.used.get(schema_id, ())) if kept is not None else []
        found = (self.subjects[subject][number] for subject, number in used)
        return [each for each in found if deleted or not each.deleted]

    def referenced_by(self, subject: str, version: int) -> list[tuple[str, int]]:
        """Return the versions that refer to this one."""
        return sorted(self._references.get((subject, version), ()))

    def config(self, subject: str | None, *, inherited: bool = True) -> Mapping[str, Any] | None:
        """Return the settings of a subject (None: the registry). Without `inherited`, returns None
        if the subject overrides none."""
        if not inherited:
            return self.configs.get(subject)
        merged: dict[str, Any] = {"compatibilityLevel": DEFAULT_LEVEL}
        for each in reversed(_scopes(subject)):
            merged |= self.configs.get(each, {})
        return merged

    def level(self, subject: str) -> str:
        """Return the effective compatibility level of a subject."""
        config = self.config(subject)
        level = config.get("compatibilityLevel") if config else None
        return level if level in LEVELS else DEFAULT_LEVEL

    def mode(self, subject: str | None) -> str:
        """Return the effective mode of a subject, or of the registry."""
        if self.modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        return next(
            (self.modes[each] for each in _scopes(subject) if each in self.modes), READWRITE
        )


def _scopes(subject: str | None) -> list[str | None]:
    """Return the scopes of settings, nearest first: the subject, its context, all contexts, the
    registry."""
    if subject is None:
        return [None]
    context = subjects.context_of(subject)
    own: list[str | None] = [] if context == subjects.DEFAULT_CONTEXT else [f":{context}:"]
    return [subject, *(each for each in own if each != subject), subjects.GLOBAL_CONTEXT, None]


def _put(settings: dict[str | None, Any], key: str | None, value: Any) -> None:
    if value:
        settings[key] = value
    else:
        settings.pop(key, None)
