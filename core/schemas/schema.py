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
"""The languages, in the order in which `/schemas/types` names them."""

SUFFIXES: Final = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
"""The names of files, by the language that they hold."""

SCHEMA_CHARS_MAX: Final = 1_000_000
"""How long the text of one schema may be: a record of `_schemas` must stay under a topic's message
limit."""

REFERENCES_MAX: Final = 1_000
"""How many references one schema may name."""


class SchemaError(ValueError):
    """A schema cannot be parsed, or refers to what is missing. The message is for the person who
    wrote it."""


class UnfitValue(ValueError):
    """A value does not fit its schema, or bytes do not hold what their schema says."""


class MissingLibrary(ImportError):
    """A library of the extra `schemas` is not installed."""


def missing_library(error: ImportError) -> MissingLibrary:
    """The error that names the extra to install."""
    return MissingLibrary(
        f"{error.name or error} is missing: schemas need `pip install 'pk-broker[schemas]'`"
    )


class Reference(Struct, frozen=True):
    """One schema's name for another: what the text calls `name` is `version` of `subject`."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """As the registry's API and records have it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


class Schema(Struct, frozen=True):
    """A schema as it is registered. Two are the same schema if all of it is equal."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    """Tags, properties and sensitive names, as canonical JSON; a registry keeps them, and does not
    interpret them."""

    rule_set: str | None = None
    """Rules for clients, as canonical JSON."""

    @property
    def md5(self) -> bytes:
        """The digest by which the registry finds an equal schema: of text, references, metadata and
        rules."""
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
        """The identity that is the same in every registry, in the form of a UUID."""
        return str(uuid.UUID(bytes=self.md5))

    def to_json(self) -> dict[str, Any]:
        """As the registry's API has it: the type is left out for Avro, empty parts always."""
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
    """A schema with the texts of all that it refers to, directly or not, dependencies first."""

    schema: Schema
    dependencies: tuple[tuple[str, str], ...] = field(default=())
    """Name, as the schema that refers to it calls it, and text."""

    @property
    def text(self) -> str:
        """The text of the schema itself."""
        return self.schema.text


def canonical_json(value: object) -> str:
    """JSON without white space, keys in their order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def schema_of_json(data: Mapping[str, Any]) -> Schema:
    """The schema that a request or a record describes. Raises SchemaError.

    Its text is as given, not yet canonical.
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
