"""A pipeline's file that has changed, compared with its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from pk.spark.pipeline.definition import Pipeline, WrongPipeline, parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.upgrade import check_changes, remember, uses_of

FILE = """\
name = "p"
checkpoint = "cp"

[[source]]
name = "orders"
topic = "orders"
value = "json"
fields = "id BIGINT"

[[source]]
name = "payments"
topic = "payments"

[[table]]
name = "cities"
files = "cities"

[[step]]
name = "rows"
sql = "SELECT value.id FROM orders JOIN cities"

[[sink]]
from = "rows"
topic = "out"
key = "id"

[[sink]]
from = "payments"
jdbc = "jdbc:postgresql://db/shop?password=secret"
table = "payments"
"""


def pipeline(folder: Path, *changes: tuple[str, str]) -> Pipeline:
    text = FILE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return parse_pipeline(text, str(folder / "p.toml"))


def begin(folder: Path, *sinks: str) -> None:
    """Leave the state of a pipeline that has run and written a batch to these sinks."""
    first = pipeline(folder)
    places = Places(first)
    remember(first, places)
    for name in sinks:
        offsets = places.query(name) / "offsets"
        assert isinstance(offsets, Path)
        offsets.mkdir(parents=True)
        (offsets / "0").write_text("v1")


def said(folder: Path, *changes: tuple[str, str]) -> list[str]:
    changed = pipeline(folder, *changes)
    found = check_changes(changed, Places(changed))
    return [each.removeprefix(f"{folder / 'p.toml'}:") for each in found]


def test_the_sources_of_each_relation(tmp_path: Path) -> None:
    found = uses_of(pipeline(tmp_path))
    assert found["rows"] == {"orders", "cities"} and found["payments"] == {"payments"}


def test_before_the_first_batch_everything_may_change(tmp_path: Path) -> None:
    other = ('topic = "orders"', 'topic = "other"')
    assert said(tmp_path, other) == []
    begin(tmp_path)
    assert said(tmp_path, other) == []


def test_what_the_checkpoint_does_not_depend_on_is_not_mentioned(tmp_path: Path) -> None:
    begin(tmp_path, "rows", "payments")
    steps = ("SELECT value.id FROM", "SELECT value.id + 1 AS id FROM")
    assert said(tmp_path, steps, ('fields = "id BIGINT"', 'fields = "id BIGINT, x STRING"')) == []


REFUSED = (
    (
        ('topic = "orders"', 'topic = "orders2"'),
        (
            "6:1: orders has read topic orders so far, and its checkpoint cannot be used for topic"
            " orders2; give the pipeline a new checkpoint, with which it begins at the start"
        ),
    ),
    (
        ("FROM orders JOIN cities", "FROM orders JOIN payments"),
        (
            "23:1: rows has read orders so far, and would now read orders and payments, which Spark"
            " does not support: give the sink a new name"
        ),
    ),
)


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=("topic", "sources"))
def test_what_spark_cannot_go_on_with_is_refused_with_its_place(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    begin(tmp_path, "rows")
    with pytest.raises(WrongPipeline) as refused:
        said(tmp_path, change)
    assert f"p.toml:{message}" in str(refused.value)
    assert refused.value.lasting


SAID = (
    (
        ('from = "rows"', 'from = "rows"\nname = "new"'),
        [
            (
                "1:1: the last run had the sink rows, and this one does not: under a new name, a"
                " sink begins again at the start of its sources, even if nothing else changed"
            ),
            "23:1: new is a new sink, and begins at the start of its sources",
        ],
    ),
    (
        ('topic = "out"', 'topic = "out2"'),
        [
            (
                "24:1: rows has written to topic out so far, which keeps its rows; topic out2 gets"
                " only new rows; with a new name the sink begins at the start"
            )
        ],
    ),
    (
        ('key = "id"', 'key = "id + 1"'),
        ["25:1: key of rows was id: rows already written keep it"],
    ),
    (
        ('value = "json"\nfields = "id BIGINT"', 'value = "avro"'),
        [
            (
                "7:1: value of orders was json: new records are read as avro, and Spark"
                " refuses steps whose state contains the columns"
            )
        ],
    ),
    (
        ('checkpoint = "cp"', 'checkpoint = "cp"\nschema = "fixed"'),
        ["3:1: schema was evolve: new fields are now left out"],
    ),
    (
        ('name = "p"', 'name = "q"'),
        ["1:1: from now on the group q gets the offsets; the group p keeps its own"],
    ),
    (
        ('topic = "out"', 'topic = "out"\nmode = "update"'),
        ["25:1: mode of rows was append: rows already written stay"],
    ),
)


@pytest.mark.parametrize(("change", "messages"), SAID, ids=lambda each: each[0][:12])
def test_what_other_changes_mean_is_said_once(
    tmp_path: Path, change: tuple[str, str], messages: list[str]
) -> None:
    begin(tmp_path, "rows", "payments")
    assert said(tmp_path, change) == messages
    changed = pipeline(tmp_path, change)
    remember(changed, Places(changed))
    assert [each for each in said(tmp_path, change) if "new sink" not in each] == []


def test_no_secret_is_kept(tmp_path: Path) -> None:
    begin(tmp_path)
    text = Places(pipeline(tmp_path)).shape.read_text()
    assert "jdbc:postgresql://db/shop" in text and "secret" not in text
