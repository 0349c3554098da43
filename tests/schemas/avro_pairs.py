"""Pairs of Avro schemas: written by hand, one for each rule, and made from seeds."""

from __future__ import annotations

import json
import random
from typing import Any

Pair = tuple[str, Any, Any]
"""Name, old schema, new schema."""


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record; a field is (name, type) or (name, type, default)."""
    listed: list[dict[str, Any]] = []
    for each in fields:
        one = {"name": each[0], "type": each[1]}
        if len(each) > 2:
            one["default"] = each[2]
        listed.append(one)
    return {"type": "record", "name": name, "fields": listed, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    """An enum."""
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    """A fixed."""
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Any) -> dict[str, Any]:
    """An array."""
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    """A map."""
    return {"type": "map", "values": values}


LINKED = record(("value", "int"), ("next", ["null", "R"], None))
TREE = record(("value", "long"), ("children", array("R")))

PAIRS: list[Pair] = [
    ("same", record(("a", "int")), record(("a", "int"))),
    ("field with default added", record(("a", "int")), record(("a", "int"), ("b", "string", "x"))),
    ("field without default added", record(("a", "int")), record(("a", "int"), ("b", "string"))),
    ("field removed", record(("a", "int"), ("b", "int")), record(("a", "int"))),
    ("field with default removed", record(("a", "int"), ("b", "int", 0)), record(("a", "int"))),
    ("every field removed", record(("a", "int")), record()),
    ("fields reordered", record(("a", "int"), ("b", "long")), record(("b", "long"), ("a", "int"))),
    ("field renamed", record(("a", "int")), record(("b", "int"))),
    (
        "field renamed with alias",
        record(("a", "int")),
        {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int", "aliases": ["a"]}]},
    ),
    ("default removed", record(("a", "int", 1)), record(("a", "int"))),
    ("default changed", record(("a", "int", 1)), record(("a", "int", 2))),
    ("doc added", record(("a", "int")), record(("a", "int"), doc="text")),
    ("record renamed", record(("a", "int")), record(("a", "int"), name="S")),
    (
        "record renamed with alias",
        record(("a", "int")),
        record(("a", "int"), name="S", aliases=["R"]),
    ),
    ("namespace added", record(("a", "int")), record(("a", "int"), namespace="x.y")),
    ("namespace changed", record(name="a.b.R"), record(name="c.d.R")),
    ("int to long", record(("a", "int")), record(("a", "long"))),
    ("int to float", record(("a", "int")), record(("a", "float"))),
    ("int to double", record(("a", "int")), record(("a", "double"))),
    ("long to float", record(("a", "long")), record(("a", "float"))),
    ("long to double", record(("a", "long")), record(("a", "double"))),
    ("float to double", record(("a", "float")), record(("a", "double"))),
    ("int to string", record(("a", "int")), record(("a", "string"))),
    ("boolean to int", record(("a", "boolean")), record(("a", "int"))),
    ("string to bytes", record(("a", "string")), record(("a", "bytes"))),
    ("bytes to fixed", record(("a", "bytes")), record(("a", fixed(4)))),
    ("string to enum", record(("a", "string")), record(("a", enum("A")))),
    ("null to int", record(("a", "null")), record(("a", "int"))),
    ("primitive same", "string", "string"),
    ("primitive promoted", "int", "long"),
    ("primitive string to bytes", "string", "bytes"),
    ("primitive to record", "string", record()),
    ("primitive spelled out", "string", {"type": "string"}),
    ("property on a primitive", "string", {"type": "string", "avro.java.string": "String"}),
    ("int to union with int", record(("a", "int")), record(("a", ["null", "int"]))),
    ("int to union with long", record(("a", "int")), record(("a", ["null", "long"]))),
    ("int to union without", record(("a", "int")), record(("a", ["null", "string"]))),
    ("union extended", ["null", "int"], ["null", "int", "string"]),
    ("union narrowed", ["null", "int", "string"], ["null", "int"]),
    ("union reordered", ["null", "int"], ["int", "null"]),
    ("union promoted", ["int", "string"], ["long", "bytes"]),
    ("union of one", "int", ["int"]),
    ("union to its only branch", ["int"], "int"),
    ("union to promoted branch", ["int", "long"], "double"),
    ("union to one of two", ["int", "string"], "int"),
    ("empty union", [], ["int"]),
    (
        "union of records",
        [record(name="A"), record(name="B")],
        [record(name="B"), record(name="A")],
    ),
    (
        "union of records, a field added",
        [record(name="A"), record(("x", "int"), name="B")],
        [record(name="A"), record(("x", "int"), ("y", "int"), name="B")],
    ),
    (
        "union of records, one renamed",
        ["null", record(("x", "int"), name="A")],
        ["null", record(("x", "int"), name="B")],
    ),
    ("enum same", enum("A", "B"), enum("A", "B")),
    ("enum symbol added", enum("A", "B"), enum("A", "B", "C")),
    ("enum symbol removed", enum("A", "B", "C"), enum("A", "B")),
    ("enum symbol removed, default", enum("A", "B", "C"), enum("A", "B", default="A")),
    ("enum symbols reordered", enum("A", "B"), enum("B", "A")),
    ("enum renamed", enum("A"), enum("A", name="G")),
    ("enum renamed with alias", enum("A"), enum("A", name="G", aliases=["E"])),
    ("enum added to a record", record(), record(("e", enum("A", default="A")))),
    ("enum with a field default", record(), record(("e", enum("A"), "A"))),
    ("fixed same", fixed(4), fixed(4)),
    ("fixed size changed", fixed(4), fixed(8)),
    ("fixed renamed", fixed(4), fixed(4, name="G")),
    ("fixed renamed with alias", fixed(4), fixed(4, name="G", aliases=["F"])),
    ("fixed renamed and resized", fixed(4), fixed(8, name="G")),
    ("array same", array("int"), array("int")),
    ("array promoted", array("int"), array("long")),
    ("array of something else", array("int"), array("string")),
    ("array to map", array("int"), map_of("int")),
    ("map promoted", map_of("float"), map_of("double")),
    ("map of something else", map_of("int"), map_of("boolean")),
    ("array of records, field added", array(record()), array(record(("a", "int")))),
    ("map of unions narrowed", map_of(["null", "int"]), map_of("int")),
    ("linked list", LINKED, LINKED),
    ("linked list promoted", LINKED, record(("value", "long"), ("next", ["null", "R"], None))),
    ("linked list narrowed", record(("value", "long"), ("next", ["null", "R"], None)), LINKED),
    (
        "linked list, field added",
        LINKED,
        record(("value", "int"), ("next", ["null", "R"], None), ("x", "int")),
    ),
    ("tree", TREE, TREE),
    ("tree, other leaf", TREE, record(("value", "string"), ("children", array("R")))),
    (
        "nested record changed",
        record(("a", record(("x", "int"), name="N"))),
        record(("a", record(("x", "int"), ("y", "int"), name="N"))),
    ),
    (
        "nested record with default",
        record(("a", record(("x", "int"), name="N"))),
        record(("a", record(("x", "int"), ("y", "int", 7), name="N"))),
    ),
    (
        "nested record used twice",
        record(("a", record(("x", "int"), name="N")), ("b", "N")),
        record(("a", record(("x", "string"), name="N")), ("b", "N")),
    ),
    (
        "two mistakes",
        record(("a", "int"), ("b", "string")),
        record(("a", "string"), ("b", "int"), ("c", "int")),
    ),
    (
        "logical type added",
        record(("a", "long")),
        record(("a", {"type": "long", "logicalType": "timestamp-millis"})),
    ),
    (
        "decimal precision changed",
        record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})),
        record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2})),
    ),
    (
        "error to record",
        {**record(("a", "int")), "type": "error"},
        {**record(("a", "int")), "type": "error"},
    ),
    ("nullable with null default", record(), record(("a", ["null", "string"], None))),
    ("nullable with other default", record(), record(("a", ["string", "null"], "x"))),
    ("optional to required", record(("a", ["null", "int"], None)), record(("a", "int", 0))),
    ("map default", record(), record(("m", map_of("int"), {"a": 1}))),
    ("array default", record(), record(("m", array("int"), [1, 2]))),
    ("record default", record(), record(("m", record(("x", "int"), name="N"), {"x": 1}))),
    ("bytes default", record(), record(("m", "bytes", "\u00ff"))),
    (
        "order kept",
        record(),
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": "int", "default": 1, "order": "descending"}],
        },
    ),
    ("no name", {"type": "record", "fields": []}, record()),
    ("unknown type", record(("a", "nothing")), record()),
    ("bad name", record(("a-b", "int")), record()),
    ("duplicate field", record(("a", "int"), ("a", "int")), record()),
    ("union in a union", ["null", ["int"]], record()),
    ("duplicate in a union", ["int", "int"], record()),
    ("wrong default", record(("a", "int", "x")), record()),
    ("duplicate symbol", enum("A", "A"), record()),
    ("enum default that is no symbol", enum("A", default="B"), record()),
    ("redefined", record(("a", enum("A")), ("b", enum("A"))), record()),
    ("fixed without size", {"type": "fixed", "name": "F"}, record()),
    ("array without items", {"type": "array"}, record()),
]

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Maker:
    """Makes a schema and a changed one from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._names = 0

    def pair(self) -> Pair:
        """Old and new."""
        old = self.type(3)
        new = json.loads(json.dumps(old))
        for _ in range(self.chance.randrange(4)):
            new = self.changed(new)
        return "seed", old, new

    def name(self) -> str:
        """A name that no other type has."""
        self._names += 1
        space = self.chance.choice(["", "", "a.", "b.c."])
        return f"{space}N{self._names}"

    def type(self, depth: int) -> Any:
        """A type."""
        kind = self.chance.choice(
            ["primitive"] * 3
            + (["record", "record", "array", "map", "union", "enum", "fixed"] if depth else [])
        )
        match kind:
            case "record":
                fields = [(f"f{i}", self.type(depth - 1)) for i in range(self.chance.randrange(4))]
                return record(*fields, name=self.name())
            case "array":
                return array(self.type(depth - 1))
            case "map":
                return map_of(self.type(depth - 1))
            case "union":
                return self.chance.sample(_PRIMITIVES, self.chance.randrange(1, 4))
            case "enum":
                return enum(
                    *self.chance.sample("ABCDE", self.chance.randrange(1, 4)), name=self.name()
                )
            case "fixed":
                return fixed(self.chance.randrange(1, 3), name=self.name())
            case _:
                return self.chance.choice(_PRIMITIVES)

    def changed(self, given: Any) -> Any:
        """The type with one change somewhere in it."""
        if isinstance(given, str):
            return self.chance.choice([given, *_PRIMITIVES])
        if isinstance(given, list):
            return self.chance.sample(_PRIMITIVES, self.chance.randrange(1, 4))
        out = dict(given)
        match out["type"]:
            case "record":
                return self.changed_record(out)
            case "array":
                out["items"] = self.changed(out["items"])
            case "map":
                out["values"] = self.changed(out["values"])
            case "enum":
                out["symbols"] = self.chance.sample("ABCDE", self.chance.randrange(1, 4))
                if self.chance.random() < 0.3:
                    out["default"] = out["symbols"][0]
                else:
                    out.pop("default", None)
            case "fixed":
                out["size"] = self.chance.randrange(1, 3)
            case _:
                pass
        return out

    def changed_record(self, out: dict[str, Any]) -> dict[str, Any]:
        """The record with a field added, removed, renamed or changed, or with another name."""
        fields = [dict(each) for each in out["fields"]]
        out["fields"] = fields
        what = self.chance.choice(
            ["add", "add default", "remove", "alias", "change", "change", "name"]
        )
        if what == "add":
            fields.append(
                {"name": f"g{len(fields)}{self.chance.randrange(99)}", "type": self.type(1)}
            )
        elif what == "add default":
            fields.append(
                {"name": f"g{len(fields)}{self.chance.randrange(99)}", "type": "int", "default": 1}
            )
        elif what == "name":
            old = out["name"]
            out["name"] = self.name() + "x"
            if self.chance.random() < 0.5:
                out["aliases"] = [old if "." in old or "." not in out["name"] else f"x.{old}"]
        elif fields:
            index = self.chance.randrange(len(fields))
            if what == "remove":
                del fields[index]
            elif what == "alias":
                fields[index]["aliases"] = [fields[index]["name"]]
                fields[index]["name"] += "y"
            else:
                fields[index]["type"] = self.changed(fields[index]["type"])
        return out


def asked(pair: Pair) -> dict[str, str]:
    """A pair as the Java program reads it."""
    return {"old": json.dumps(pair[1]), "new": json.dumps(pair[2])}
