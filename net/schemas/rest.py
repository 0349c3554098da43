"""Confluent's REST API of a schema registry: the handlers of all paths and methods.

Each instance answers reads from its own state. The leader makes changes; other instances forward
them (`X-Forward` marks forwarded requests), and answer once they have replayed the change
themselves.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, cast

import trio
from msgspec.structs import replace

from pk.core.schemas import subjects
from pk.core.schemas.registry import errors
from pk.core.schemas.registry.decisions import VERSION_MAX, Decider, Decision
from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.registry.state import State, Version
from pk.core.schemas.schema import (
    PROTOBUF,
    SCHEMA_TYPES,
    MissingLibrary,
    Schema,
    SchemaError,
    canonical_json,
    schema_of_json,
)
from pk.net.http.address import address
from pk.net.http.client import HttpClient
from pk.net.http.media_types import accepted, media_type
from pk.net.http.messages import HttpError, Request, Response
from pk.net.schemas.answers import ACCEPTED_TYPES, CONTENT_TYPE, RESPONSE_TYPES
from pk.net.schemas.election import Identity
from pk.net.schemas.registry import NotLeader, Registry

logger = logging.getLogger("pk.schemas")

FORWARDED: Final = "x-forward"
OFFSET: Final = "x-pk-offset"
LIST_MAX: Final = 20_000

Authenticate = Callable[[Request], bool]


class Rest:
    """Handles the requests to one instance of the registry."""

    def __init__(
        self,
        registry: Registry,
        *,
        authenticate: Authenticate | None = None,
        forwarder: Callable[[str], HttpClient] | None = None,
    ) -> None:
        """Initialize the handler. `forwarder` creates the client for a leader's URL."""
        self._registry = registry
        self._authenticate = authenticate
        self._forwarder = forwarder or _plain_client
        self._forwarding: dict[str, HttpClient] = {}

    def refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request without a valid user of the registry in its head; None
        for requests that `handle` answers."""
        if self._authenticate is None or self._authenticate(request):
            return None
        return Response(
            401,
            _error_body(401, "Unauthorized"),
            {"Content-Type": "application/json", "WWW-Authenticate": 'Basic realm="pk"'},
        )

    async def handle(self, request: Request) -> Response:
        """Answer a request in the media type that the client accepts."""
        found = await self._handle(request)
        kind = _answered_with(request) or CONTENT_TYPE
        return replace(found, headers={**found.headers, "Content-Type": kind})

    async def _handle(self, request: Request) -> Response:
        try:
            found = await self._route(_Asked(request, self._registry))
        except NotLeader as e:
            return await self._forward(request, e.leader)
        except RegistryError as e:
            return _answer(e.status, {"error_code": e.code, "message": e.message})
        except HttpError as e:
            return _answer(400, {"error_code": 400, "message": str(e)})
        except MissingLibrary as e:
            return _answer(500, {"error_code": 500, "message": str(e)})
        return found

    async def close(self) -> None:
        """Close the connections to other instances."""
        for each in self._forwarding.values():
            await each.close()

    async def _route(self, asked: _Asked) -> Response:
        path = asked.request.path
        if path[:1] == ("contexts",) and len(path) > 2:
            # /contexts/.test/subjects/...: all subjects in the rest of the path are in that
            # context.
            asked.context = path[1]
            path = path[2:]
        method = "GET" if asked.request.method == "HEAD" else asked.request.method
        for pattern, handlers in _ROUTES:
            names = _match(pattern, path)
            if names is None:
                continue
            handler = handlers.get(method)
            if handler is None:
                return _http_error(405, "Method Not Allowed")
            request = asked.request
            sent = request.headers.get("content-type")
            if request.body and sent is not None and media_type(sent) not in ACCEPTED_TYPES:
                return _http_error(415, "Unsupported Media Type")
            if _answered_with(request) is None:
                return _http_error(406, "Not Acceptable")
            return await handler(asked, names)
        return _http_error(404, "Not Found")

    async def _forward(self, request: Request, leader: Identity | None) -> Response:
        if leader is None or FORWARDED in request.headers:
            return _answer(
                500,
                {"error_code": 50004, "message": "Leader not known."},
            )
        client = self._forwarding.get(leader.url)
        if client is None:
            client = self._forwarding[leader.url] = self._forwarder(leader.url)
        kept = ("content-type", "authorization")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        headers[FORWARDED] = "true"
        try:
            found = await client.ask(Request(request.method, request.target, headers, request.body))
        except (HttpError, OSError, trio.TooSlowError) as e:
            message = f"Error while forwarding the request to the leader {leader.url}: {e}"
            return _answer(500, {"error_code": 50003, "message": message})
        offset = found.headers.get(OFFSET)
        if offset is not None and offset.isdigit():
            await self._registry.wait_for(int(offset))
        return Response(found.status, found.body)


def _plain_client(url: str) -> HttpClient:
    return HttpClient(address(url))


class _Asked:
    """A request, with accessors for handlers."""

    def __init__(self, request: Request, registry: Registry) -> None:
        self.request = request
        self.registry = registry
        self.context = subjects.DEFAULT_CONTEXT
        self._query = dict(request.query)

    @property
    def state(self) -> State:
        return self.registry.state

    def flag(self, name: str) -> bool:
        """Return a boolean parameter."""
        return self._query.get(name, "").lower() == "true"

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter."""
        return self._query.get(name, default)

    def number(self, name: str, default: int) -> int:
        """Return a numeric parameter. Raises RegistryError."""
        given = self._query.get(name)
        if given is None:
            return default
        try:
            return int(given)
        except ValueError:
            raise RegistryError(404, "HTTP 404 Not Found") from None

    def subject(self, given: str) -> str:
        """Return the full name of a subject in the path. Raises RegistryError."""
        if self.context != subjects.DEFAULT_CONTEXT and not given.startswith(":"):
            given = subjects.join(self.context, given)
        try:
            return subjects.normalize(given)
        except subjects.SubjectError:
            raise errors.invalid_subject(given) from None

    def body(self) -> Mapping[str, Any]:
        """Return the body as an object. Raises RegistryError."""
        try:
            found: Any = json.loads(self.request.body)
        except (ValueError, RecursionError) as e:
            raise RegistryError(400, f"Unable to process JSON: {str(e)[:200]}") from None
        if not isinstance(found, dict):
            raise RegistryError(400, "Unable to process JSON: an object is expected")
        return cast("dict[str, Any]", found)

    def schema(self) -> Schema:
        """Return the schema of the body. Raises RegistryError."""
        try:
            return schema_of_json(self.body())
        except SchemaError as e:
            raise errors.invalid_schema("", str(e)) from None

    def page(self, found: list[Any], maximum: int = LIST_MAX) -> list[Any]:
        """Return the part of a list that `offset` and `limit` select."""
        offset, limit = self.number("offset", 0), self.number("limit", -1)
        end = len(found) if limit <= 0 else offset + limit
        return found[max(offset, 0) : min(end, max(offset, 0) + maximum)]

    async def change(self, decide: Callable[[Decider], Decision]) -> tuple[Any, dict[str, str]]:
        """Make a change. Returns its reply, and the header with its offset in the log."""
        reply, offset = await self.registry.change(decide)
        return reply, {OFFSET: str(offset)}


