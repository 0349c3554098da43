"""Avro's types as a tree, read from the JSON of a schema, for canonical text and compatibility.

The rules are those of Avro's specification (1.12), checked as strictly as Apache's Java library
checks them: names, defaults, duplicate fields and symbols, unions inside unions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct, field

from pk.core.schemas.schema import SchemaError

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
DEPTH_MAX: Final = 200
"""The maximum nesting of types. Deeper nesting could exhaust the stack."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final[Mapping[str, frozenset[str]]] = {
    "record": frozenset({"type", "name", "namespace", "doc", "fields", "aliases"}),
    "error": frozenset({"type", "name", "namespace", "doc", "fields", "aliases"}),
    "enum": frozenset({"type", "name", "namespace", "doc", "symbols", "aliases", "default"}),
    "fixed": frozenset({"type", "name", "namespace", "doc", "size", "aliases"}),
    "array": frozenset({"type", "items"}),
    "map": frozenset({"type", "values"}),
}
_FIELD_RESERVED: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})

_INTS: Final = {"int": 31, "long": 63}


class _Missing:
    """Marks a field that has no default."""


MISSING: Final = _Missing()


class Field(Struct):
    """A field of a record."""

    name: str
    type: Type
    doc: str | None = None
    default: Any = MISSING
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def has_default(self) -> bool:
        """Whether the field has a default, so that data may lack it."""
        return self.default is not MISSING


class Type(Struct, eq=False):
    """A type. Its kind determines which attributes it has."""

    kind: str
    name: str = ""
    """The full name of a named type."""

    aliases: tuple[str, ...] = ()
    doc: str | None = None
    fields: list[Field] = field(default_factory=list[Field])
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    items: Type | None = None
    """The type of an array's items, or of a map's values."""

    branches: tuple[Type, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    """Properties that the specification does not name, including logical types."""

    @property
    def namespace(self) -> str:
        """Return the part of a full name before the last dot."""
        return self.name.rpartition(".")[0]

    @property
    def short_name(self) -> str:
        """The part of a full name after the last dot."""
        return self.name.rpartition(".")[2]

    @property
    def branch_name(self) -> str:
        """The name of the type within a union."""
        return self.name or self.kind


def parse(text: str, dependencies: Iterable[tuple[str, str]] = ()) -> tuple[Type, dict[str, Type]]:
    """Parse a schema. Returns its type, and the named types that its dependencies declare. Raises
    SchemaError."""
    known: dict[str, Type] = {}
    for _, dependency in dependencies:
        reader = _Reader(known, may_redefine=True)
        reader.read(_load(dependency), "", 0)
    borrowed = dict(known)
    return _Reader(known).read(_load(text), "", 0), borrowed


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        if _NAME.fullmatch(text.strip().replace(".", "_")):
            return text.strip()
        raise SchemaError(f"not JSON: {e}") from None


class _Reader:
    def __init__(self, known: dict[str, Type], *, may_redefine: bool = False) -> None:
        self._known = known
        self._may_redefine = may_redefine
        self._declared: dict[str, Mapping[str, Any]] = {}

    def read(self, given: Any, namespace: str, depth: int) -> Type:
        if depth > DEPTH_MAX:
            raise SchemaError(f"types are nested more than {DEPTH_MAX} deep")
        if isinstance(given, str):
            return self._named(given, namespace)
        if isinstance(given, list):
            return self._union(cast("list[Any]", given), namespace, depth)
        if not isinstance(given, dict):
            raise SchemaError(f"a type must be a string, a list or an object, not {given!r}")
        data = cast("dict[str, Any]", given)
        kind = data.get("type")
        if kind is None:
            raise SchemaError(f"No type: {json.dumps(data)[:200]}")
        if not isinstance(kind, str):
            # {"type": {"type": ...}}: the inner type, with the outer properties on top.
            inner = self.read(kind, namespace, depth + 1)
            return inner
        if kind in PRIMITIVES:
            return Type(kind, properties=_rest(data, frozenset({"type"})))
        if kind in ("record", "error"):
            return self._record(data, kind, namespace, depth)
        if kind == "enum":
            return self._enum(data, namespace)
        if kind == "fixed":
            return self._fixed(data, namespace)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            if part not in data:
                raise SchemaError(
                    f"{kind.capitalize()} has no {part} type: {json.dumps(data)[:200]}"
                )
            items = self.read(data[part], namespace, depth + 1)
            return Type(kind, items=items, properties=_rest(data, _RESERVED[kind]))
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._known.get(full) or self._known.get(name)
        if found is None:
            raise SchemaError(
                f'"{name}" is not a defined name. The type of the field must be a defined name or '
                "a type"
            )
        return found

    def _declare(self, data: Mapping[str, Any], kind: str, namespace: str) -> Type:
        name, space = data.get("name"), data.get("namespace")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"No name in schema: {json.dumps(data)[:200]}")
        if "." in name:
            full = name
        else:
            within = space if isinstance(space, str) else namespace
            full = f"{within}.{name}" if within else name
        for part in full.split("."):
            _check_name(part)
        if full in PRIMITIVES:
            raise SchemaError(f"Schemas may not be named after primitives: {full}")
        if full in self._known and not self._may_redefine:
            if self._declared.get(full) == data:
                return self._known[full]
            raise SchemaError(f"Can't redefine: {full}")
        self._declared[full] = data
        own = full.rpartition(".")[0]
        aliases = tuple(
            each if "." in each or not own else f"{own}.{each}"
            for each in _strings(data, "aliases")
        )
        doc = data.get("doc")
        found = Type(kind, full, aliases, doc if isinstance(doc, str) else None)
        found.properties = _rest(data, _RESERVED[kind])
        self._known[full] = found
        return found

    def _record(self, data: Mapping[str, Any], kind: str, namespace: str, depth: int) -> Type:
        found = self._declare(data, kind, namespace)
        if found.fields:
            return found  # the same declaration is repeated
        fields = data.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"Record has no fields: {json.dumps(data)[:200]}")
        seen: set[str] = set()
        for each in cast("list[Any]", fields):
            if not isinstance(each, dict):
                raise SchemaError(f"a field of {found.name} must be an object, not {each!r}")
            one = self._field(cast("dict[str, Any]", each), found.namespace, depth)
            if one.name in seen:
                raise SchemaError(f"Duplicate field {one.name} in record {found.name}")
            seen.add(one.name)
            found.fields.append(one)
        return found

    def _field(self, data: Mapping[str, Any], namespace: str, depth: int) -> Field:
        name = data.get("name")
        if not isinstance(name, str):
            raise SchemaError(f"No field name: {json.dumps(data)[:200]}")
        _check_name(name)
        if "type" not in data:
            raise SchemaError(f"No field type: {name}")
        kind = self.read(data["type"], namespace, depth + 1)
        default: Any = data.get("default", MISSING)
        if default is not MISSING and not fits(kind, default):
            raise SchemaError(
                f"Invalid default for field {name}: {json.dumps(default)} not a {kind.branch_name}"
            )
        order = data.get("order", "ascending")
        if order not in ("ascending", "descending", "ignore"):
            raise SchemaError(f"No enum constant for the order of field {name}: {order}")
        doc = data.get("doc")
        return Field(
            name,
            kind,
            doc if isinstance(doc, str) else None,
            default,
            order,
            tuple(_strings(data, "aliases")),
            _rest(data, _FIELD_RESERVED),
        )

    def _enum(self, data: Mapping[str, Any], namespace: str) -> Type:
        found = self._declare(data, "enum", namespace)
        symbols = data.get("symbols")
        if not isinstance(symbols, list):
            raise SchemaError(f"Enum has no symbols: {json.dumps(data)[:200]}")
        for each in cast("list[Any]", symbols):
            if not isinstance(each, str):
                raise SchemaError(f"an enum symbol must be a string, not {each!r}")
            _check_name(each)
        found.symbols = tuple(cast("list[str]", symbols))
        if len(set(found.symbols)) < len(found.symbols):
            raise SchemaError(f"Duplicate enum symbol in {found.name}")
        default = data.get("default")
        if default is not None:
            if default not in found.symbols:
                raise SchemaError(f"The Enum Default: {default} is not in the enum symbol set")
            found.default_symbol = cast("str", default)
        return found

    def _fixed(self, data: Mapping[str, Any], namespace: str) -> Type:
        found = self._declare(data, "fixed", namespace)
        size = data.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise SchemaError(f"Invalid or no size: {json.dumps(data)[:200]}")
        found.size = size
        return found

    def _union(self, given: list[Any], namespace: str, depth: int) -> Type:
        branches = tuple(self.read(each, namespace, depth + 1) for each in given)
        seen: set[str] = set()
        for each in branches:
            if each.kind == "union":
                raise SchemaError("Nested union")
            if each.branch_name in seen:
                raise SchemaError(f"Duplicate in union: {each.branch_name}")
            seen.add(each.branch_name)
        return Type("union", branches=branches)


