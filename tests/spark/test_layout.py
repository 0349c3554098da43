"""The parsing of `--partition-by`, and the values in names of directories. test_export_forms.py
tests Spark's use of both."""

import pytest
from each import for_each

from pk.spark.errors import OptionError
from pk.spark.tables.layout import PartitionColumn, check_layout, parse_layout, values_of


def test_hours_of_different_days_are_kept_apart() -> None:
    for given in ("hour", "topic,hour"):
        with pytest.raises(OptionError, match="give date,hour"):
            check_layout(parse_layout([given]))
    for given in ("date,hour", "hour,date", "HOUR=hour(timestamp)", "date"):
        check_layout(parse_layout([given]))


def test_columns_are_named_in_lists_and_expressions_alone() -> None:
    found = parse_layout(["topic, address.city", "bucket = pmod(hash(key, 1), 8)"])
    assert found == (
        PartitionColumn("topic", "topic", "topic"),
        PartitionColumn("city", None, "address.city"),
        PartitionColumn("bucket", "pmod(hash(key, 1), 8)"),
    )
    [date, hour] = parse_layout(["date,hour"])
    assert date.expression is not None and "unix_micros(timestamp)" in date.expression
    assert hour.name == "hour"
    assert parse_layout([]) == ()


@for_each(
    ("text", "said"),
    [
        ("", "'' does not fit"),
        ("date,", "'' does not fit"),
        ("_hidden=offset", "must begin with a letter: '_hidden'"),
        ("day=", "'day' does not fit"),
        ("a-b", "'a-b' does not fit"),
        ("offset", "cannot name a column offset"),
        ("Value=1", "cannot name a column Value"),
        ("partition=offset", "cannot name a column partition"),
        ("date,date", "names date twice"),
        ("country,Country", "names Country twice"),
    ],
)
def test_what_makes_no_directory_is_refused(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_layout([text])


def test_values_are_read_back_from_names_of_directories() -> None:
    names = ["date=2026-01-01", "country=a%2Fb %C3%A4", "city=__HIVE_DEFAULT_PARTITION__"]
    assert values_of(names) == {"date": "2026-01-01", "country": "a/b ä", "city": None}
