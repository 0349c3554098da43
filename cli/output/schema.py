"""What a command's JSON looks like, written small beside the command and read three ways: as the JSON Schema that
`-f schema` prints, as the columns that completion offers behind --columns and --sort, and by the tests that hold every
command to it.

A shape is a line of fields: `topic partitions:int leader:int? replicas:[int] configs:[{name value?}] ...`. A field is a
text unless a type follows: int, num, bool, any, `[TYPE]` a list, `<TYPE>` an object with keys of any name, `{FIELDS}` an
object with these; `?` behind it lets it be null, and `~` lets it be absent. `...` at the end lets there be more. A command's
`shows` is a shape, or several by what chooses, an option or its value: `{"": "...", "members": "...", "by=topic": "..."}`; its `rows` is what --where,
--columns and their like narrow a description to.

Nothing is imported here: completion reads this while somebody holds the Tab key.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.tree import Command

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


def shape_of(command: Command, values: Mapping[str, Any], *, narrowed: bool = False) -> str:
    """The shape that a command's objects have under these option values; empty where it has none."""
    chosen = command.rows if narrowed and command.rows else command.shows
    if isinstance(chosen, str):
        return chosen
    return next((shape for key, shape in chosen.items() if _holds(key, values)), chosen.get("", ""))


def _holds(key: str, values: Mapping[str, Any]) -> bool:
    dest, equals, wanted = key.partition("=")
    value = values.get(dest)
    return value in wanted.split("|") if equals else bool(value)


def columns_of(command: Command, values: Mapping[str, Any] | None = None) -> list[str]:
    """The columns that --columns, --sort and --where of a command know."""
    shape = shape_of(command, values or {}, narrowed=True)
    return list(read_shape(shape)["properties"]) if shape else []


def schema_of(parsed: Parsed) -> dict[str, Any]:
    """The JSON Schema of what `-f json` of this command line prints. Raises Unusable where it prints none."""
    from pk.cli.runtime.exits import Unusable

    command = parsed.node
    assert isinstance(command, Command)
    values = parsed.args.values()
    wanted = values.get("columns", ())
    narrowed = any(values.get(name) for name in ("columns", "sort", "where", "limit"))
    shape = shape_of(command, values, narrowed=narrowed)
    if not shape and any(option.complete == "record-format" for option in command.options):
        shape = _RECORD
    name = " ".join(("pk", *parsed.path))
    if not shape:
        raise Unusable(f"{name} prints no JSON.")
    items = read_shape(shape)
    if wanted:
        items = _only(items, wanted)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": "An array; with -f jsonl each line is one of its items.",
        "type": "array",
        "items": items,
    }


def _only(items: dict[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    known = items["properties"]
    names = [name.strip().lower().replace("-", "_") for name in wanted if name[:1] != "-"]
    without = {name[1:].strip().lower().replace("-", "_") for name in wanted if name[:1] == "-"}
    kept = {n: known[n] for n in (names or known) if n in known and n not in without}
    return {**items, "properties": kept, "required": [n for n in kept if n in items["required"]]}
