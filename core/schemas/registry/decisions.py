"""All changes that a registry can make: checks, records to write, and replies.

Nothing here changes the state; the records do, once they are in the log. Only the leader makes
decisions, one at a time, from the state at the end of the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from pk.core.schemas import subjects
from pk.core.schemas.compatibility import DEFAULT_LEVEL, LEVELS, Verdict, check
from pk.core.schemas.languages import Parsed, ParsedCache, differences, parse
from pk.core.schemas.registry import errors, records
from pk.core.schemas.registry.records import Record, schema_record
from pk.core.schemas.registry.state import (
    IMPORT,
    MODES,
    READONLY,
    READONLY_OVERRIDE,
    State,
    Version,
)
from pk.core.schemas.schema import Reference, Resolved, Schema, SchemaError, canonical_json

VERSION_MAX: Final = (1 << 31) - 1
REFERENCE_DEPTH_MAX: Final = 100

SETTINGS: Final = frozenset({"compatibilityLevel", "normalize", "compatibilityGroup"})
"""The settings of a subject. Others are refused, since they would have no effect."""


class Decision(Struct, frozen=True):
    """The records to write, and the reply to send once they are written."""

    reply: Any
    records: Sequence[Record] = field(default=())


class Decider:
    """Makes decisions from a state."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._parsed = ParsedCache()

    # schemas

    def resolve(self, schema: Schema, subject: str) -> Resolved:
        """Return the schema with the texts of all its references. Raises SchemaError if one is
        missing."""
        found: dict[str, str] = {}
        self._collect(schema.references, subject, found, 0)
        return Resolved(schema, tuple(found.items()))

    def _collect(
        self, references: Sequence[Reference], subject: str, found: dict[str, str], depth: int
    ) -> None:
        if depth > REFERENCE_DEPTH_MAX:
            raise SchemaError(f"references are nested more than {REFERENCE_DEPTH_MAX} deep")
        for each in references:
            if each.name in found:
                continue
            target = self.state.qualified(each.subject, subject)
            versions = self.state.subjects.get(target, {})
            number = each.version if each.version >= 0 else max(versions, default=0)
            version = versions.get(number)
            if version is None:
                raise SchemaError(
                    f'No schema reference found for subject "{each.subject}" and version '
                    f"{each.version}"
                )
            self._collect(version.schema.references, target, found, depth + 1)
            found[each.name] = version.schema.text

    def parse(self, schema: Schema, subject: str, *, normalize: bool = False) -> Parsed:
        """Parse and check the schema. Raises RegistryError 42201."""
        try:
            resolved = self.resolve(schema, subject)
            return parse(resolved, normalize=True) if normalize else self._parsed.parse(resolved)
        except SchemaError as e:
            refs = canonical_json([each.to_json() for each in schema.references])
            what = f"{schema.text[:1000]} with refs {refs} of type {schema.type}"
            raise errors.invalid_schema(what, str(e)) from None

    def canonical(self, schema: Schema, subject: str, *, normalize: bool) -> Schema:
        """Return the schema with its canonical text. Raises RegistryError 42201."""
        if schema.text.strip() == "":
            raise errors.invalid_schema("", "Empty schema")
        config = self.state.config(subject) or {}
        parsed = self.parse(schema, subject, normalize=normalize or config.get("normalize") is True)
        return replace(schema, text=parsed.text)

    def find(self, subject: str, schema: Schema, *, deleted: bool = False) -> Version | None:
        """Find the newest version of a subject with exactly this schema, whose text is
        canonical."""
        versions = self.state.versions(subject, deleted=deleted)
        found = next((v for v in reversed(versions) if v.schema == schema), None)
        if found is not None or schema.references or schema.metadata or schema.rule_set:
            return found
        # A client that sends no references finds the schema by its text.
        return next(
            (
                v
                for v in reversed(versions)
                if v.schema.text == schema.text and v.schema.type == schema.type
            ),
            None,
        )

    def register(
        self,
        subject: str,
        schema: Schema,
        *,
        normalize: bool = False,
        schema_id: int = -1,
        version: int = -1,
    ) -> Decision:
        """Add a version with this schema to a subject, or return the existing one. Raises
        RegistryError."""
        self._check_subject(subject)
        self._check_writable(subject)
        importing = self.state.mode(subject) == IMPORT
        if schema_id >= 0 and not importing:
            raise errors.not_permitted(f"Subject {subject} is not in import mode")
        if importing and schema_id < 0:
            raise errors.not_permitted(
                f"Subject {subject} in import mode: a schema must come with its id"
            )
        schema = self.canonical(schema, subject, normalize=normalize)
        existing = self.find(subject, schema)
        if existing is not None and not importing:
            return Decision(existing)
        context = self.state.contexts.get(subjects.context_of(subject))
        known = context.ids.get(schema.md5) if context is not None else None
        if importing:
            self._check_import(subject, schema, schema_id)
        else:
            verdict = self.compatible(subject, schema)
            if not verdict[0].compatible:
                raise errors.incompatible(subject, f"[{', '.join(verdict[1])}]")
            schema_id = known if known is not None else (context.max_id if context else 0) + 1
        if version < 1 or not importing:
            version = max(self.state.subjects.get(subject, {}), default=0) + 1
        new = Version(subject, version, schema_id, schema)
        return Decision(new, (schema_record(subject, version, schema_id, schema, deleted=False),))

    def _check_import(self, subject: str, schema: Schema, schema_id: int) -> None:
        context = self.state.contexts.get(subjects.context_of(subject))
        present = context.by_id.get(schema_id) if context is not None else None
        if present is not None and present != schema:
            raise errors.not_permitted(
                f"Overwrite new schema with id {schema_id} is not permitted."
            )

    def compatible(
        self,
        subject: str,
        schema: Schema,
        against: Sequence[Version] | None = None,
        level: str | None = None,
    ) -> tuple[Verdict, list[str]]:
        """Check whether a schema is compatible with `against`, or with the subject's versions.
        Returns the result, and the reasons in the wording of the API.

        Raises RegistryError 42201.
        """
        level = level or self.state.level(subject)
        older = self.state.versions(subject) if against is None else list(against)
        group = (self.state.config(subject) or {}).get("compatibilityGroup")
        if isinstance(group, str):
            own = _property(schema, group)
            older = [each for each in older if _property(each.schema, group) == own]
        if level == "NONE" or not older:
            return Verdict(), []
        checked = older if level.endswith("_TRANSITIVE") else older[-1:]
        parsed = [self.parse(each.schema, subject) for each in checked]
        verdict = check(level, self.parse(schema, subject), parsed, differences)
        if verdict.index is None:
            return verdict, []
        worst = checked[verdict.index]
        messages = [
            *verdict.messages,
            f"{{oldSchemaVersion: {worst.version}}}",
            f"{{oldSchema: '{worst.schema.text}'}}",
            f"{{compatibility: '{level}'}}",
        ]
        return verdict, messages

    # versions

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """Return a version of a subject (-1: the newest). Raises RegistryError 40401, 40402."""
        every = self.state.versions(subject, deleted=True)
        versions = every if deleted else [each for each in every if not each.deleted]
        if not versions and (not every or number == -1):
            raise errors.subject_not_found(subject)
        if number == -1:
            return versions[-1]
        found = next((each for each in versions if each.version == number), None)
        if found is None:
            raise errors.version_not_found(number)
        return found

    def delete_version(self, subject: str, number: int, *, permanent: bool = False) -> Decision:
        """Delete a version softly or, in a second step, permanently. Raises RegistryError."""
        self._check_writable(subject)
        found = self.version(subject, number, deleted=True)
        if number == -1 and not permanent:
            found = self.version(subject, number)
        number = found.version
        if not permanent and found.deleted:
            raise errors.version_soft_deleted(subject, number)
        if permanent and not found.deleted:
            raise errors.version_not_soft_deleted(subject, number)
        self._check_unreferenced(found)
        if permanent:
            return Decision(number, (Record(records.SCHEMA, subject, number),))
        record = schema_record(subject, number, found.id, found.schema, deleted=True)
        last = len(self.state.versions(subject)) == 1
        return Decision(number, (record, *(self._without_settings(subject) if last else ())))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> Decision:
        """Delete a subject softly or, in a second step, permanently. Raises RegistryError."""
        self._check_writable(subject)
        every = self.state.versions(subject, deleted=True)
        active = [each for each in every if not each.deleted]
        if not every:
            raise errors.subject_not_found(subject)
        if permanent and active:
            raise errors.subject_not_soft_deleted(subject)
        if not permanent and not active:
            raise errors.subject_soft_deleted(subject)
        for each in every if permanent else active:
            self._check_unreferenced(each)
        if permanent:
            numbers = [each.version for each in every]
            return Decision(numbers, tuple(Record(records.SCHEMA, subject, n) for n in numbers))
        last = active[-1].version
        value = {"subject": subject, "version": last}
        deletion = Record(records.DELETE_SUBJECT, subject, 0, value)
        return Decision(
            [each.version for each in active], (deletion, *self._without_settings(subject))
        )

    def _without_settings(self, subject: str) -> list[Record]:
        found: list[Record] = []
        if subject in self.state.modes:
            found.append(Record(records.MODE, subject))
        if subject in self.state.configs:
            found.append(Record(records.CONFIG, subject))
        return found

    def _check_unreferenced(self, version: Version) -> None:
        if self.state.referenced_by(version.subject, version.version):
            key = f"{{magic=1,keytype=SCHEMA,subject={version.subject},version={version.version}}}"
            raise errors.reference_exists(key)

    # settings

    def set_config(self, subject: str | None, given: Mapping[str, Any]) -> Decision:
        """Change the settings of a subject, or of the registry. Raises RegistryError."""
        if subject is not None:
            self._check_subject(subject, context_too=True)
        self._check_writable(subject)
        wanted = {
            ("compatibilityLevel" if k == "compatibility" else k): v for k, v in given.items()
        }
        wanted = {key: value for key, value in wanted.items() if value is not None}
        level = wanted.get("compatibilityLevel")
        if level is not None:
            if not isinstance(level, str) or level.upper() not in LEVELS:
                raise errors.invalid_level()
            wanted["compatibilityLevel"] = level.upper()
        foreign = sorted(wanted.keys() - SETTINGS)
        if foreign:
            raise errors.not_permitted(f"This registry has no setting {', '.join(foreign)}")
        if not isinstance(wanted.get("normalize", False), bool):
            raise errors.not_permitted("normalize must be true or false")
        if not isinstance(wanted.get("compatibilityGroup", ""), str):
            raise errors.not_permitted("compatibilityGroup must be the name of a metadata property")
        if not wanted:
            raise errors.invalid_level()
        merged = dict(self.state.config(subject, inherited=False) or {}) | wanted
        return Decision(dict(given), (Record(records.CONFIG, subject, 0, merged),))

    def delete_config(self, subject: str | None) -> Decision:
        """Return to the inherited settings. Raises RegistryError 40401."""
        self._check_writable(subject)
        old = self.state.config(subject, inherited=False)
        if subject is not None and old is None:
            raise errors.subject_not_found(subject)
        return Decision(
            dict(old or {"compatibilityLevel": DEFAULT_LEVEL}), (Record(records.CONFIG, subject),)
        )

    def set_mode(self, subject: str | None, mode: object, *, force: bool = False) -> Decision:
        """Change the mode of a subject, or of the registry. Raises RegistryError."""
        if not isinstance(mode, str) or mode.upper() not in MODES:
            raise errors.invalid_mode()
        mode = mode.upper()
        if subject is not None:
            self._check_subject(subject, context_too=True)
        if mode == READONLY_OVERRIDE and subject is not None:
            raise errors.not_permitted("READONLY_OVERRIDE is for the whole registry only")
        enters = mode == IMPORT and self.state.mode(subject) != IMPORT
        if enters and not force and self._active_under(subject):
            raise errors.not_permitted("Cannot import since found existing subjects")
        return Decision({"mode": mode}, (Record(records.MODE, subject, 0, {"mode": mode}),))

    def delete_mode(self, subject: str | None) -> Decision:
        """Return to the inherited mode. Raises RegistryError 40401."""
        old = self.state.modes.get(subject)
        if subject is not None and old is None:
            raise errors.subject_not_found(subject)
        return Decision({"mode": old or "READWRITE"}, (Record(records.MODE, subject),))

    def delete_context(self, context: str) -> Decision:
        """Delete a context without subjects. Raises RegistryError."""
        prefix = f":{context}:"
        if any(subjects.context_of(each) == context for each in self.state.subjects):
            raise errors.context_not_empty(context)
        return Decision(None, tuple(self._without_settings(prefix)))

    def _active_under(self, subject: str | None) -> list[Version]:
        names = [
            each
            for each in self.state.subjects
            if subject is None
            or each == subject
            or (subjects.is_context(subject) and each.startswith(subject))
        ]
        return [version for each in names for version in self.state.versions(each)]

    # checks

    def _check_subject(self, subject: str, *, context_too: bool = False) -> None:
        try:
            normal = subjects.normalize(subject)
        except subjects.SubjectError:
            raise errors.invalid_subject(subject) from None
        if normal != subject or (subjects.is_context(subject) and not context_too):
            raise errors.invalid_subject(subject)

    def _check_writable(self, subject: str | None) -> None:
        if self.state.mode(subject) in (READONLY, READONLY_OVERRIDE):
            name = "The registry" if subject is None else f"Subject {subject}"
            raise errors.not_permitted(f"{name} is in read-only mode")


def _property(schema: Schema, name: str) -> Any:
    if schema.metadata is None:
        return None
    properties: Any = json.loads(schema.metadata).get("properties") or {}
    return properties.get(name)
