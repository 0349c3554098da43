"""A registry as its users see it: by URL, or a directory of files.

Both answer alike. A directory holds a folder for each subject, with a file for each version, named
after version and id: `orders-value/v1-id7.avsc`, `.json` or `.proto`; what a schema refers to
stands beside it in `v1-id7.references.json`. It needs no server, and can be kept with a program's
own sources.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, unquote, urlencode

import trio

from pk.core.schemas.framing import SchemaId
from pk.core.schemas.registry import records
from pk.core.schemas.registry.decisions import Decider, Decision
from pk.core.schemas.registry.errors import RegistryError, schema_not_found
from pk.core.schemas.registry.records import Record
from pk.core.schemas.registry.state import State, Version
from pk.core.schemas.schema import (
    AVRO,
    SUFFIXES,
    Reference,
    Resolved,
    Schema,
    SchemaError,
    schema_of_json,
)
from pk.net.http.client import HttpClient, address
from pk.net.http.messages import HttpError, Request
from pk.net.schemas.rest import CONTENT_TYPE

_FILE: Final = re.compile(r"v(\d+)-id(\d+)\.(avsc|json|proto)")
_DEPTH_MAX: Final = 100


class RegistryUnreachable(Exception):
    """The registry does not answer, or what answers is none."""


class SchemaRegistry(Protocol):
    """What is asked of a registry. Every method raises RegistryError for a refusal, and
    RegistryUnreachable."""

    async def subjects(self, *, deleted: bool = False) -> list[str]: ...

    async def versions(self, subject: str, *, deleted: bool = False) -> list[Version]: ...

    async def version(self, subject: str, number: int) -> Version:
        """A version, the latest for -1."""
        ...

    async def resolved(self, wanted: SchemaId) -> Resolved:
        """The schema that a record names, with all that it refers to."""
        ...

    async def resolve(self, schema: Schema, subject: str) -> Resolved:
        """A schema with all that it refers to."""
        ...

    async def level(self, subject: str) -> str: ...

    async def check(self, subject: str, schema: Schema) -> list[str]:
        """Why a schema may not follow a subject's versions; empty if it may."""
        ...

    async def register(self, subject: str, schema: Schema) -> Version: ...

    async def delete(self, subject: str, number: int | None, *, permanent: bool) -> list[int]:
        """Delete a version, or all; the numbers of those that were deleted."""
        ...

    async def close(self) -> None: ...


def open_registry(
    where: str, *, user: str | None = None, password: str | None = None
) -> SchemaRegistry:
    """The registry at a URL, or in a directory. Raises ValueError."""
    if "://" not in where:
        return DirectoryRegistry(where)
    at = address(where)
    if user is not None:
        at = type(at)(at.scheme, at.host, at.port, at.prefix, user, password)
    tls = ssl.create_default_context() if at.scheme == "https" else None
    return UrlRegistry(HttpClient(at, tls=tls))


