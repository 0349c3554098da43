"""Pairs of JSON Schemas with the answers that Confluent's published rules give: is the new one
backward compatible.

The rules are those of "Schema Evolution and Compatibility" for JSON Schema: open, closed and
partially open content models, and the lists of changes that its registry takes as compatible. The
schemas were written here.
"""

from __future__ import annotations

from typing import Any

OK = ""


def obj(*required: str, closed: bool = False, **properties: Any) -> dict[str, Any]:
    """An object with properties."""
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    if closed:
        found["additionalProperties"] = False
    return found


def string(**more: Any) -> dict[str, Any]:
    """A string."""
    return {"type": "string", **more}


def number(**more: Any) -> dict[str, Any]:
    """A number."""
    return {"type": "number", **more}


INTEGER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}
NULL = {"type": "null"}


def array(**more: Any) -> dict[str, Any]:
    """An array."""
    return {"type": "array", **more}


PAIRS: list[tuple[str, Any, Any, str]] = [
    # Name, old, new, the rule that is broken; none if the pair is compatible.
    ("same", obj(a=string()), obj(a=string()), OK),
    (
        "title, description, default and id",
        string(),
        string(title="t", description="d", default="x", **{"$id": "u:i"}),
        OK,
    ),
    (
        "property added to an open object",
        obj(a=string()),
        obj(a=string(), b=string()),
        "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    ("empty property added to an open object", obj(a=string()), obj(a=string(), b={}), OK),
    ("property removed from an open object", obj(a=string(), b=string()), obj(a=string()), OK),
    (
        "property added to a closed object",
        obj(a=string(), closed=True),
        obj(a=string(), b=string(), closed=True),
        OK,
    ),
    (
        "property removed from a closed object",
        obj(a=string(), b=string(), closed=True),
        obj(a=string(), closed=True),
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    (
        "false property removed from a closed object",
        obj(a=string(), b=False, closed=True),
        obj(a=string(), closed=True),
        OK,
    ),
    (
        "required property added to a closed object",
        obj(closed=True),
        obj("b", b=string(), closed=True),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    ),
    (
        "required property with a default added to a closed object",
        obj(closed=True),
        obj("b", b=string(default="x"), closed=True),
        OK,
    ),
    ("property made required", obj(a=string()), obj("a", a=string()), "REQUIRED_ATTRIBUTE_ADDED"),
    (
        "property with a default made required",
        obj(a=string(default="x")),
        obj("a", a=string(default="x")),
        OK,
    ),
    ("property no longer required", obj("a", a=string()), obj(a=string()), OK),
    ("object opened", obj(closed=True), obj(), OK),
    ("object closed", obj(), obj(closed=True), "ADDITIONAL_PROPERTIES_REMOVED"),
    (
        "object closed and a property removed",
        obj(a=string()),
        obj(closed=True),
        "ADDITIONAL_PROPERTIES_REMOVED",
    ),
    (
        "further properties narrowed",
        obj(),
        {**obj(), "additionalProperties": string()},
        "ADDITIONAL_PROPERTIES_NARROWED",
    ),
    ("further properties extended", {**obj(), "additionalProperties": string()}, obj(), OK),
    (
        "further properties changed",
        {**obj(), "additionalProperties": string()},
        {**obj(), "additionalProperties": BOOLEAN},
        "TYPE_CHANGED",
    ),
    (
        "property added that is covered",
        {**obj(), "additionalProperties": string()},
        {**obj(a=string()), "additionalProperties": string()},
        OK,
    ),
    (
        "property added that is not covered",
        {**obj(), "additionalProperties": string()},
        {**obj(a=INTEGER), "additionalProperties": string()},
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (
        "property removed that is covered",
        {**obj(a=string()), "additionalProperties": string()},
        {**obj(), "additionalProperties": string()},
        OK,
    ),
    (
        "property removed that is not covered",
        {**obj(a=INTEGER), "additionalProperties": string()},
        {**obj(), "additionalProperties": string()},
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (
        "property removed that a pattern covers",
        {**obj(s_a=string(), closed=True), "patternProperties": {"^s_": string()}},
        {**obj(closed=True), "patternProperties": {"^s_": string()}},
        OK,
    ),
    ("max properties added", obj(), {**obj(), "maxProperties": 3}, "MAX_PROPERTIES_ADDED"),
    ("max properties increased", {**obj(), "maxProperties": 3}, {**obj(), "maxProperties": 4}, OK),
    (
        "max properties decreased",
        {**obj(), "maxProperties": 3},
        {**obj(), "maxProperties": 2},
        "MAX_PROPERTIES_DECREASED",
    ),
    ("min properties added", obj(), {**obj(), "minProperties": 1}, "MIN_PROPERTIES_ADDED"),
    ("min properties removed", {**obj(), "minProperties": 1}, obj(), OK),
    (
        "min properties increased",
        {**obj(), "minProperties": 1},
        {**obj(), "minProperties": 2},
        "MIN_PROPERTIES_INCREASED",
    ),
    ("dependency added", obj(), {**obj(), "dependencies": {"a": ["b"]}}, "DEPENDENCY_ARRAY_ADDED"),
    ("dependency removed", {**obj(), "dependencies": {"a": ["b"]}}, obj(), OK),
    (
        "dependency extended",
        {**obj(), "dependencies": {"a": ["b"]}},
        {**obj(), "dependencies": {"a": ["b", "c"]}},
        "DEPENDENCY_ARRAY_EXTENDED",
    ),
    (
        "dependency narrowed",
        {**obj(), "dependencies": {"a": ["b", "c"]}},
        {**obj(), "dependencies": {"a": ["b"]}},
        OK,
    ),
    (
        "dependent schema added",
        obj(),
        {**obj(), "dependencies": {"a": obj("b")}},
        "DEPENDENCY_SCHEMA_ADDED",
    ),
    ("nested property narrowed", obj(a=obj(b=number())), obj(a=obj(b=INTEGER)), "TYPE_NARROWED"),
    ("string to number", string(), number(), "TYPE_CHANGED"),
    ("integer to number", INTEGER, number(), OK),
    ("number to integer", number(), INTEGER, "TYPE_NARROWED"),
    ("anything to string", {}, string(), "TYPE_CHANGED"),
    ("string to anything", string(), {}, OK),
    ("true to string", True, string(), "TYPE_CHANGED"),
    ("nothing to string", False, string(), OK),
    ("max length added", string(), string(maxLength=3), "MAX_LENGTH_ADDED"),
    ("max length increased", string(maxLength=3), string(maxLength=4), OK),
    ("max length decreased", string(maxLength=3), string(maxLength=2), "MAX_LENGTH_DECREASED"),
    ("min length removed", string(minLength=3), string(), OK),
    ("min length increased", string(minLength=3), string(minLength=4), "MIN_LENGTH_INCREASED"),
    ("pattern added", string(), string(pattern="^a"), "PATTERN_ADDED"),
    ("pattern removed", string(pattern="^a"), string(), OK),
    ("pattern changed", string(pattern="^a"), string(pattern="^b"), "PATTERN_CHANGED"),
    ("maximum added", number(), number(maximum=3), "MAXIMUM_ADDED"),
    ("maximum increased", number(maximum=3), number(maximum=4), OK),
    ("maximum decreased", number(maximum=3), number(maximum=2), "MAXIMUM_DECREASED"),
    ("minimum decreased", number(minimum=3), number(minimum=2), OK),
    ("minimum increased", number(minimum=3), number(minimum=4), "MINIMUM_INCREASED"),
    (
        "exclusive maximum decreased",
        number(exclusiveMaximum=3),
        number(exclusiveMaximum=2),
        "EXCLUSIVE_MAXIMUM_DECREASED",
    ),
    ("exclusive minimum removed", number(exclusiveMinimum=3), number(), OK),
    ("multiple of added", number(), number(multipleOf=2), "MULTIPLE_OF_ADDED"),
    ("multiple of reduced", number(multipleOf=4), number(multipleOf=2), OK),
    ("multiple of expanded", number(multipleOf=2), number(multipleOf=4), "MULTIPLE_OF_EXPANDED"),
    ("multiple of changed", number(multipleOf=4), number(multipleOf=3), "MULTIPLE_OF_CHANGED"),
    ("enum extended", {"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}, OK),
    ("enum narrowed", {"enum": ["a", "b", "c"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED"),
    ("enum changed", {"enum": ["a", "b"]}, {"enum": ["b", "c"]}, "ENUM_ARRAY_CHANGED"),
    (
        "typed enum narrowed",
        string(enum=["a", "b"]),
        string(enum=["a"]),
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
    ),
    ("typed enum extended", string(enum=["a"]), string(enum=["a", "b"]), OK),
    ("const changed", {"const": 1}, {"const": 2}, "ENUM_ARRAY_CHANGED"),
    ("items narrowed", array(items=number()), array(items=INTEGER), "TYPE_NARROWED"),
    ("items widened", array(items=INTEGER), array(items=number()), OK),
    ("items said", array(), array(items=number()), "SCHEMA_ADDED"),
    ("items no longer said", array(items=number()), array(), OK),
    (
        "item added to an open array",
        array(items=[string()]),
        array(items=[string(), string()]),
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    (
        "item removed from an open array",
        array(items=[string(), string()]),
        array(items=[string()]),
        OK,
    ),
    (
        "item added to a closed array",
        array(items=[string()], additionalItems=False),
        array(items=[string(), string()], additionalItems=False),
        OK,
    ),
    (
        "item removed from a closed array",
        array(items=[string(), string()], additionalItems=False),
        array(items=[string()], additionalItems=False),
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    ("max items decreased", array(maxItems=3), array(maxItems=2), "MAX_ITEMS_DECREASED"),
    ("min items decreased", array(minItems=3), array(minItems=2), OK),
    ("unique items added", array(), array(uniqueItems=True), "UNIQUE_ITEMS_ADDED"),
    ("unique items removed", array(uniqueItems=True), array(), OK),
    ("alternative added", {"oneOf": [string(), INTEGER]}, {"oneOf": [string(), INTEGER, NULL]}, OK),
    (
        "alternative removed",
        {"oneOf": [string(), INTEGER, NULL]},
        {"oneOf": [string(), INTEGER]},
        "SUM_TYPE_NARROWED",
    ),
    ("alternatives reordered", {"oneOf": [string(), INTEGER]}, {"oneOf": [INTEGER, string()]}, OK),
    (
        "alternative changed",
        {"oneOf": [string(), INTEGER]},
        {"oneOf": [string(), BOOLEAN]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
    ),
    ("one of to any of", {"oneOf": [string(), INTEGER]}, {"anyOf": [string(), INTEGER]}, OK),
    (
        "any of to one of",
        {"anyOf": [string(), INTEGER]},
        {"oneOf": [string(), INTEGER]},
        "COMBINED_TYPE_CHANGED",
    ),
    (
        "condition added",
        {"allOf": [string()]},
        {"allOf": [string(), string(maxLength=2)]},
        "PRODUCT_TYPE_EXTENDED",
    ),
    ("condition removed", {"allOf": [string(), string(maxLength=2)]}, {"allOf": [string()]}, OK),
    ("string to one of", string(), {"oneOf": [NULL, string()]}, OK),
    ("string to list of types", string(), {"type": ["string", "null"]}, OK),
    ("list of types to string", {"type": ["string", "null"]}, string(), "TYPE_CHANGED"),
    (
        "list of types narrowed",
        {"type": ["string", "null", "integer"]},
        {"type": ["string", "null"]},
        "SUM_TYPE_NARROWED",
    ),
    ("singleton any of to its schema", {"anyOf": [string()]}, string(), OK),
    ("not narrowed", {"not": number()}, {"not": INTEGER}, OK),
    ("not extended", {"not": INTEGER}, {"not": number()}, "NOT_TYPE_EXTENDED"),
    (
        "reference followed",
        {"definitions": {"s": string()}, **obj(a={"$ref": "#/definitions/s"})},
        obj(a=string()),
        OK,
    ),
    (
        "reference changed",
        {"definitions": {"s": string()}, **obj(a={"$ref": "#/definitions/s"})},
        {"definitions": {"s": INTEGER}, **obj(a={"$ref": "#/definitions/s"})},
        "TYPE_CHANGED",
    ),
    (
        "schema within itself",
        {**obj(a=string(), next={"$ref": "#"})},
        {**obj(a=string(), next={"$ref": "#"})},
        OK,
    ),
    (
        "schema within itself changed",
        {**obj(a=string(), next={"$ref": "#"})},
        {**obj(a=INTEGER, next={"$ref": "#"})},
        "TYPE_CHANGED",
    ),
    (
        "defs of 2020-12",
        {"$defs": {"s": string()}, **obj(a={"$ref": "#/$defs/s"})},
        {"$defs": {"s": string(maxLength=1)}, **obj(a={"$ref": "#/$defs/s"})},
        "MAX_LENGTH_ADDED",
    ),
]
