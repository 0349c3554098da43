"""Row types: tables, schemas and completion come from one declaration."""

import importlib
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, is_typeddict

import jsonschema
import pytest

import pk.cli
from pk.cli.output.formats import OutputOptions, render
from pk.cli.output.rows import Shown, columns, listing, names, object_schema, part_of


class Named(TypedDict):
    topic: str


class Part(TypedDict):
    partition: int
    lag: Annotated[int | None, Shown(show=lambda lag: f"{lag:,}", null="?")]
    rate: float
    state: Literal["up", "down"]
    replicas: Annotated[list[int], Shown(wide=True)]
    note: Annotated[NotRequired[str | None], Shown(wide=True)]


class PartOfTopic(Named, Part):
    """A row whose first fields are those of another type."""


class Described(TypedDict):
    topic: str
    parts: list[Part]
    configs: dict[str, str]
    anything: Any


ROW: PartOfTopic = {
    "topic": "orders",
    "partition": 3,
    "lag": 12345,
    "rate": 1.5,
    "state": "up",
    "replicas": [1, 2],
}


def test_fields_are_columns_in_order_those_of_the_first_base_first() -> None:
    assert names(PartOfTopic) == [
        "topic",
        "partition",
        "lag",
        "rate",
        "state",
        "replicas",
        "note",
    ]
    assert [c.key for c in columns(PartOfTopic, without=["topic"])] == names(Part)


def test_a_table_shows_titles_numbers_on_the_right_and_no_wide_column() -> None:
    lines = (
        render(listing(PartOfTopic, [ROW, {**ROW, "lag": None}]), OutputOptions())
        .decode()
        .splitlines()
    )
    assert lines == [
        "TOPIC   PARTITION     LAG  RATE  STATE",
        "orders          3  12,345   1.5  up",
        "orders          3       ?   1.5  up",
    ]
    wide = render(listing(PartOfTopic, [ROW]), OutputOptions(format="wide")).decode().splitlines()
    assert wide[0].split()[-2:] == ["REPLICAS", "NOTE"]
    assert wide[1].split()[-2:] == ["1,2", "-"]


def test_a_row_meets_the_schema_of_its_type() -> None:
    schema = object_schema(PartOfTopic)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema).validate
    check(ROW)
    check({**ROW, "lag": None, "note": None})
    for wrong in ({"lag": "1"}, {"partition": None}, {"state": "sideways"}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            check({**ROW, **wrong})
    with pytest.raises(jsonschema.ValidationError):
        check({k: v for k, v in ROW.items() if k != "lag"})


def test_a_schema_reaches_into_the_rows_of_a_description() -> None:
    schema = object_schema(Described)
    assert schema["properties"]["parts"] == {"type": "array", "items": object_schema(Part)}
    assert schema["properties"]["configs"]["additionalProperties"] == {"type": "string"}
    assert schema["properties"]["anything"] == {}


def test_a_schema_allows_no_further_fields() -> None:
    assert object_schema(Named)["additionalProperties"] is False
    assert object_schema(Described)["properties"]["parts"]["items"]["additionalProperties"] is False


def test_the_part_of_a_row_has_the_fields_of_its_type() -> None:
    assert part_of(Named, ROW) == {"topic": "orders"}
    assert list(part_of(Part, ROW)) == ["partition", "lag", "rate", "state", "replicas"]


def test_a_column_may_be_kept_for_wide() -> None:
    lines = render(listing(PartOfTopic, [ROW], wide=("lag", "rate")), OutputOptions()).decode()
    assert lines.split()[:4] == ["TOPIC", "PARTITION", "STATE", "orders"]


def test_what_json_has_no_value_for_is_refused() -> None:
    class Odd(TypedDict):
        raw: bytes

    with pytest.raises(TypeError, match="bytes"):
        object_schema(Odd)


def _row_types() -> list[type]:
    """Every type of row that a module of rows declares."""
    root = Path(pk.cli.__file__).parent
    found: dict[str, type] = {}
    for path in root.rglob("*row*.py"):
        dotted = path.relative_to(root).with_suffix("").as_posix().replace("/", ".")
        module = importlib.import_module(f"pk.cli.{dotted}")
        found |= {f"{dotted}.{n}": kind for n, kind in vars(module).items() if is_typeddict(kind)}
    return list(found.values())


def test_counts_have_commas_and_headings_are_words() -> None:
    """docs/style.md."""
    counts = {"lag", "lag_max", "records", "records_before", "rows", "files", "dead_letters"}
    seen = set[str]()
    for kind in _row_types():
        for column in columns(kind):
            assert "-" not in (column.title or ""), (kind, column.title)
            if column.key in counts and column.right:
                seen.add(column.key)
                assert column.show is not None and column.show(1234) == "1,234", (kind, column.key)
    assert seen == counts
