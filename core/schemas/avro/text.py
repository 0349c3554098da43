"""The canonical text of an Avro schema: the JSON that Apache's Java library writes for it.

A registry finds an equal schema by its text, so the text must not depend on white space, on the
order of keys, or on how a name was spelled. Documentation, aliases and properties are kept. With
`normalize`, properties are sorted as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pk.core.schemas.avro.types import MISSING, NAMED, Field, Type
from pk.core.schemas.schema import canonical_json


def canonical(kind: Type, borrowed: Iterable[str] = (), *, normalize: bool = False) -> str:
    """Return the canonical text of a type. The types in `borrowed`, which references declare, stay
    names."""
    return canonical_json(_Writer(set(borrowed), normalize).write(kind, ""))


class _Writer:
    def __init__(self, known: set[str], normalize: bool) -> None:
        self._known = known
        self._normalize = normalize

    def write(self, kind: Type, namespace: str) -> Any:
        if kind.kind == "union":
            return [self.write(each, namespace) for each in kind.branches]
        if kind.kind in NAMED:
            if kind.name in self._known:
                return kind.short_name if kind.namespace == namespace else kind.name
            return self._declaration(kind, namespace)
        if kind.items is not None:
            part = "items" if kind.kind == "array" else "values"
            return {
                "type": kind.kind,
                part: self.write(kind.items, namespace),
                **self._properties(kind.properties),
            }
        if not kind.properties:
            return kind.kind
        return {"type": kind.kind, **self._properties(kind.properties)}

    def _declaration(self, kind: Type, namespace: str) -> dict[str, Any]:
        self._known.add(kind.name)
        out: dict[str, Any] = {"type": kind.kind, "name": kind.short_name}
        if kind.namespace != namespace:
            out["namespace"] = kind.namespace
        if kind.doc is not None:
            out["doc"] = kind.doc
        match kind.kind:
            case "enum":
                out["symbols"] = list(kind.symbols)
                if kind.default_symbol is not None:
                    out["default"] = kind.default_symbol
            case "fixed":
                out["size"] = kind.size
            case _:
                out["fields"] = [self._field(each, kind.namespace) for each in kind.fields]
        out |= self._properties(kind.properties)
        if kind.aliases:
            out["aliases"] = [_short(each, kind.namespace) for each in kind.aliases]
        return out

    def _field(self, given: Field, namespace: str) -> dict[str, Any]:
        out: dict[str, Any] = {"name": given.name, "type": self.write(given.type, namespace)}
        if given.doc is not None:
            out["doc"] = given.doc
        if given.default is not MISSING:
            out["default"] = given.default
        if given.order != "ascending":
            out["order"] = given.order
        if given.aliases:
            out["aliases"] = list(given.aliases)
        return out | self._properties(given.properties)

    def _properties(self, given: dict[str, Any]) -> dict[str, Any]:
        return dict(sorted(given.items())) if self._normalize else given


def _short(name: str, namespace: str) -> str:
    space, _, short = name.rpartition(".")
    return short if space == namespace else name
