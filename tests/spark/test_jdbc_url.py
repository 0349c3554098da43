"""SQLite's file in a JDBC URL is relative to the directory of the caller."""

from pathlib import Path

import pytest

from pk.spark.jdbc_url import with_path


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("jdbc:sqlite:shop.db", "jdbc:sqlite:/data/shop.db"),
        ("jdbc:sqlite:db/shop.db", "jdbc:sqlite:/data/db/shop.db"),
        ("jdbc:sqlite:/var/shop.db", "jdbc:sqlite:/var/shop.db"),
        ("jdbc:sqlite::memory:", "jdbc:sqlite::memory:"),
        ("jdbc:sqlite:file:shop.db?mode=ro", "jdbc:sqlite:file:shop.db?mode=ro"),
        ("jdbc:postgresql://db/shop", "jdbc:postgresql://db/shop"),
    ],
)
def test_a_file_of_sqlite_is_relative_to_the_caller(url: str, found: str) -> None:
    assert with_path(url, Path("/data")) == found
