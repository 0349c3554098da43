"""Reads and adds a registry's schemas without trio and h11, to decode single records and for
Spark's driver."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from pk.core.schemas.registry.errors import SUBJECT_NOT_FOUND, RegistryError, schema_not_found
from pk.core.schemas.registry.state import State, Version
from pk.core.schemas.schema import Reference, Resolved, Schema, SchemaError, schema_of_json
from pk.core.schemas.wire_format import SchemaId
from pk.net.http.address import address
from pk.net.http.messages import basic
from pk.net.schemas.answers import CONTENT_TYPE, RegistryUnreachable, unreachable
from pk.net.schemas.directory import DirectoryRegistry
from pk.net.schemas.libraries import require_libraries

TIMEOUT_S = 30.0
_DEPTH_MAX = 100
_ANSWER_BYTES_MAX = 64 << 20

_Ask = Callable[[str, Any], Any]
"""(path, body) → response. Without a body, the request is a GET."""


class Schemas:
    """Finds schemas by id and by subject. Each method raises RegistryError, RegistryUnreachable,
    SchemaError."""

    def __init__(
        self,
        where: str,
        *,
        user: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Initialize the client. `where` is a URL or a directory. `tls` is for HTTPS, by default
        with the system's certificates. Raises ValueError, MissingLibrary."""
        require_libraries()
        self._directory = DirectoryRegistry(where) if "://" not in where else None
        self._ask: _Ask | None = None
        if self._directory is None:
            self._ask = _asker(where, user, password, tls)

    def by_id(self, wanted: SchemaId) -> Resolved:
        """Return the schema with the id in a record, with all its references."""
        if self._directory is not None:
            decider = self._directory.load()
            for context in decider.state.contexts.values():
                for schema_id, schema in context.by_id.items():
                    if schema_id == wanted.id or (wanted.guid and schema.guid == wanted.guid):
                        return decider.resolve(schema, "")
            raise schema_not_found(wanted.id if wanted.id is not None else wanted.guid)
        path = f"/schemas/guids/{wanted.guid}" if wanted.guid else f"/schemas/ids/{wanted.id}"
        return self._resolved(schema_of_json(self._get(path)), "")

    def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        if self._directory is not None:
            return sorted(self._directory.load().state.subjects)
        return self._get("/subjects")

    def of_subject(self, subject: str, version: int = -1) -> tuple[int, Resolved]:
        """Return the id and the schema of a subject's version (-1: the latest)."""
        if self._directory is not None:
            decider = self._directory.load()
            found = decider.version(subject, version)
            return found.id, decider.resolve(found.schema, subject)
        named = "latest" if version == -1 else str(version)
        data = self._get(f"/subjects/{quote(subject, safe='')}/versions/{named}")
        return int(data["id"]), self._resolved(schema_of_json(data), subject)

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """Return a subject's version (-1: the latest). With `deleted`, also a deleted version."""
        if self._directory is not None:
            return self._directory.load().version(subject, number, deleted=deleted)
        named = "latest" if number == -1 else str(number)
        path = f"/subjects/{quote(subject, safe='')}/versions/{named}"
        data = self._get(f"{path}?deleted=true" if deleted else path)
        return Version(subject, int(data["version"]), int(data["id"]), schema_of_json(data))

    def versions(self, subject: str) -> list[int]:
        """Return the numbers of a subject's versions, including deleted ones; empty if there is no
        such subject."""
        if self._directory is not None:
            found = self._directory.load().state.versions(subject, deleted=True)
            return [each.version for each in found]
        try:
            return self._get(f"/subjects/{quote(subject, safe='')}/versions?deleted=true")
        except RegistryError as e:
            if e.code == SUBJECT_NOT_FOUND:
                return []
            raise

    def resolve(self, schema: Schema, subject: str) -> Resolved:
        """Return a schema with all its references."""
        if self._directory is not None:
            return self._directory.load().resolve(schema, subject)
        return self._resolved(schema, subject)

    def register(self, subject: str, schema: Schema) -> int:
        """Add a schema to a subject, unless the subject has it. Returns its id."""
        if self._directory is not None:
            return self._directory.add(subject, schema).id
        path = f"/subjects/{quote(subject, safe='')}/versions"
        assert self._ask is not None
        return int(self._ask(path, schema.to_json())["id"])

    def _get(self, path: str) -> Any:
        assert self._ask is not None
        return self._ask(path, None)

    def _resolved(self, schema: Schema, subject: str) -> Resolved:
        found: dict[str, str] = {}
        self._collect(schema.references, subject, found, 0)
        return Resolved(schema, tuple(found.items()))

    def _collect(
        self, references: tuple[Reference, ...], within: str, found: dict[str, str], depth: int
    ) -> None:
        if depth > _DEPTH_MAX:
            raise SchemaError(f"references are nested more than {_DEPTH_MAX} deep")
        for each in references:
            if each.name not in found:
                subject = State.qualified(each.subject, within) if within else each.subject
                path = f"/subjects/{quote(subject, safe='')}/versions/{each.version}?deleted=true"
                inner = schema_of_json(self._get(path))
                self._collect(inner.references, subject, found, depth + 1)
                found[each.name] = inner.text


def _asker(url: str, user: str | None, password: str | None, tls: ssl.SSLContext | None) -> _Ask:
    at = address(url)
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    name, secret = (user, password) if user else (at.user, at.password)
    if name:
        headers["Authorization"] = basic(name, secret or "")

    def ask(path: str, body: Any) -> Any:
        if at.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                at.host,
                at.port,
                timeout=TIMEOUT_S,
                context=tls if tls is not None else ssl.create_default_context(),
            )
        else:
            connection = http.client.HTTPConnection(at.host, at.port, timeout=TIMEOUT_S)
        try:
            if body is None:
                connection.request("GET", at.prefix + path, headers=headers)
            else:
                sent = {**headers, "Content-Type": CONTENT_TYPE}
                connection.request("POST", at.prefix + path, json.dumps(body), sent)
            answer = connection.getresponse()
            data = answer.read(_ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as e:
            raise unreachable(at.url, e) from None
        finally:
            connection.close()
        try:
            found: Any = json.loads(data)
            if answer.status >= 400:
                raise RegistryError(int(found["error_code"]), str(found.get("message")))
        except (ValueError, KeyError, TypeError) as e:
            raise RegistryUnreachable(f"{at.url} is not a schema registry: {e}") from None
        return found

    return ask