class UrlRegistry:
    """A registry that answers over HTTP: pk's, Confluent's, or another with its API."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def _ask(self, method: str, path: str, body: object = None, **query: str) -> Any:
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        data = b"" if body is None else json.dumps(body).encode()
        try:
            found = await self._client.ask(Request(method, target, headers, data))
        except (HttpError, OSError, trio.TooSlowError) as e:
            why = str(e) or type(e).__name__
            raise RegistryUnreachable(f"{self._client.where.url} does not answer: {why}") from None
        try:
            answer = found.json()
        except HttpError as e:
            raise RegistryUnreachable(
                f"{self._client.where.url} is no schema registry: {e}"
            ) from None
        if found.status >= 400:
            if not isinstance(answer, dict) or "error_code" not in answer:
                raise RegistryUnreachable(
                    f"{self._client.where.url} is no schema registry: it answers with status "
                    f"{found.status}"
                )
            refusal = cast("dict[str, Any]", answer)
            raise RegistryError(int(refusal["error_code"]), str(refusal.get("message")))
        return answer

    async def subjects(self, *, deleted: bool = False) -> list[str]:
        """Part of SchemaRegistry."""
        return await self._ask("GET", "/subjects", deleted=str(deleted).lower())

    async def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Part of SchemaRegistry."""
        flag = str(deleted).lower()
        path = f"/subjects/{quote(subject, safe='')}/versions"
        numbers = await self._ask("GET", path, deleted=flag)
        return [_version(await self._ask("GET", f"{path}/{n}", deleted=flag)) for n in numbers]

    async def version(self, subject: str, number: int) -> Version:
        """Part of SchemaRegistry."""
        named = "latest" if number == -1 else str(number)
        return _version(
            await self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{named}")
        )

    async def resolved(self, wanted: SchemaId) -> Resolved:
        """Part of SchemaRegistry."""
        path = (
            f"/schemas/guids/{wanted.guid}"
            if wanted.guid is not None
            else f"/schemas/ids/{wanted.id}"
        )
        return await self.resolve(_schema(await self._ask("GET", path)), "")

    async def resolve(self, schema: Schema, subject: str) -> Resolved:
        """Part of SchemaRegistry."""
        found: dict[str, str] = {}
        await self._collect(schema.references, subject, found, 0)
        return Resolved(schema, tuple(found.items()))

    async def _collect(
        self, references: Sequence[Reference], within: str, found: dict[str, str], depth: int
    ) -> None:
        if depth > _DEPTH_MAX:
            raise RegistryError(42201, f"references are nested more than {_DEPTH_MAX} deep")
        for each in references:
            if each.name not in found:
                subject = State.qualified(each.subject, within) if within else each.subject
                inner = await self._ask(
                    "GET",
                    f"/subjects/{quote(subject, safe='')}/versions/{each.version}",
                    deleted="true",
                )
                schema = _schema(inner)
                await self._collect(schema.references, subject, found, depth + 1)
                found[each.name] = schema.text

    async def level(self, subject: str) -> str:
        """Part of SchemaRegistry."""
        found = await self._ask("GET", f"/config/{quote(subject, safe='')}", defaultToGlobal="true")
        return str(found.get("compatibilityLevel"))

    async def check(self, subject: str, schema: Schema) -> list[str]:
        """Part of SchemaRegistry."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
        found = await self._ask("POST", path, schema.to_json(), verbose="true")
        if found.get("is_compatible") is True:
            return []
        return list(found.get("messages") or ["not compatible"])

    async def register(self, subject: str, schema: Schema) -> Version:
        """Part of SchemaRegistry."""
        path = f"/subjects/{quote(subject, safe='')}"
        found = await self._ask("POST", f"{path}/versions", schema.to_json())
        # Older registries answer with the id alone.
        version = (
            found.get("version") or (await self._ask("POST", path, schema.to_json()))["version"]
        )
        return Version(subject, version, found["id"], schema)

    async def delete(self, subject: str, number: int | None, *, permanent: bool) -> list[int]:
        """Part of SchemaRegistry."""
        path = f"/subjects/{quote(subject, safe='')}"
        if number is not None:
            path += f"/versions/{'latest' if number == -1 else number}"
        found = await self._ask("DELETE", path, permanent=str(permanent).lower())
        return cast("list[int]", found) if isinstance(found, list) else [found]

    async def close(self) -> None:
        """Part of SchemaRegistry."""
        await self._client.close()


def _schema(data: Any) -> Schema:
    try:
        return schema_of_json(data)
    except SchemaError as e:
        raise RegistryUnreachable(f"the registry answers with no schema: {e}") from None


def _version(data: Any) -> Version:
    return Version(data["subject"], data["version"], data["id"], _schema(data))


class DirectoryRegistry:
    """A registry in a directory of files, which is read again for each question."""

    def __init__(self, path: str) -> None:
        self._root = Path(path)

    def load(self) -> Decider:
        """What the files say. Raises RegistryUnreachable."""
        if not self._root.is_dir():
            raise RegistryUnreachable(f"{self._root} is no directory")
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
        """Adds a schema to a subject, unless it is there. Raises RegistryError, OSError."""
        decision = self.load().register(subject, schema)
        self._carry_out(decision)
        return decision.reply

    async def delete(self, subject: str, number: int | None, *, permanent: bool) -> list[int]:
        """Part of SchemaRegistry. A file that is deleted is gone."""
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
