"""A registry in a directory of files. It needs no server, and can be kept with a program's own
sources.

The directory has a folder for each subject, with a file for each version, named after version and
id: `orders-value/v1-id7.avsc`, `.json` or `.proto`. The references of a schema are in
`v1-id7.references.json`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from pk.core.schemas.registry import records
from pk.core.schemas.registry.decisions import Decider, Decision
from pk.core.schemas.registry.errors import RegistryError, schema_not_found
from pk.core.schemas.registry.records import Record
from pk.core.schemas.registry.state import State, Version
from pk.core.schemas.schema import AVRO, SUFFIXES, Resolved, Schema, SchemaError
from pk.core.schemas.wire_format import SchemaId
from pk.net.schemas.answers import RegistryUnreachable

_FILE: Final = re.compile(r"v(\d+)-id(\d+)\.(avsc|json|proto)")


class DirectoryRegistry:
    """A registry in a directory of files, which are read again for each request."""

    def __init__(self, path: str) -> None:
        self._root = Path(path)

    def load(self) -> Decider:
        """Read all files. Raises RegistryUnreachable."""
        if not self._root.is_dir():
            raise RegistryUnreachable(f"{self._root} is not a directory")
        state = State()
        for path in sorted(self._root.glob("*/v*-id*.*")):
            match = _FILE.fullmatch(path.name)
            if match is None:
                continue
            number, schema_id, suffix = match.groups()
            beside = path.with_name(f"v{number}-id{schema_id}.references.json")
            try:
                value: dict[str, Any] = {
                    "id": int(schema_id),
                    "schema": path.read_text(),
                    "schemaType": SUFFIXES[f".{suffix}"],
                    "references": json.loads(beside.read_text()) if beside.exists() else [],
                }
            except (OSError, ValueError) as e:
                raise RegistryUnreachable(f"{path} cannot be read: {e}") from None
            state.replay(Record(records.SCHEMA, unquote(path.parent.name), int(number), value))
        return Decider(state)

    async def subjects(self, *, deleted: bool = False) -> list[str]:
        """Part of SchemaRegistry."""
        return sorted(self.load().state.subjects)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Part of SchemaRegistry."""
        decider = self.load()
        decider.version(subject, -1)
        return decider.state.versions(subject)

    async def version(self, subject: str, number: int) -> Version:
        """Part of SchemaRegistry."""
        return self.load().version(subject, number)

    async def resolved(self, wanted: SchemaId) -> Resolved:
        """Part of SchemaRegistry."""
        decider = self.load()
        for context in decider.state.contexts.values():
            for schema_id, schema in context.by_id.items():
                if schema_id == wanted.id or schema.guid == wanted.guid:
                    return decider.resolve(schema, "")
        raise schema_not_found(wanted.id if wanted.id is not None else wanted.guid)

    async def resolve(self, schema: Schema, subject: str) -> Resolved:
        """Part of SchemaRegistry."""
        try:
            return self.load().resolve(schema, subject)
        except SchemaError as e:
            raise RegistryError(42201, str(e)) from None

    async def level(self, subject: str) -> str:
        """Part of SchemaRegistry."""
        return self.load().state.level(subject)

    async def check(self, subject: str, schema: Schema) -> list[str]:
        """Part of SchemaRegistry."""
        decider = self.load()
        return decider.compatible(subject, decider.canonical(schema, subject, normalize=False))[1]

    async def register(self, subject: str, schema: Schema) -> Version:
        """Part of SchemaRegistry."""
        return self.add(subject, schema)

    def add(self, subject: str, schema: Schema) -> Version:
        """Add a schema to a subject, unless the subject has it. Raises RegistryError, OSError."""
        decision = self.load().register(subject, schema)
        self._carry_out(decision)
        return decision.reply

    async def delete(self, subject: str, number: int | None, *, permanent: bool) -> list[int]:
        """Part of SchemaRegistry. Deletes files permanently."""
        decider = self.load()
        if number is None:
            found = [each.version for each in decider.state.versions(subject)]
            decider.delete_subject(subject)
        else:
            found = [decider.delete_version(subject, number).reply]
        for each in found:
            self._carry_out(Decision(None, (Record(records.SCHEMA, subject, each),)))
        return found

    def _carry_out(self, decision: Decision) -> None:
        for each in decision.records:
            assert each.subject is not None
            folder = self._root / quote(each.subject, safe=" ")
            if each.value is None:
                for path in folder.glob(f"v{each.version}-id*.*"):
                    path.unlink()
                if folder.exists() and not os.listdir(folder):
                    folder.rmdir()
            else:
                _write(folder, each.version, each.value)

    async def close(self) -> None:
        """Part of SchemaRegistry."""


def _write(folder: Path, version: int, value: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kind = value.get("schemaType", AVRO)
    suffix = next(each for each, named in SUFFIXES.items() if named == kind)
    name = f"v{version}-id{value['id']}"
    if value.get("references"):
        beside = folder / f"{name}.references.json"
        beside.write_text(json.dumps(value["references"], indent=2) + "\n")
    (folder / f"{name}{suffix}").write_text(value["schema"])
