"""A schema as a registry stores it: its text, its language, and the schemas it refers to."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct, field

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"

SCHEMA_TYPES: Final = (JSON, PROTOBUF, AVRO)
"""The schema languages, in the order of `/schemas/types`."""

SUFFIXES: Final = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
"""The suffixes of schema files → their languages."""

SCHEMA_CHARS_MAX: Final = 1_000_000
"""The maximum length of a schema's text, so that a record of `_schemas` stays under a topic's
message limit."""

REFERENCES_MAX: Final = 1_000
"""The maximum number of references of a schema."""


class SchemaError(ValueError):
    """A schema cannot be parsed, or a reference is missing. The message is for the schema's
    author."""


class UnfitValue(ValueError):
    """A value does not match its schema, or bytes do not match it."""


class MissingLibrary(ImportError):
    """A library of the extra `schemas` is not installed."""


def missing_library(error: ImportError) -> MissingLibrary:
    """Return the error that names the extra to install."""
    return MissingLibrary(
        f"{error.name or error} is missing: schemas need `pip install 'pk-client[schemas]'`"
    )


class Reference(Struct, frozen=True):
    """A reference to another schema: `name` in the text stands for `version` of `subject`."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """Return the reference as it is in the registry's API and records."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


class Schema(Struct, frozen=True):
    """A registered schema. Two schemas are the same if all attributes are equal."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    """Tags, properties and sensitive names, as canonical JSON. A registry stores them without
    interpreting them."""

    rule_set: str | None = None
    """Rules for clients, as canonical JSON."""

    @property
    def md5(self) -> bytes:
        """The digest of text, language, references, metadata and rules, with which a registry finds
        an equal schema."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for each in self.references:
            digest.update(f"\0{each.name}\0{each.subject}\0{each.version}".encode())
        for name, extra in (("metadata", self.metadata), ("ruleSet", self.rule_set)):
            if extra is not None:
                digest.update(f"\0{name}\0{extra}".encode())
        if self.type != AVRO:
            digest.update(b"\0" + self.type.encode())
        return digest.digest()

    @property
    def guid(self) -> str:
        """An identifier in the form of a UUID that is the same in every registry."""
        return str(uuid.UUID(bytes=self.md5))

    def to_json(self) -> dict[str, Any]:
        """Return the schema as it is in the registry's API, without the type Avro and without empty
        parts."""
        found: dict[str, Any] = {}
        if self.type != AVRO:
            found["schemaType"] = self.type
        if self.references:
            found["references"] = [each.to_json() for each in self.references]
        if self.metadata is not None:
            found["metadata"] = json.loads(self.metadata)
        if self.rule_set is not None:
            found["ruleSet"] = json.loads(self.rule_set)
        found["schema"] = self.text
        return found


class Resolved(Struct, frozen=True):
    """A schema with the texts of all its direct and indirect references, dependencies first."""

    schema: Schema
    dependencies: tuple[tuple[str, str], ...] = field(default=())
    """The name that the referring schema uses, and the text, of each."""

    @property
    def text(self) -> str:
        """The text of the schema itself."""
        return self.schema.text


def canonical_json(value: object) -> str:
    """Encode JSON without white space, with keys in the given order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def schema_of_json(data: Mapping[str, Any]) -> Schema:
    """Parse the schema in a request or a record. Raises SchemaError.

    Its text is the given one, not yet canonical.
    """
    text, kind = data.get("schema"), data.get("schemaType") or AVRO
    if not isinstance(text, str):
        raise SchemaError("Empty schema")
    if not isinstance(kind, str):
        raise SchemaError("schemaType must be a string")
    if len(text) > SCHEMA_CHARS_MAX:
        raise SchemaError(f"The schema has {len(text)} characters, the limit is {SCHEMA_CHARS_MAX}")
    return Schema(
        text,
        kind.upper(),
        _references(data.get("references")),
        _extra(data.get("metadata"), "metadata"),
        _extra(data.get("ruleSet"), "ruleSet"),
    )


def _references(given: object) -> tuple[Reference, ...]:
    if given is None:
        return ()
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise SchemaError("references must be a list")
    listed = cast("Sequence[Any]", given)
    if len(listed) > REFERENCES_MAX:
        raise SchemaError(f"A schema may have {REFERENCES_MAX} references, not {len(listed)}")
    found: list[Reference] = []
    for each in listed:
        if not isinstance(each, Mapping):
            raise SchemaError("Each reference must be an object with name, subject and version")
        one = cast("Mapping[str, Any]", each)
        name, subject, version = one.get("name"), one.get("subject"), one.get("version")
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            raise SchemaError("Each reference must have a name, a subject and a version")
        found.append(Reference(name, subject, version))
    return tuple(found)


def _extra(given: object, name: str) -> str | None:
    if given is None or given == {}:
        return None
    if not isinstance(given, Mapping):
        raise SchemaError(f"{name} must be an object")
    return canonical_json(cast("Mapping[str, Any]", given))
