"""Places in a TOML text."""

from __future__ import annotations

import tomllib

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.spark.pipeline.document import NotToml, Path, Position, read_document

TEXT = '''\
# a comment with [brackets] and = signs
name = "x"  # "quoted"
options = { a = 1, "b.c" = ["d", 'e'] }
kafka.bootstrap = "h"

[[source]]
name = 'orders'
watermark.delay = "1 minute"
[source.options]
deep = true

[[source]]
  sql = """
SELECT *
  FROM \\"orders\\" ""\\"
"""
list = [
  "one",  # first ]
  { inner = 2 },
]
[[source.more]]
k = 2026-01-01 10:00:00
'''


@for_each(
    ("path", "line", "column"),
    [
        (("name",), 2, 1),
        (("options",), 3, 1),
        (("options", "a"), 3, 13),
        (("options", "b.c"), 3, 20),
        (("options", "b.c", 1), 3, 34),
        (("kafka", "bootstrap"), 4, 1),
        (("source",), 6, 1),
        (("source", 0), 6, 1),
        (("source", 0, "name"), 7, 1),
        (("source", 0, "watermark", "delay"), 8, 1),
        (("source", 0, "options"), 9, 1),
        (("source", 0, "options", "deep"), 10, 1),
        (("source", 1), 12, 1),
        (("source", 1, "sql"), 13, 3),
        (("source", 1, "list", 0), 18, 3),
        (("source", 1, "list", 1, "inner"), 19, 5),
        (("source", 1, "more", 0, "k"), 22, 1),
        (("source", 1, "nothing"), 12, 1),
        (("nothing",), 1, 1),
    ],
)
def test_where_keys_are(path: Path, line: int, column: int) -> None:
    assert read_document(TEXT).at(path) == Position(line, column)


def test_where_the_characters_of_a_text_are() -> None:
    document = read_document(TEXT)
    assert document.inside(("source", 1, "sql"), 0) == Position(14, 1)
    assert document.inside(("source", 1, "sql"), len("SELECT *\n  F")) == Position(15, 4)
    assert document.inside(("source", 0, "name"), 2) == Position(7, 11)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a = 1\nb = = 2\n", 2, 5), ('a = "x\n', 1, 7), ("a = 1\na = 2\n", 2, 1)],
)
def test_what_is_not_toml_has_a_place(text: str, line: int, column: int) -> None:
    with pytest.raises(NotToml) as raised:
        read_document(text)
    assert raised.value.problem.position == Position(line, column)


KEYS = st.text("abc-_", min_size=1, max_size=3)
STRINGS = st.text("ab\"'#[]{},=\\\n ", max_size=6)


@given(
    st.lists(st.tuples(KEYS, STRINGS), unique_by=lambda pair: pair[0], max_size=6), st.booleans()
)
def test_each_value_is_found_whatever_it_holds(pairs: list[tuple[str, str]], inline: bool) -> None:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    lines = [f"{key} = {quoted(value)}" for key, value in pairs]
    text = "t = { " + ", ".join(lines) + " }\n" if inline else "[t]\n" + "\n".join(lines) + "\n"
    assert tomllib.loads(text)["t"] == dict(pairs)
    document = read_document(text)
    for key, value in pairs:
        position = document.inside(("t", key), 0)
        line = text.split("\n")[position.line - 1]
        assert line[position.column - 1 :].startswith(quoted(value)[1:])
