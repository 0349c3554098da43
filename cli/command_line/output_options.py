"""Checks the output options before the command runs, so that an unknown column is reported before,
say, a topic is deleted."""

from typing import Any, Final, cast

from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.schema import rows_of, schema_of_rows
from pk.cli.output.formats import Column, Listing, OutputOptions, check_format, narrow, template

_SAMPLES: Final[dict[str, Any]] = {
    "string": "x",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}


def check_output_options(parsed: Parsed) -> None:
    """Raise Unusable for a format, a column, a condition or a template that the command cannot
    show."""
    declared, values = parsed.declared, parsed.values
    if declared is None or not declared.shows or "format" not in values:
        return  # the command shows nothing, or records in other formats
    form = check_format(values["format"]) if values["format"] else "table"
    options = OutputOptions(
        format=form,
        columns=values.get("columns", ()),
        sort=values.get("sort", ()),
        where=values.get("where") if "columns" in values else None,  # otherwise it selects records
        limit=values.get("limit"),
    )
    rows = rows_of(declared, values, narrowed=True)
    if rows is None or not (options.narrows or "{" in form):
        return
    if isinstance(rows, tuple):
        return  # the columns are known only after the command has run
    schema = schema_of_rows(rows)
    listing = narrow(Listing([Column(name) for name in schema["properties"]], ()), options)
    if "{" in form:
        sample = {name: _sample(of) for name, of in schema["properties"].items()}
        template(form, [column.key for column in listing.columns])(sample)


def _sample(schema: dict[str, Any]) -> Any:
    kind = cast("str | list[str]", schema.get("type", ""))
    return _SAMPLES.get(kind if isinstance(kind, str) else kind[0], "x")
