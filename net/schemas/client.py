"""Clients of a registry, by URL or in a directory of files, with the same interface."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, urlencode

import trio

from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.registry.state import State, Version
from pk.core.schemas.schema import (
    Reference,
    Resolved,
    Schema,
    SchemaError,
    schema_of_json,
)
from pk.core.schemas.wire_format import SchemaId
from pk.net.http.address import address
from pk.net.http.client import HttpClient
from pk.net.http.messages import HttpError, Request
from pk.net.schemas.answers import CONTENT_TYPE, RegistryUnreachable, unreachable
from pk.net.schemas.directory import DirectoryRegistry

_DEPTH_MAX: Final = 100


class SchemaRegistry(Protocol):
    """The interface of a registry. Every method raises RegistryError for a refusal, and
    RegistryUnreachable."""

    async def subjects(self, *, deleted: bool = False) -> list[str]: ...

    async def versions(self, subject: str, *, deleted: bool = False) -> list[Version]: ...

    async def version(self, subject: str, number: int) -> Version:
        """Return a version (-1: the latest)."""
        ...

    async def resolved(self, wanted: SchemaId) -> Resolved:
        """Return the schema with the id in a record, with all its references."""
        ...

    async def resolve(self, schema: Schema, subject: str) -> Resolved:
        """Return a schema with all its references."""
        ...

    async def level(self, subject: str) -> str: ...

    async def check(self, subject: str, schema: Schema) -> list[str]:
        """Return why a schema is not compatible with a subject's versions; empty if it is."""
        ...

    async def register(self, subject: str, schema: Schema) -> Version: ...

    async def delete(self, subject: str, number: int | None, *, permanent: bool) -> list[int]:
        """Delete a version, or all versions. Returns the numbers of the deleted versions."""
        ...

    async def close(self) -> None: ...


def open_registry(
    where: str, *, user: str | None = None, password: str | None = None
) -> SchemaRegistry:
    """Open the registry at a URL, or in a directory. Raises ValueError."""
    if "://" not in where:
        return DirectoryRegistry(where)
    at = address(where)
    if user is not None:
        at = type(at)(at.scheme, at.host, at.port, at.prefix, user, password)
    tls = ssl.create_default_context() if at.scheme == "https" else None
    return UrlRegistry(HttpClient(at, tls=tls))


class UrlRegistry:
    """A registry over HTTP: pk's, Confluent's, or another registry with the same API."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def _ask(self, method: str, path: str, body: object = None, **query: str) -> Any:
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        data = b"" if body is None else json.dumps(body).encode()
        try:
            found = await self._client.ask(Request(method, target, headers, data))
        except HttpError as e:
            raise RegistryUnreachable(str(e)) from None
        except (OSError, trio.TooSlowError) as e:
            raise unreachable(self._client.where.url, e) from None
        try:
            answer = found.json()
        except HttpError as e:
            raise RegistryUnreachable(
                f"{self._client.where.url} is not a schema registry: {e}"
            ) from None
        if found.status >= 400:
            if not isinstance(answer, dict) or "error_code" not in answer:
                raise RegistryUnreachable(
                    f"{self._client.where.url} is not a schema registry: it answers with status "
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
        # Older registries return only the id.
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
        raise RegistryUnreachable(f"the registry's answer has no schema: {e}") from None


def _version(data: Any) -> Version:
    return Version(data["subject"], data["version"], data["id"], _schema(data))