def _rest(data: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in known}


def _strings(data: Mapping[str, Any], key: str) -> list[str]:
    given = data.get(key, [])
    if isinstance(given, list):
        listed = cast("list[Any]", given)
        if all(isinstance(each, str) for each in listed):
            return cast("list[str]", listed)
    raise SchemaError(f"{key} must be a list of names: {given!r}")


def _check_name(name: str) -> None:
    if not name:
        raise SchemaError("Empty name")
    if not _NAME.fullmatch(name):
        raise SchemaError(f"Illegal character in: {name}")


def fits(kind: Type, default: Any) -> bool:
    """Return whether a default, as JSON, is valid for its type; for a union, for one of its
    branches."""
    match kind.kind:
        case "null":
            return default is None
        case "boolean":
            return isinstance(default, bool)
        case "int" | "long":
            if not isinstance(default, int) or isinstance(default, bool):
                return False
            bits = _INTS[kind.kind]
            return -(1 << bits) <= default < 1 << bits
        case "float" | "double":
            return isinstance(default, int | float) and not isinstance(default, bool)
        case "string" | "bytes" | "fixed" | "enum":
            return isinstance(default, str)
        case "array":
            assert kind.items is not None
            items = kind.items
            return isinstance(default, list) and all(
                fits(items, each) for each in cast("list[Any]", default)
            )
        case "map":
            assert kind.items is not None
            items = kind.items
            return isinstance(default, dict) and all(
                fits(items, each) for each in cast("dict[str, Any]", default).values()
            )
        case "union":
            return any(fits(each, default) for each in kind.branches)
        case _:
            if not isinstance(default, dict):
                return False
            data = cast("dict[str, Any]", default)
            return all(
                fits(each.type, data[each.name]) if each.name in data else each.has_default
                for each in kind.fields
            )
