"""Pairs of protobuf schemas with the answers that Confluent's published rules give: is the new one
backward compatible."""

from __future__ import annotations

OK = ""


def message(body: str, *, syntax: str = "proto3", before: str = "", name: str = "M") -> str:
    """A file with one message."""
    return f'syntax = "{syntax}";\n{before}\nmessage {name} {{ {body} }}\n'


PAIRS: list[tuple[str, str, str, str]] = [
    # Name, old, new, the rule that is broken; none if the pair is compatible.
    ("same", message("int32 a = 1;"), message("int32 a = 1;"), OK),
    ("field added", message("int32 a = 1;"), message("int32 a = 1; string b = 2;"), OK),
    ("field removed", message("int32 a = 1; string b = 2;"), message("int32 a = 1;"), OK),
    ("field renamed", message("int32 a = 1;"), message("int32 b = 1;"), OK),
    ("field renumbered", message("int32 a = 1;"), message("int32 a = 2;"), OK),
    (
        "fields reordered",
        message("int32 a = 1; int32 b = 2;"),
        message("int32 b = 2; int32 a = 1;"),
        OK,
    ),
    (
        "package changed",
        message("", before="package a;"),
        message("", before="package b;"),
        "PACKAGE_CHANGED",
    ),
    ("package added", message(""), message("", before="package b;"), "PACKAGE_CHANGED"),
    ("message added", message(""), message("", before="message N {}"), OK),
    ("message removed", message("", before="message N {}"), message(""), "MESSAGE_REMOVED"),
    ("message renamed", message(""), message("", name="N"), "MESSAGE_REMOVED"),
    ("message moved", message("", before="message N {}"), message("") + "message N {}", OK),
    ("nested message added", message(""), message("message N {}"), OK),
    ("nested message removed", message("message N {}"), message(""), "MESSAGE_REMOVED"),
    (
        "nested message changed",
        message("message N { int32 a = 1; }"),
        message("message N { string a = 1; }"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    ("enum added", message(""), message("enum E { A = 0; }"), OK),
    ("enum removed", message("enum E { A = 0; }"), message(""), OK),
    ("constant added", message("enum E { A = 0; }"), message("enum E { A = 0; B = 1; }"), OK),
    ("constant removed", message("enum E { A = 0; B = 1; }"), message("enum E { A = 0; }"), OK),
    ("constant renamed", message("enum E { A = 0; }"), message("enum E { B = 0; }"), OK),
    ("int32 to int64", message("int32 a = 1;"), message("int64 a = 1;"), OK),
    ("int32 to uint32", message("int32 a = 1;"), message("uint32 a = 1;"), OK),
    ("int64 to bool", message("int64 a = 1;"), message("bool a = 1;"), OK),
    (
        "int32 to sint32",
        message("int32 a = 1;"),
        message("sint32 a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    ("sint32 to sint64", message("sint32 a = 1;"), message("sint64 a = 1;"), OK),
    ("string to bytes", message("string a = 1;"), message("bytes a = 1;"), OK),
    (
        "string to int32",
        message("string a = 1;"),
        message("int32 a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    ("fixed32 to sfixed32", message("fixed32 a = 1;"), message("sfixed32 a = 1;"), OK),
    (
        "fixed32 to fixed64",
        message("fixed32 a = 1;"),
        message("fixed64 a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    ("fixed64 to sfixed64", message("fixed64 a = 1;"), message("sfixed64 a = 1;"), OK),
    (
        "fixed32 to int32",
        message("fixed32 a = 1;"),
        message("int32 a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "float to double",
        message("float a = 1;"),
        message("double a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "double to int64",
        message("double a = 1;"),
        message("int64 a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "enum to int32",
        message("E a = 1; enum E { A = 0; }"),
        message("int32 a = 1; enum E { A = 0; }"),
        OK,
    ),
    (
        "enum to string",
        message("E a = 1; enum E { A = 0; }"),
        message("string a = 1; enum E { A = 0; }"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "scalar to message",
        message("int32 a = 1; message N {}"),
        message("N a = 1; message N {}"),
        "FIELD_KIND_CHANGED",
    ),
    (
        "message to another",
        message("N a = 1; message N {} message O {}"),
        message("O a = 1; message N {} message O {}"),
        "FIELD_NAMED_TYPE_CHANGED",
    ),
    ("map same", message("map<string, int32> a = 1;"), message("map<string, int32> a = 1;"), OK),
    (
        "map value widened",
        message("map<string, int32> a = 1;"),
        message("map<string, int64> a = 1;"),
        OK,
    ),
    (
        "map value changed",
        message("map<string, int32> a = 1;"),
        message("map<string, string> a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "map key changed",
        message("map<string, int32> a = 1;"),
        message("map<int32, int32> a = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "map to scalar",
        message("map<string, int32> a = 1;"),
        message("string a = 1;"),
        "FIELD_KIND_CHANGED",
    ),
    ("map removed", message("map<string, int32> a = 1;"), message(""), OK),
    ("string made repeated", message("string a = 1;"), message("repeated string a = 1;"), OK),
    (
        "number made repeated",
        message("int32 a = 1;"),
        message("repeated int32 a = 1;"),
        "FIELD_NUMERIC_LABEL_CHANGED",
    ),
    ("number made optional", message("int32 a = 1;"), message("optional int32 a = 1;"), OK),
    (
        "required field added",
        message("", syntax="proto2"),
        message("required int32 a = 1;", syntax="proto2"),
        "REQUIRED_FIELD_ADDED",
    ),
    (
        "required field removed",
        message("required int32 a = 1;", syntax="proto2"),
        message("", syntax="proto2"),
        "REQUIRED_FIELD_REMOVED",
    ),
    ("oneof added", message(""), message("oneof o { int32 a = 1; }"), OK),
    ("oneof removed", message("oneof o { int32 a = 1; }"), message(""), OK),
    (
        "field added to a oneof",
        message("oneof o { int32 a = 1; }"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        OK,
    ),
    (
        "field removed from a oneof",
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        message("oneof o { int32 a = 1; }"),
        "ONEOF_FIELD_REMOVED",
    ),
    (
        "field moved to a new oneof",
        message("int32 a = 1;"),
        message("oneof o { int32 a = 1; }"),
        OK,
    ),
    (
        "two fields moved to a oneof",
        message("int32 a = 1; int32 b = 2;"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
    ),
    (
        "field moved to a oneof that was",
        message("int32 a = 1; oneof o { int32 b = 2; }"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    (
        "field in a oneof changed",
        message("oneof o { int32 a = 1; }"),
        message("oneof o { string a = 1; }"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "oneof renamed and a field changed",
        message("oneof o { int32 a = 1; }"),
        message("oneof p { string a = 1; }"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "options changed",
        message("int32 a = 1;"),
        message("int32 a = 1 [deprecated = true];", before='option java_package = "x";'),
        OK,
    ),
    (
        "message within itself",
        message("M m = 1; int32 a = 2;"),
        message("M m = 1; int32 a = 2;"),
        OK,
    ),
]
