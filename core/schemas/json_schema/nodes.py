"""JSON Schema documents as trees of nodes, which compatibility compares.

A document may have several constraints at once: a type, an enumeration, `anyOf`. Each becomes a
separate node, and several become an `allOf` of them, so that two documents are compared part by
part. A list of types becomes an `anyOf`, and so does `nullable`. Drafts 4 to 2020-12 are supported:
`definitions` and `$defs`, `items` as a list and `prefixItems`, `exclusiveMaximum` as a flag and as
a number, `dependencies` and its successors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote, urldefrag, urljoin

from msgspec import Struct, field

from pk.core.schemas.schema import SchemaError

DEPTH_MAX: Final = 200

_STRING: Final = frozenset({"maxLength", "minLength", "pattern", "format"})
_NUMBER: Final = frozenset(
    {"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"}
)
_OBJECT: Final = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "maxProperties",
        "minProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "propertyNames",
    }
)
_ARRAY: Final = frozenset(
    {
        "items",
        "prefixItems",
        "additionalItems",
        "maxItems",
        "minItems",
        "uniqueItems",
        "contains",
    }
)
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})


class Node(Struct, eq=False):
    """One constraint of a document. Its kind determines the attributes that it has."""

    kind: str
    """One of true, false, string, number, boolean, null, object, array, enum, not, if and
    combined."""

    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The keywords of the document from which this node was created."""

    integer: bool = False
    has_default: bool = False
    criterion: str = ""
    parts: list[Node] = field(default_factory=list["Node"])
    """The combined or negated nodes."""

    properties: dict[str, Node] = field(default_factory=dict[str, "Node"])
    required: frozenset[str] = frozenset()
    patterns: dict[str, Node] = field(default_factory=dict[str, "Node"])
    closed: bool = False
    """Whether additional properties of an object, or additional items of an array, are
    forbidden."""

    additional: Node | None = None
    """The schema of additional properties or items. None if all are allowed, or none."""

    dependent_required: dict[str, frozenset[str]] = field(
        default_factory=dict[str, "frozenset[str]"]
    )
    dependent_schemas: dict[str, Node] = field(default_factory=dict[str, "Node"])
    all_items: Node | None = None
    items: list[Node] = field(default_factory=list["Node"])

    @property
    def is_open(self) -> bool:
        """Whether any additions are allowed."""
        return not self.closed and self.additional is None and not self.patterns


