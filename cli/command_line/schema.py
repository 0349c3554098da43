"""The shape of a command's JSON: the JSON Schema that `-f schema` prints, and the columns that help
and completion name. Tests compare the output of every command with it.

A command names its row types (see `pk.cli.output.rows`): `shows=TopicRow`, or several, keyed by the
option or value that selects one: `{"": DescribedGroup, "members": MemberRow, "by=topic":
TopicLag}`. A tuple of row types means that one of them is chosen at run time. --where, --columns
and similar options narrow a description to `rows`. The index of commands holds the names of the
columns, so that completion needs no row type.

Completion imports this module, so it imports almost nothing.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pk.cli.command_line.declared import Declared, Rows, RowsByOption
    from pk.cli.command_line.parsed import Parsed
    from pk.cli.command_line.tree import Command


def rows_by_option(rows: "RowsByOption") -> "dict[str, Rows]":
    """A command's row types by the option that chooses them; `""` for the default."""
    if isinstance(rows, Mapping):
        return dict(rows)
    return {"": rows} if rows else {}


def schema_of_rows(rows: "Rows") -> dict[str, Any]:
    """The JSON Schema of one row."""
    from pk.cli.output.rows import object_schema

    if isinstance(rows, tuple):
        return {"anyOf": [object_schema(each) for each in rows]}
    return object_schema(rows)


def column_names(declared: "Declared") -> dict[str, str]:
    """The columns of a command's list, separated by spaces, by the option that chooses between
    lists."""
    found = rows_by_option(declared.rows or declared.shows)
    return {key: " ".join(_names(rows)) for key, rows in found.items()}


def _names(rows: "Rows") -> list[str]:
    from pk.cli.output.rows import names

    kinds = rows if isinstance(rows, tuple) else (rows,)
    return list(dict.fromkeys(name for kind in kinds for name in names(kind)))


def rows_of(
    declared: "Declared", values: Mapping[str, Any], *, narrowed: bool = False
) -> "Rows | None":
    """The row types of a command with these option values; None if it shows none."""
    chosen = declared.rows if narrowed and declared.rows else declared.shows
    return _chosen(rows_by_option(chosen), values)


def _chosen(by_choice: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """The entry that the option values choose."""
    found = (each for key, each in by_choice.items() if _is_given(key, values))
    return next(found, by_choice.get(""))


def _is_given(key: str, values: Mapping[str, Any]) -> bool:
    dest, equals, wanted = key.partition("=")
    value = values.get(dest)
    return value in wanted.split("|") if equals else bool(value)


def columns_of(command: "Command", values: Mapping[str, Any] | None = None) -> list[str]:
    """The columns for --columns, --sort and --where of a command."""
    names: str | None = _chosen(command.columns, values or {})
    return names.split() if names else []


def schema_of(parsed: "Parsed") -> dict[str, Any]:
    """The JSON Schema of the output of this command line with `-f json`. Raises Unusable if the
    command prints no JSON."""
    from pk.cli.exits import Unusable

    declared = parsed.declared
    assert declared is not None
    values = parsed.values
    wanted = values.get("columns", ())
    narrowed = any(values.get(name) for name in ("columns", "sort", "where", "limit"))
    rows = rows_of(declared, values, narrowed=narrowed)
    if rows is None and _takes_record_formats(parsed):
        from pk.cli.output.record_row import ParsedRecordRow, RecordRow

        rows = ParsedRecordRow if values.get("parse_json") else RecordRow
    name = " ".join(("pk", *parsed.path))
    if rows is None:
        raise Unusable(f"{name} prints no JSON.")
    items = schema_of_rows(rows)
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


def _only(items: dict[str, Any], wanted: Collection[str]) -> dict[str, Any]:
    """The schema of rows with only the `wanted` columns."""
    if "anyOf" in items:
        return {"anyOf": [_only(each, wanted) for each in items["anyOf"]]}
    known = items["properties"]
    names = [name.strip().lower().replace("-", "_") for name in wanted if name[:1] != "-"]
    without = {name[1:].strip().lower().replace("-", "_") for name in wanted if name[:1] == "-"}
    kept = {n: known[n] for n in (names or known) if n in known and n not in without}
    return {**items, "properties": kept, "required": [n for n in kept if n in items["required"]]}
