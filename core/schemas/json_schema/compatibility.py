"""Checks by Confluent's rules whether every document valid under an old JSON Schema is also valid
under a new one.

The rules name each change, and say whether it can make a valid document invalid. The names are
those in Confluent's documentation of evolution with open and closed content models: adding a
property to an open object is not compatible, since old documents may already have it, with any
value.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pk.core.schemas.compatibility import DIFFERENCES_MAX, Difference
from pk.core.schemas.json_schema.nodes import Node

COMBINED_MAX: Final = 500
"""The maximum number of alternatives that are compared, since matching them takes quadratic
time."""

_WORDS: Final = {
    "TYPE_CHANGED": "The type of the {new} schema at path '{path}' is not that of the {old} schema",
    "TYPE_NARROWED": "The type at path '{path}' in the {old} schema does not match with the {new} schema",
    "SCHEMA_ADDED": "The {new} schema at path '{path}' restricts what the {old} schema left open",
    "REQUIRED_ATTRIBUTE_ADDED": "The {new} schema has a required property at path '{path}' that the {old} schema does not "
    "require",
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": "The {old} schema has an open content model and a property or item is missing at path "
    "'{path}' that is in the {new} schema",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": "The {new} schema has a closed content model and is missing a property or item present at "
    "path '{path}' in the {old} schema",
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "The {new} schema requires a property without a default at path '{path}' that the {old} "
    "schema does not have",
    "ENUM_ARRAY_NARROWED": "An enum array at path '{path}' in the {new} schema lacks values of the {old} schema",
    "SUM_TYPE_NARROWED": "The {new} schema has fewer alternatives at path '{path}' than the {old} schema",
    "PRODUCT_TYPE_EXTENDED": "The {new} schema has more conditions at path '{path}' than the {old} schema",
}


def differences(new: Node, old: Node) -> list[Difference]:
    """Compare two schemas. Returns the reasons why a document of the old one may not fit the new
    one, if any."""
    comparison = _Comparison({})
    comparison.compare(old, new, "#")
    return comparison.found


class _Comparison:
    def __init__(self, known: dict[tuple[int, int], list[Difference]]) -> None:
        self.found: list[Difference] = []
        self._known = known
        """The results for pairs, so that each is compared only once, even in recursive schemas."""

    def add(self, kind: str, path: str) -> None:
        words = _WORDS.get(
            kind, f"{kind.replace('_', ' ').capitalize()} at path '{{path}}' in the {{new}} schema"
        )
        self.found.append(Difference(kind, path, words))

    def fits(self, old: Node, new: Node) -> bool:
        """Return whether two nodes are compatible, without recording differences."""
        probe = _Comparison(self._known)
        probe.compare(old, new, "")
        return not probe.found

    def compare(self, old: Node, new: Node, path: str) -> None:
        if old is new:
            return
        pair = id(old), id(new)
        known = self._known.get(pair)
        if known is None:
            self._known[pair] = []  # a schema that contains itself adds nothing to its own result
            inner = _Comparison(self._known)
            inner._compare(old, new, path)
            known = self._known[pair] = inner.found
        self.found += known[: DIFFERENCES_MAX - len(self.found)]

    def _compare(self, old: Node, new: Node, path: str) -> None:
        if new.kind == "true" or old.kind == "false":
            return
        if new.kind == "combined" and old.kind != "combined":
            if len(new.parts) == 1:
                return self.compare(old, new.parts[0], path)
            if new.criterion in ("anyOf", "oneOf"):
                if any(self.fits(old, each) for each in new.parts):
                    return None
            elif _all_of_same(old, new, self):
                return None
        elif old.kind == "combined" and new.kind != "combined":
            if len(old.parts) == 1:
                return self.compare(old.parts[0], new, path)
            if old.criterion == "allOf" and _is_plain(old):
                # For a type combined with an enumeration, it is enough if one of them fits.
                if any(self.fits(each, new) for each in old.parts):
                    return None
            elif _from_types(old) and all(self.fits(each, new) for each in old.parts):
                return None
        if old.kind != new.kind:
            return self.add("TYPE_CHANGED", path)
        match old.kind:
            case "string":
                self._string(old, new, path)
            case "number":
                self._number(old, new, path)
            case "enum":
                self._enum(old, new, path)
            case "not":
                if not self.fits(new.parts[0], old.parts[0]):
                    self.add("NOT_TYPE_EXTENDED", f"{path}/not")
            case "if":
                if _conditional(old) != _conditional(new):
                    self.add("CONDITIONAL_CHANGED", f"{path}/if")
            case "object":
                self._object(old, new, path)
            case "array":
                self._array(old, new, path)
            case "combined":
                self._combined(old, new, path)
            case _:
                pass
        return None

    def _limit(self, old: Node, new: Node, word: str, name: str, path: str, *, upper: bool) -> None:
        before, after = _bound(old, word), _bound(new, word)
        if before == after or after is None:
            return
        if before is None:
            self.add(f"{name}_ADDED", f"{path}/{word}")
        elif upper and after < before:
            self.add(f"{name}_DECREASED", f"{path}/{word}")
        elif not upper and after > before:
            self.add(f"{name}_INCREASED", f"{path}/{word}")

    def _string(self, old: Node, new: Node, path: str) -> None:
        self._limit(old, new, "maxLength", "MAX_LENGTH", path, upper=True)
        self._limit(old, new, "minLength", "MIN_LENGTH", path, upper=False)
        before, after = old.keywords.get("pattern"), new.keywords.get("pattern")
        if before != after and after is not None:
            self.add("PATTERN_ADDED" if before is None else "PATTERN_CHANGED", f"{path}/pattern")

    def _number(self, old: Node, new: Node, path: str) -> None:
        self._limit(old, new, "maximum", "MAXIMUM", path, upper=True)
        self._limit(old, new, "minimum", "MINIMUM", path, upper=False)
        self._limit(old, new, "exclusiveMaximum", "EXCLUSIVE_MAXIMUM", path, upper=True)
        self._limit(old, new, "exclusiveMinimum", "EXCLUSIVE_MINIMUM", path, upper=False)
        before, after = old.keywords.get("multipleOf"), new.keywords.get("multipleOf")
        if before != after and after is not None:
            if before is None:
                self.add("MULTIPLE_OF_ADDED", f"{path}/multipleOf")
            elif before % after != 0:
                kind = "EXPANDED" if after % before == 0 else "CHANGED"
                self.add(f"MULTIPLE_OF_{kind}", f"{path}/multipleOf")
        if new.integer and not old.integer:
            self.add("TYPE_NARROWED", path)

    def _enum(self, old: Node, new: Node, path: str) -> None:
        before, after = _values(old), _values(new)
        if before <= after:
            return
        self.add("ENUM_ARRAY_NARROWED" if after < before else "ENUM_ARRAY_CHANGED", f"{path}/enum")

    def _object(self, old: Node, new: Node, path: str) -> None:
        for name in old.properties.keys() & new.properties.keys():
            added = name in new.required and name not in old.required
            if added and not new.properties[name].has_default:
                self.add("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}")
        for name in sorted(old.properties.keys() | new.properties.keys()):
            self._property(old, new, name, f"{path}/properties/{name}")
        self._dependencies(old, new, f"{path}/dependencies")
        self._additional(old, new, "ADDITIONAL_PROPERTIES", f"{path}/additionalProperties")
        self._limit(old, new, "maxProperties", "MAX_PROPERTIES", path, upper=True)
        self._limit(old, new, "minProperties", "MIN_PROPERTIES", path, upper=False)

    def _property(self, old: Node, new: Node, name: str, path: str) -> None:
        before, after = old.properties.get(name), new.properties.get(name)
        if before is not None and after is not None:
            return self.compare(before, after, path)
        if before is not None:
            return self._removed(before, new, _covering(new, name), "PROPERTY", path)
        assert after is not None
        if old.is_open:
            if after.kind != "true":
                self.add("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)
            return None
        covering = _covering(old, name)
        if covering is not None and not self.fits(covering, after):
            self.add("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
        if name in new.required and not after.has_default:
            self.add("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path)
        return None

    def _removed(
        self, before: Node, new: Node, covering: Node | None, what: str, path: str
    ) -> None:
        if new.is_open:
            return
        if covering is not None:
            if not self.fits(before, covering):
                self.add(f"{what}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
        elif before.kind != "false":
            self.add(f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)

    def _additional(self, old: Node, new: Node, name: str, path: str) -> None:
        if new.closed and not old.closed:
            self.add(f"{name}_REMOVED", path)
        elif new.additional is not None and not old.closed:
            if old.additional is None:
                self.add(f"{name}_NARROWED", path)
            else:
                self.compare(old.additional, new.additional, path)

    def _dependencies(self, old: Node, new: Node, path: str) -> None:
        for name, after in new.dependent_required.items():
            before = old.dependent_required.get(name)
            if before is None:
                self.add("DEPENDENCY_ARRAY_ADDED", f"{path}/{name}")
            elif not after <= before:
                kind = "EXTENDED" if before < after else "CHANGED"
                self.add(f"DEPENDENCY_ARRAY_{kind}", f"{path}/{name}")
        for name, schema in new.dependent_schemas.items():
            if name not in old.dependent_schemas:
                self.add("DEPENDENCY_SCHEMA_ADDED", f"{path}/{name}")
            else:
                self.compare(old.dependent_schemas[name], schema, f"{path}/{name}")

    def _array(self, old: Node, new: Node, path: str) -> None:
        if new.all_items is not None:
            if old.all_items is None:
                self.add("SCHEMA_ADDED", f"{path}/items")
            else:
                self.compare(old.all_items, new.all_items, f"{path}/items")
        for index in range(max(len(old.items), len(new.items))):
            where = f"{path}/items/{index}"
            if index >= len(new.items):
                self._removed(old.items[index], new, new.additional, "ITEM", where)
            elif index < len(old.items):
                self.compare(old.items[index], new.items[index], where)
            elif old.is_open:
                if new.items[index].kind != "true":
                    self.add("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", where)
            elif old.additional is not None and not self.fits(old.additional, new.items[index]):
                self.add("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", where)
        self._additional(old, new, "ADDITIONAL_ITEMS", f"{path}/additionalItems")
        self._limit(old, new, "maxItems", "MAX_ITEMS", path, upper=True)
        self._limit(old, new, "minItems", "MIN_ITEMS", path, upper=False)
        if new.keywords.get("uniqueItems") is True and old.keywords.get("uniqueItems") is not True:
            self.add("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems")

    def _combined(self, old: Node, new: Node, path: str) -> None:
        if old.criterion != new.criterion and new.criterion != "anyOf":
            single = len(old.parts) == 1 and (new.criterion == "oneOf" or len(new.parts) == 1)
            if not single:
                return self.add("COMBINED_TYPE_CHANGED", path)
        where = f"{path}/{new.criterion}"
        before, after = _distinct(old.parts), _distinct(new.parts)
        if max(len(before), len(after)) > COMBINED_MAX:
            return self.add("COMBINED_TYPE_TOO_LARGE", where)
        if new.criterion == "allOf" and len(after) > len(before):
            return self.add("PRODUCT_TYPE_EXTENDED", where)
        if new.criterion != "allOf" and len(after) < len(before):
            return self.add("SUM_TYPE_NARROWED", where)
        edges = [
            [index for index, each in enumerate(after) if self.fits(one, each)] for one in before
        ]
        if _largest_matching(edges) < min(len(before), len(after)):
            self.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED", where)
        return None


def _all_of_same(old: Node, new: Node, comparison: _Comparison) -> bool:
    """Return whether all parts of the new schema accept what the old one accepts."""
    return all(comparison.fits(old, each) for each in new.parts)


def _is_plain(node: Node) -> bool:
    return all(each.kind not in ("combined", "not", "if") for each in node.parts)


def _from_types(node: Node) -> bool:
    """Return whether this `anyOf` comes from a list of types."""
    return node.criterion == "anyOf" and isinstance(node.keywords.get("type"), list)


def _covering(node: Node, name: str) -> Node | None:
    """Return the schema that applies to a property's name: that of a matching pattern, or of
    additional properties."""
    for pattern, schema in node.patterns.items():
        try:
            if re.search(pattern, name):
                return schema
        except re.error:
            continue
    return node.additional


def _bound(node: Node, word: str) -> Any:
    value = node.keywords.get(word)
    if isinstance(value, bool):
        # Draft 4 has a flag next to the bound.
        base = node.keywords.get(word.removeprefix("exclusive").lower())
        return base if value else None
    if node.keywords.get(f"exclusive{word.capitalize()}") is True:
        return None
    return value if isinstance(value, int | float) else None


def _values(node: Node) -> frozenset[str]:
    listed: list[Any] = (
        [node.keywords["const"]] if "const" in node.keywords else node.keywords["enum"]
    )
    return frozenset(json.dumps(each, sort_keys=True) for each in listed)


def _conditional(node: Node) -> Any:
    return [node.keywords.get(word) for word in ("if", "then", "else")]


def _distinct(parts: list[Node]) -> list[Node]:
    seen: dict[Any, Node] = {}
    for each in parts:
        key = (each.kind, json.dumps(each.keywords, sort_keys=True)) if each.keywords else id(each)
        seen.setdefault(key, each)
    return list(seen.values())


def _largest_matching(edges: list[list[int]]) -> int:
    """Compute the maximum number of left nodes that can be matched (Kuhn's augmenting paths)."""
    partner: dict[int, int] = {}

    def place(left: int, tried: set[int]) -> bool:
        for right in edges[left]:
            if right in tried:
                continue
            tried.add(right)
            if right not in partner or place(partner[right], tried):
                partner[right] = left
                return True
        return False

    return sum(place(left, set()) for left in range(len(edges)))
