"""What a command's JSON looks like: the JSON Schema that `-f schema` prints, and the columns that help and completion
name. Tests hold the output of every command to it.

A command names its row types (see `pk.cli.output.rows`): `shows=TopicRow`, or several by what chooses, an option or its
value: `{"": DescribedGroup, "members": MemberRow, "by=topic": TopicLag}`. `rows` is what --where, --columns and their like
narrow a description to. The index of commands holds the names of the columns, so that completion needs no row type.

Commands whose rows are not types yet write a shape instead, a line of fields. It is a line of fields: `topic partitions:int leader:int? replicas:[int] configs:[{name value?}] ...`. A field is a
text unless a type follows: int, num, bool, any, `[TYPE]` a list, `<TYPE>` an object with keys of any name, `{FIELDS}` an
object with these; `?` behind it lets it be null, and `~` lets it be absent. `...` at the end lets there be more.

Completion imports this module, so it imports next to nothing.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pk.cli.command_line.declare import Declared
    from pk.cli.command_line.parsed import Parsed
    from pk.cli.command_line.tree import Command

Shape = str | type
"""A row type, or the line of fields that stands for one."""

Shapes = Shape | Mapping[str, Shape]
"""The shape of a command's JSON, or several by the option that chooses."""

_TYPES: Final[dict[str, dict[str, Any]]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "num": {"type": "number"},
    "bool": {"type": "boolean"},
    "any": {},
}
_RECORD: Final = (
    "topic partition:int offset:int timestamp:int timestamp_type key?~ key_b64:str~ value?~ value_b64:str~ "
    "headers:[[any]]"
)
"""A record, as every command shows it that takes the formats of records."""

_CLOSING: Final = {"{": "}", "[": "]", "<": ">"}


class _Reader:
    """Reads one shape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, char: str) -> bool:
        if self.text[self.at : self.at + len(char)] != char:
            return False
        self.at += len(char)
        return True

    def word(self) -> str:
        start = self.at
        while self.at < len(self.text) and (
            self.text[self.at].isalnum() or self.text[self.at] in "_-"
        ):
            self.at += 1
        assert self.at > start, f"a name is missing at {self.text[start:]!r}"
        return self.text[start : self.at]

    def fields(self, end: str = "") -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        more = False
        self.blank()
        while self.at < len(self.text) and not (end and self.text[self.at] == end):
            if self.take("..."):
                more = True
            else:
                name = self.word()
                properties[name] = self.type() if self.take(":") else self.nullable(_TYPES["str"])
                if not self.take("~"):
                    required.append(name)
            self.blank()
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": more,
        }

    def type(self) -> dict[str, Any]:
        opening = self.text[self.at]
        closing = _CLOSING.get(opening)
        if closing is None:
            return self.nullable(_TYPES[self.word()])
        self.at += 1
        if opening == "{":
            found = self.fields("}")
        elif opening == "[":
            found = {"type": "array", "items": self.type()}
        else:
            found = {"type": "object", "additionalProperties": self.type()}
        assert self.take(closing), f"{closing} is missing at {self.text[self.at :]!r}"
        return self.nullable(found)

    def nullable(self, schema: dict[str, Any]) -> dict[str, Any]:
        if not self.take("?") or "type" not in schema:
            return dict(schema)
        return {**schema, "type": [schema["type"], "null"]}


def read_shape(text: str) -> dict[str, Any]:
    """The JSON Schema of one object. Raises AssertionError or KeyError where the text is no shape."""
    return _Reader(text).fields()


def shapes_by_choice(shapes: Shapes) -> dict[str, Shape]:
    """A command's shapes by the option that chooses, with `""` for the shape that none chooses."""
    if isinstance(shapes, Mapping):
        return dict(shapes)
    return {"": shapes} if shapes else {}


def schema_of_shape(shape: Shape) -> dict[str, Any]:
    """The JSON Schema of one object."""
    if isinstance(shape, str):
        return read_shape(shape)
    from pk.cli.output.rows import object_schema

    return object_schema(shape)


def column_names(declared: "Declared") -> dict[str, str]:
    """The columns of a command's list, parted by blanks, by the option that chooses between lists."""
    found = shapes_by_choice(declared.rows or declared.shows)
    return {key: " ".join(schema_of_shape(shape)["properties"]) for key, shape in found.items()}


def shape_of(
    declared: "Declared", values: Mapping[str, Any], *, narrowed: bool = False
) -> Shape | None:
    """The shape that a command's objects have under these option values; None where it prints none."""
    chosen = declared.rows if narrowed and declared.rows else declared.shows
    return _chosen(shapes_by_choice(chosen), values)


def _chosen(by_choice: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """What the option values choose."""
    found = (each for key, each in by_choice.items() if _holds(key, values))
    return next(found, by_choice.get(""))


def _holds(key: str, values: Mapping[str, Any]) -> bool:
    dest, equals, wanted = key.partition("=")
    value = values.get(dest)
    return value in wanted.split("|") if equals else bool(value)


def columns_of(command: "Command", values: Mapping[str, Any] | None = None) -> list[str]:
    """The columns that --columns, --sort and --where of a command know."""
    names: str | None = _chosen(command.columns, values or {})
    return names.split() if names else []


def schema_of(parsed: "Parsed") -> dict[str, Any]:
    """The JSON Schema of what `-f json` of this command line prints. Raises Unusable where it prints none."""
    from pk.cli.runtime.exits import Unusable

    declared = parsed.declared
    assert declared is not None
    values = parsed.values
    wanted = values.get("columns", ())
    narrowed = any(values.get(name) for name in ("columns", "sort", "where", "limit"))
    shape = shape_of(declared, values, narrowed=narrowed)
    if shape is None and _takes_record_formats(parsed):
        shape = _RECORD
    name = " ".join(("pk", *parsed.path))
    if shape is None:
        raise Unusable(f"{name} prints no JSON.")
    items = schema_of_shape(shape)
    if wanted:
        items = _only(items, wanted)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": "An array; with -f jsonl each line is one of its items.",
        "type": "array",
        "items": items,
    }


def _takes_record_formats(parsed: "Parsed") -> bool:
    options = parsed.node.options
    return any(option.complete == "record-format" for option in options)


def _only(items: dict[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    known = items["properties"]
    names = [name.strip().lower().replace("-", "_") for name in wanted if name[:1] != "-"]
    without = {name[1:].strip().lower().replace("-", "_") for name in wanted if name[:1] == "-"}
    kept = {n: known[n] for n in (names or known) if n in known and n not in without}
    return {**items, "properties": kept, "required": [n for n in kept if n in items["required"]]}