def load(text: str) -> Any:
    """Parse a document. Raises SchemaError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise SchemaError(f"not JSON: {e}") from None
    if not isinstance(found, dict | bool):
        raise SchemaError("a JSON Schema must be an object, true or false")
    return cast("Any", found)


class Documents:
    """A document, and the documents that it refers to."""

    def __init__(self, root: Any, references: Iterable[tuple[str, Any]] = ()) -> None:
        self.root = root
        self._by_uri: dict[str, Any] = {}
        self._nodes: dict[int, Node] = {}
        for name, document in references:
            self._add(name, document)
        self._add("", root)

    def _add(self, uri: str, document: Any) -> None:
        self._by_uri[uri] = document
        if isinstance(document, dict):
            own = cast("dict[str, Any]", document).get(
                "$id", cast("dict[str, Any]", document).get("id")
            )
            if isinstance(own, str):
                self._by_uri.setdefault(urldefrag(own)[0], document)
        self._add_inner(document, 0)

    def _add_inner(self, data: Any, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise SchemaError(f"a document is nested more than {DEPTH_MAX} deep")
        if isinstance(data, dict):
            one = cast("dict[str, Any]", data)
            own = one.get("$id")
            if isinstance(own, str) and depth:
                self._by_uri.setdefault(own, one)
            anchor = one.get("$anchor")
            if isinstance(anchor, str):
                self._by_uri.setdefault(f"#{anchor}", one)
            for each in one.values():
                self._add_inner(each, depth + 1)
        elif isinstance(data, list):
            for each in cast("list[Any]", data):
                self._add_inner(each, depth + 1)

    def node(self) -> Node:
        """Build the tree of the whole document. Raises SchemaError."""
        return self._node(self.root, "", 0)

    def _node(self, data: Any, base: str, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise SchemaError(f"schemas are nested more than {DEPTH_MAX} deep")
        if isinstance(data, bool):
            return Node("true" if data else "false")
        if not isinstance(data, dict):
            raise SchemaError(
                f"a schema must be an object, true or false, not {json.dumps(data)[:100]}"
            )
        known = self._nodes.get(id(cast("object", data)))
        if known is not None:
            return known
        one = cast("dict[str, Any]", data)
        found = self._nodes[id(one)] = Node("true", one, has_default="default" in one)
        if isinstance(one.get("$ref"), str):
            target, base = self._resolve(one["$ref"], base)
            parts = [self._node(target, base, depth + 1)]
            rest = {k: v for k, v in one.items() if k not in ("$ref", "default")}
            parts += self._parts(rest, base, depth)
        else:
            parts = self._parts(one, base, depth)
        if len(parts) == 1:
            only = parts[0]
            if only.kind == "true" and only.keywords and only is not found:
                # This reference is to a schema that is still being read: keep the reference as a
                # part.
                found.kind, found.criterion, found.parts = "combined", "allOf", [only]
                return found
            _copy_into(found, only)
        elif parts:
            found.kind, found.criterion, found.parts = "combined", "allOf", parts
        return found

    def _resolve(self, ref: str, base: str) -> tuple[Any, str]:
        whole = urljoin(base, ref) if base else ref
        for candidate in (whole, ref):
            if candidate in self._by_uri:
                return self._by_uri[candidate], candidate.partition("#")[0] or base
        uri, fragment = urldefrag(whole)
        if uri not in self._by_uri:
            uri, fragment = urldefrag(ref)
        document = self._by_uri.get(uri)
        if document is None:
            raise SchemaError(f'$ref "{ref}" cannot be resolved: add a reference with this name')
        if not fragment:
            return document, uri
        found: Any = document
        for part in unquote(fragment).lstrip("/").split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and part in found:
                found = cast("dict[str, Any]", found)[part]
            elif (
                isinstance(found, list)
                and part.isdigit()
                and int(part) < len(cast("list[Any]", found))
            ):
                found = cast("list[Any]", found)[int(part)]
            else:
                raise SchemaError(f'$ref "{ref}" cannot be resolved')
        return found, uri

    def _parts(self, data: dict[str, Any], base: str, depth: int) -> list[Node]:
        parts: list[Node] = []
        kinds = data.get("type")
        if isinstance(kinds, str):
            kinds = [kinds, "null"] if data.get("nullable") is True and kinds != "null" else [kinds]
        if isinstance(kinds, list):
            typed = [self._typed(str(each), data, base, depth) for each in cast("list[Any]", kinds)]
            parts.append(
                typed[0]
                if len(typed) == 1
                else Node("combined", data, criterion="anyOf", parts=typed)
            )
        else:
            for words, kind in (
                (_OBJECT, "object"),
                (_ARRAY, "array"),
                (_NUMBER, "number"),
                (_STRING, "string"),
            ):
                if words & data.keys():
                    parts.append(self._typed(kind, data, base, depth))
        if "enum" in data or "const" in data:
            parts.append(Node("enum", data))
        if "not" in data:
            parts.append(Node("not", data, parts=[self._node(data["not"], base, depth + 1)]))
        if "if" in data:
            parts.append(Node("if", data))
        for criterion in ("allOf", "anyOf", "oneOf"):
            listed = data.get(criterion)
            if isinstance(listed, list):
                inner = [self._node(each, base, depth + 1) for each in cast("list[Any]", listed)]
                parts.append(Node("combined", data, criterion=criterion, parts=inner))
        default = "default" in data
        for each in parts:
            each.has_default = each.has_default or default
        return parts

    def _typed(self, kind: str, data: dict[str, Any], base: str, depth: int) -> Node:
        if kind not in _TYPES:
            raise SchemaError(f"unknown type: {kind}")
        if kind in ("number", "integer"):
            return Node("number", data, integer=kind == "integer")
        found = Node(kind, data)
        if kind == "object":
            self._object(found, data, base, depth)
        elif kind == "array":
            self._array(found, data, base, depth)
        return found

    def _nodes_of(self, data: Any, base: str, depth: int) -> dict[str, Node]:
        if not isinstance(data, dict):
            return {}
        return {
            name: self._node(each, base, depth + 1)
            for name, each in cast("dict[str, Any]", data).items()
        }

    def _object(self, found: Node, data: dict[str, Any], base: str, depth: int) -> None:
        found.properties = self._nodes_of(data.get("properties"), base, depth)
        found.patterns = self._nodes_of(data.get("patternProperties"), base, depth)
        required = data.get("required")
        found.required = (
            frozenset(map(str, cast("list[Any]", required)))
            if isinstance(required, list)
            else frozenset()
        )
        self._additional(found, data.get("additionalProperties", True), base, depth)
        for word in ("dependencies", "dependentRequired", "dependentSchemas"):
            given = data.get(word)
            if not isinstance(given, dict):
                continue
            for name, each in cast("dict[str, Any]", given).items():
                if isinstance(each, list):
                    found.dependent_required[name] = frozenset(map(str, cast("list[Any]", each)))
                else:
                    found.dependent_schemas[name] = self._node(each, base, depth + 1)

    def _array(self, found: Node, data: dict[str, Any], base: str, depth: int) -> None:
        items, further = data.get("items"), data.get("additionalItems", True)
        prefix = data.get("prefixItems")
        if isinstance(prefix, list):
            items, further = cast("list[Any]", prefix), data.get("items", True)
        if isinstance(items, list):
            found.items = [self._node(each, base, depth + 1) for each in cast("list[Any]", items)]
            self._additional(found, further, base, depth)
        elif items is not None:
            found.all_items = self._node(items, base, depth + 1)

    def _additional(self, found: Node, given: Any, base: str, depth: int) -> None:
        if given is False:
            found.closed = True
        elif given is not True and given != {}:
            found.additional = self._node(given, base, depth + 1)


def _copy_into(found: Node, other: Node) -> None:
    default = found.has_default
    for name in Node.__struct_fields__:
        setattr(found, name, getattr(other, name))
    found.has_default = default or other.has_default