Names = Mapping[str, str]
Handle = Callable[[_Asked, Names], Awaitable[Response]]


def _answer(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, canonical_json(value).encode(), headers or {})


def _http_error(status: int, reason: str) -> Response:
    return _answer(status, {"error_code": status, "message": f"HTTP {status} {reason}"})


def _answered_with(request: Request) -> str | None:
    """Return the media type of the response; None if the client accepts none of the available
    types."""
    return accepted(request.headers.get("accept"), RESPONSE_TYPES)


def _text(value: str) -> Response:
    return Response(200, value.encode())


def _error_body(code: int, message: str) -> bytes:
    return canonical_json({"error_code": code, "message": message}).encode()


def _match(pattern: tuple[str, ...], path: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(path):
        return None
    found: dict[str, str] = {}
    for expected, given in zip(pattern, path, strict=True):
        if expected.startswith("{"):
            found[expected[1:-1]] = given
        elif expected != given:
            return None
    return found


def _version(given: str) -> int:
    """Return the number of a version (-1: the latest). Raises RegistryError 42202."""
    if given in ("latest", "-1"):
        return -1
    if not given.isdecimal() or not 1 <= int(given[:11]) <= VERSION_MAX or len(given) > 10:
        raise errors.invalid_version(given)
    return int(given)


def _schema_id(given: str) -> int:
    if not given.isdecimal() or len(given) > 10:
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(given)


# subjects


def _subject_names(asked: _Asked) -> list[str]:
    prefix = asked.text("subjectPrefix", f":{asked.context}:" if asked.context != "." else ":*:")
    deleted, only = asked.flag("deleted"), asked.flag("deletedOnly")
    found: list[str] = []
    for name in sorted(asked.state.subjects):
        active = bool(asked.state.versions(name))
        if (active and only) or (not active and not (deleted or only)):
            continue
        if prefix == ":*:" or name.startswith(prefix):
            found.append(name)
    return found


async def _list_subjects(asked: _Asked, names: Names) -> Response:
    return _answer(200, asked.page(_subject_names(asked)))


async def _lookup(asked: _Asked, names: Names) -> Response:
    subject, schema = asked.subject(names["subject"]), asked.schema()
    deleted, normalize = asked.flag("deleted"), asked.flag("normalize")
    if not asked.state.versions(subject, deleted=deleted):
        raise errors.subject_not_found(subject)

    def find(decider: Decider) -> Version | None:
        return decider.find(
            subject, decider.canonical(schema, subject, normalize=normalize), deleted=deleted
        )

    found = await asked.registry.check(find)
    if found is None:
        raise errors.schema_not_found()
    return _answer(200, found.to_json())


async def _delete_subject(asked: _Asked, names: Names) -> Response:
    subject, permanent = asked.subject(names["subject"]), asked.flag("permanent")
    reply, headers = await asked.change(lambda d: d.delete_subject(subject, permanent=permanent))
    return _answer(200, reply, headers)


async def _list_versions(asked: _Asked, names: Names) -> Response:
    subject = asked.subject(names["subject"])
    deleted, only = asked.flag("deleted"), asked.flag("deletedOnly")
    found = asked.state.versions(subject, deleted=deleted or only)
    numbers = [each.version for each in found if each.deleted or not only]
    if not numbers:
        raise errors.subject_not_found(subject)
    return _answer(200, asked.page(numbers))


async def _register(asked: _Asked, names: Names) -> Response:
    subject, schema, body = asked.subject(names["subject"]), asked.schema(), asked.body()
    schema_id, version = body.get("id"), body.get("version")
    normalize = asked.flag("normalize")

    def decide(decider: Decider) -> Decision:
        return decider.register(
            subject,
            schema,
            normalize=normalize,
            schema_id=schema_id if isinstance(schema_id, int) else -1,
            version=version if isinstance(version, int) else -1,
        )

    reply, headers = await asked.change(decide)
    found = cast("Version", reply)
    # Without the text: a client keeps the schema in the form in which it was sent.
    shown = {"id": found.id, "version": found.version, "guid": found.schema.guid}
    return _answer(200, shown, headers)


def _one_version(asked: _Asked, names: Names) -> Version:
    subject, number = asked.subject(names["subject"]), _version(names["version"])
    every = asked.state.versions(subject, deleted=True)
    found = [each for each in every if asked.flag("deleted") or not each.deleted]
    if not found:
        raise errors.subject_not_found(subject)
    if number == -1:
        return found[-1]
    for each in found:
        if each.version == number:
            return each
    raise errors.version_not_found(number)


async def _show_version(asked: _Asked, names: Names) -> Response:
    found = _one_version(asked, names)
    return _answer(200, await _formatted(asked, found.to_json(), found.schema, found.subject))


async def _show_version_text(asked: _Asked, names: Names) -> Response:
    found = _one_version(asked, names)
    shown = await _formatted(asked, {"schema": found.schema.text}, found.schema, found.subject)
    return _text(shown["schema"])


async def _referenced_by(asked: _Asked, names: Names) -> Response:
    found = _one_version(asked, names)
    referring = asked.state.referenced_by(found.subject, found.version)
    ids = {asked.state.subjects[subject][version].id for subject, version in referring}
    return _answer(200, asked.page(sorted(ids)))


async def _delete_version(asked: _Asked, names: Names) -> Response:
    subject, number = asked.subject(names["subject"]), _version(names["version"])
    permanent = asked.flag("permanent")
    reply, headers = await asked.change(
        lambda d: d.delete_version(subject, number, permanent=permanent)
    )
    return _answer(200, reply, headers)


async def _latest_with_metadata(asked: _Asked, names: Names) -> Response:
    subject = asked.subject(names["subject"])
    wanted: list[tuple[str, str]] = []
    keys = [value for name, value in asked.request.query if name == "key"]
    values = [value for name, value in asked.request.query if name == "value"]
    wanted = list(zip(keys, values, strict=False))
    versions = asked.state.versions(subject, deleted=asked.flag("deleted"))
    if not versions:
        raise errors.subject_not_found(subject)
    for each in reversed(versions):
        properties: Any = json.loads(each.schema.metadata or "{}").get("properties") or {}
        if all(properties.get(key) == value for key, value in wanted):
            return _answer(200, each.to_json())
    raise errors.schema_not_found()


# schemas


async def _formatted(
    asked: _Asked, shown: dict[str, Any], schema: Schema, subject: str
) -> dict[str, Any]:
    """Return the schema in the form that the parameter `format` requests."""
    form = asked.text("format")
    if form == "" or form == "ignore_extensions":
        return shown
    if form == "serialized" and schema.type == PROTOBUF:
        return {
            **shown,
            "schema": await asked.registry.check(lambda d: _serialized(d, schema, subject)),
        }
    if form == "resolved" and schema.type != PROTOBUF:
        if not schema.references:
            return shown
        if schema.type == "AVRO":
            return {
                **shown,
                "schema": await asked.registry.check(lambda d: _inlined(d, schema, subject)),
            }
    raise errors.not_permitted(f"Unsupported format {form} for a schema of type {schema.type}")


def _serialized(decider: Decider, schema: Schema, subject: str) -> str:
    parsed = decider.parse(schema, subject)
    return base64.b64encode(parsed.model.proto.SerializeToString()).decode()


def _inlined(decider: Decider, schema: Schema, subject: str) -> str:
    from pk.core.schemas.avro.text import canonical

    return canonical(decider.parse(schema, subject).model)


async def _by_id(asked: _Asked, names: Names) -> Response:
    schema_id = _schema_id(names["id"])
    shown, schema, subject = _with_id(asked, schema_id)
    found = await _formatted(asked, shown, schema, subject)
    if asked.flag("fetchMaxId"):
        found = {**found, "maxId": asked.state.contexts[subjects.context_of(subject)].max_id}
    return _answer(200, found)


def _with_id(asked: _Asked, schema_id: int) -> tuple[dict[str, Any], Schema, str]:
    """Return the schema with an id, in the context of `subject` or in the default context."""
    named = asked.text("subject")
    context = subjects.context_of(asked.subject(named)) if named else asked.context
    kept = asked.state.contexts.get(context)
    schema = kept.by_id.get(schema_id) if kept is not None else None
    if schema is None and named:
        # A client may pass the subject of a record whose schema belongs to another context.
        context = asked.context
        kept = asked.state.contexts.get(context)
        schema = kept.by_id.get(schema_id) if kept is not None else None
    if schema is None:
        raise errors.schema_not_found(schema_id)
    used = asked.state.with_id(context, schema_id, deleted=True)
    subject = used[0].subject if used else subjects.join(context, "")
    return {**schema.to_json(), "guid": schema.guid}, schema, subject


async def _by_id_text(asked: _Asked, names: Names) -> Response:
    shown, schema, subject = _with_id(asked, _schema_id(names["id"]))
    return _text((await _formatted(asked, shown, schema, subject))["schema"])


def _users(asked: _Asked, names: Names) -> list[Version]:
    schema_id = _schema_id(names["id"])
    _with_id(asked, schema_id)
    return asked.state.with_id(asked.context, schema_id, deleted=asked.flag("deleted"))


async def _subjects_of_id(asked: _Asked, names: Names) -> Response:
    return _answer(200, asked.page(sorted({each.subject for each in _users(asked, names)})))


async def _versions_of_id(asked: _Asked, names: Names) -> Response:
    found = [{"subject": each.subject, "version": each.version} for each in _users(asked, names)]
    return _answer(200, asked.page(found))


def _ids_of_guid(asked: _Asked, guid: str) -> Iterable[tuple[str, int, Schema]]:
    for name, context in sorted(asked.state.contexts.items()):
        for schema_id, schema in sorted(context.by_id.items()):
            if schema.guid == guid:
                yield name, schema_id, schema


async def _by_guid(asked: _Asked, names: Names) -> Response:
    for context, schema_id, schema in _ids_of_guid(asked, names["guid"].lower()):
        used = asked.state.with_id(context, schema_id, deleted=True)
        shown = {**schema.to_json(), "guid": schema.guid}
        return _answer(200, await _formatted(asked, shown, schema, used[0].subject))
    raise errors.schema_not_found(names["guid"])


async def _ids_by_guid(asked: _Asked, names: Names) -> Response:
    found = [
        {"context": context, "id": schema_id}
        for context, schema_id, _ in _ids_of_guid(asked, names["guid"].lower())
    ]
    return _answer(200, found)


async def _list_schemas(asked: _Asked, names: Names) -> Response:
    latest, deleted = asked.flag("latestOnly"), asked.flag("deleted")
    found: list[Any] = []
    for name in _subject_names(asked):
        versions = asked.state.versions(name, deleted=deleted)
        found += [each.to_json() for each in (versions[-1:] if latest else versions)]
    return _answer(200, asked.page(found, 1000))


async def _types(asked: _Asked, names: Names) -> Response:
    return _answer(200, list(SCHEMA_TYPES))


# compatibility


async def _compatible(asked: _Asked, names: Names) -> Response:
    subject, schema = asked.subject(names["subject"]), asked.schema()
    normalize = asked.flag("normalize")
    if "version" in names:
        number = _version(names["version"])
        versions = asked.state.versions(subject)
        if number == -1:
            against = versions[-1:]
        else:
            if not versions:
                raise errors.subject_not_found(subject)
            against = [each for each in versions if each.version == number]
            if not against:
                raise errors.version_not_found(number)
    else:
        against = asked.state.versions(subject)
    level = asked.state.level(subject)

    def check(decider: Decider) -> tuple[bool, list[str]]:
        given = decider.canonical(schema, subject, normalize=normalize)
        verdict, messages = decider.compatible(subject, given, against, level)
        return verdict.compatible, messages

    compatible, messages = await asked.registry.check(check)
    shown: dict[str, Any] = {"is_compatible": compatible}
    if asked.flag("verbose"):
        shown["messages"] = messages
    return _answer(200, shown)


# settings


def _scope(asked: _Asked, names: Names) -> str | None:
    given = names.get("subject")
    if given is None:
        context = asked.context
        return None if context == subjects.DEFAULT_CONTEXT else f":{context}:"
    return asked.subject(given)


async def _show_config(asked: _Asked, names: Names) -> Response:
    scope = _scope(asked, names)
    inherited = scope is None or asked.flag("defaultToGlobal")
    found = asked.state.config(scope, inherited=inherited)
    if found is None or "compatibilityLevel" not in found:
        raise errors.no_subject_compatibility(scope or "")
    return _answer(200, dict(found))


async def _set_config(asked: _Asked, names: Names) -> Response:
    scope, body = _scope(asked, names), asked.body()
    reply, headers = await asked.change(lambda d: d.set_config(scope, body))
    return _answer(200, reply, headers)


async def _delete_config(asked: _Asked, names: Names) -> Response:
    scope = _scope(asked, names)
    reply, headers = await asked.change(lambda d: d.delete_config(scope))
    return _answer(200, reply, headers)


async def _show_mode(asked: _Asked, names: Names) -> Response:
    scope = _scope(asked, names)
    if scope is None or asked.flag("defaultToGlobal"):
        return _answer(200, {"mode": asked.state.mode(scope)})
    mode = asked.state.modes.get(scope)
    if mode is None:
        raise errors.no_subject_mode(scope)
    return _answer(200, {"mode": mode})


async def _set_mode(asked: _Asked, names: Names) -> Response:
    scope, mode, force = _scope(asked, names), asked.body().get("mode"), asked.flag("force")
    reply, headers = await asked.change(lambda d: d.set_mode(scope, mode, force=force))
    return _answer(200, reply, headers)


async def _delete_mode(asked: _Asked, names: Names) -> Response:
    scope = _scope(asked, names)
    reply, headers = await asked.change(lambda d: d.delete_mode(scope))
    return _answer(200, reply, headers)


# other paths


async def _contexts(asked: _Asked, names: Names) -> Response:
    found = {subjects.context_of(each) for each in asked.state.subjects}
    return _answer(200, asked.page(sorted(found | {subjects.DEFAULT_CONTEXT})))


async def _delete_context(asked: _Asked, names: Names) -> Response:
    context = names["context"]
    _, headers = await asked.change(lambda d: d.delete_context(context))
    return Response(204, b"", headers)


async def _root(asked: _Asked, names: Names) -> Response:
    return _answer(200, {})


async def _metadata_id(asked: _Asked, names: Names) -> Response:
    group, topic = asked.registry.settings.group, asked.registry.settings.topic
    shown: dict[str, Any] = {
        "scope": {"path": [], "clusters": {"schema-registry-cluster": group}},
        "id": topic,
    }
    return _answer(200, shown)


async def _metadata_version(asked: _Asked, names: Names) -> Response:
    from pk.core import __version__

    return _answer(200, {"version": __version__, "commitId": ""})


def _path(pattern: str) -> tuple[str, ...]:
    return tuple(part for part in pattern.split("/") if part)


_SETTINGS: Final[Mapping[str, Mapping[str, Handle]]] = {
    "/config": {"GET": _show_config, "PUT": _set_config, "DELETE": _delete_config},
    "/config/{subject}": {"GET": _show_config, "PUT": _set_config, "DELETE": _delete_config},
    "/mode": {"GET": _show_mode, "PUT": _set_mode, "DELETE": _delete_mode},
    "/mode/{subject}": {"GET": _show_mode, "PUT": _set_mode, "DELETE": _delete_mode},
}
_SUBJECTS: Final[Mapping[str, Mapping[str, Handle]]] = {
    "/subjects": {"GET": _list_subjects},
    "/subjects/{subject}": {"POST": _lookup, "DELETE": _delete_subject},
    "/subjects/{subject}/versions": {"GET": _list_versions, "POST": _register},
    "/subjects/{subject}/metadata": {"GET": _latest_with_metadata},
    "/subjects/{subject}/versions/{version}": {"GET": _show_version, "DELETE": _delete_version},
    "/subjects/{subject}/versions/{version}/schema": {"GET": _show_version_text},
    "/subjects/{subject}/versions/{version}/referencedby": {"GET": _referenced_by},
    "/compatibility/subjects/{subject}/versions": {"POST": _compatible},
    "/compatibility/subjects/{subject}/versions/{version}": {"POST": _compatible},
}
_SCHEMAS: Final[Mapping[str, Mapping[str, Handle]]] = {
    "/schemas": {"GET": _list_schemas},
    "/schemas/types": {"GET": _types},
    "/schemas/ids/{id}": {"GET": _by_id},
    "/schemas/ids/{id}/schema": {"GET": _by_id_text},
    "/schemas/ids/{id}/subjects": {"GET": _subjects_of_id},
    "/schemas/ids/{id}/versions": {"GET": _versions_of_id},
    "/schemas/guids/{guid}": {"GET": _by_guid},
    "/schemas/guids/{guid}/ids": {"GET": _ids_by_guid},
}
_OTHERS: Final[Mapping[str, Mapping[str, Handle]]] = {
    "/": {"GET": _root, "POST": _root},
    "/contexts": {"GET": _contexts},
    "/contexts/{context}": {"DELETE": _delete_context},
    "/v1/metadata/id": {"GET": _metadata_id},
    "/v1/metadata/version": {"GET": _metadata_version},
}
_ROUTES: Final = tuple(
    (_path(pattern), handlers)
    for table in (_SUBJECTS, _SCHEMAS, _SETTINGS, _OTHERS)
    for pattern, handlers in table.items()
)
