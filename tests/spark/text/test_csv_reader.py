"""CSV as columns: output of Python's csv, pandas and `pk consume -f csv` is read back unchanged,
and invalid CSV is refused with its line."""

import csv
import io
from collections.abc import Sequence

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pk.cli.records.csv import csv_line
from pk.spark.text.csv_reader import BadCsv, CsvReader, Dialect, first_row

Row = list[str | None]


def rows_of(data: bytes, columns: int, dialect: Dialect | None = None, step: int = 3) -> list[Row]:
    """The rows of a file, whose lines come a few at a time."""
    given = dialect or Dialect()
    given.check()
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    first = first_row(lines, given)
    reader = CsvReader(given, columns, 1, crlf=first is not None and first.crlf)
    found: list[Row] = []
    for at in range(0, len(lines), step):
        for rows in reader.read(lines[at : at + step]):
            texts = [column.to_pylist() for column in rows.columns]
            found += [list(row) for row in zip(*texts, strict=True)]
    reader.end()
    return found


def refused(data: bytes, columns: int, dialect: Dialect | None = None) -> str:
    with pytest.raises(BadCsv) as raised:
        rows_of(data, columns, dialect)
    return str(raised.value)


@for_each(
    ("data", "rows"),
    [
        (b'1,"said ""hi"", twice",z\n', [["1", 'said "hi", twice', "z"]]),
        (b'"said ""hi""",,""\n', [['said "hi"', None, ""]]),
        (b'"a\nb","""",""""""\n', [["a\nb", '"', '""']]),
        (b'a,b,c\r\n"x\r\n\r\ny",\r,z\r\n', [["a", "b", "c"], ["x\r\n\r\ny", "\r", "z"]]),
        (b"a,b,c\r\nd,e,f\n", [["a", "b", "c"], ["d", "e", "f"]]),
        (b"\n\na,b,c\n\r\n1,2,3", [["a", "b", "c"], ["1", "2", "3"]]),
        (b" a , b,\tc\n", [[" a ", " b", "\tc"]]),
        (b"\xc3\xa4,\x00,\\\n", [["ä", "\x00", "\\"]]),
        (b"'a',#b,NULL\n", [["'a'", "#b", "NULL"]]),
        (b"", []),
    ],
)
def test_fields_are_as_rfc_4180_has_them(data: bytes, rows: list[Row]) -> None:
    assert rows_of(data, 3) == rows


def test_an_empty_line_is_a_null_in_a_table_of_one_column() -> None:
    assert rows_of(b'a\n\n""\nb\n', 1) == [["a"], [None], [""], ["b"]]


@for_each(
    ("data", "said"),
    [
        (b"1,2,3\n1,2\n", "line 2: the row has 2 fields, but the table has 3"),
        (b'"\n\n",2,3\n1,2,3,4\n', "line 4: the row has 4 fields, but the table has 3"),
        (b"1,2,3\nx\n", "line 2: the row has 1 field, but the table has 3"),
        (b'1,2,3\n1,a"b,3\n', "line 2: a quote is not closed"),
        (b'1,2,3\n1,a""b,3\n', "line 2: a quote is out of place"),
        (b'1,2,3\n1,"a"b,3\n', "line 2: a quote is out of place"),
        (b'1,2,3\n1,"a" ,3\n', "line 2: a quote is out of place"),
        (b'1,2,3\n1, "a",3\n', "line 2: a quote is out of place"),
        (b'1,2,3\n\n4,"5,6\n7,8,9\n', "line 3: a quote is not closed"),
        (b"1,2,3\n1,\xe4,3\n", "line 2: a field is not utf-8: byte 0xe4"),
        (b'1,2,3\n"\n",2,"\n\n\xff"\n', "line 3: a field is not utf-8: byte 0xff"),
        (b"1,2,3\n1,2,3\r\n", "line 2: the row ends with a carriage return"),
    ],
)
def test_what_is_not_csv_is_refused_with_its_line(data: bytes, said: str) -> None:
    assert refused(data, 3).startswith(said)


def test_a_dialect() -> None:
    assert rows_of(b"a\tb,c\n", 2, Dialect("\t")) == [["a", "b,c"]]
    assert rows_of("ä;€;\\N\n".encode("cp1252"), 3, Dialect(";", "cp1252", "\\N")) == [
        ["ä", "€", None]
    ]
    assert rows_of(b'\\N,"\\N"\n', 2, Dialect(null="\\N")) == [[None, "\\N"]]
    assert "is not ascii: byte 0xc3" in refused("ä\n".encode(), 1, Dialect(encoding="ascii"))
    for wrong, said in (
        (Dialect(";;"), "must be one ASCII character"),
        (Dialect('"'), "must be one ASCII character"),
        (Dialect(encoding="utf-16"), "convert it to UTF-8"),
        (Dialect(encoding="iso2022_jp"), "convert it to UTF-8"),
        (Dialect("|", "shift_jis"), "convert it to UTF-8"),
        (Dialect(encoding="nope"), "unknown encoding 'nope'"),
    ):
        with pytest.raises(ValueError, match=said):
            wrong.check()


ALPHABET = st.sampled_from("aä😀\"'\\,;\t\n\r \x00\x85\u2028") | st.characters(
    exclude_categories=["Cs"]
)
CELLS = st.none() | st.text(ALPHABET, max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=6))


@given(tables(), st.integers(1, 4))
def test_what_consume_writes_comes_back(table: list[Row], step: int) -> None:
    data = "".join(map(csv_line, table)).encode()
    width = len(table[0])
    assert rows_of(data, width, step=step) == table


def without_empty(table: Sequence[Row]) -> list[Row]:
    """Writers that do not tell null from an empty text write nothing for either, in a table of one
    column quotes."""
    one = "" if len(table[0]) == 1 else None
    return [[cell or one for cell in row] for row in table]


@given(tables(), st.sampled_from(["excel", "unix", "excel-tab"]))
def test_what_pythons_csv_writes_comes_back(table: list[Row], dialect: str) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, dialect).writerows(table)
    wanted = without_empty(table)
    if dialect == "unix":  # all in quotes
        wanted = [[cell or "" for cell in row] for row in table]
    delimiter = "\t" if dialect == "excel-tab" else ","
    assert rows_of(out.getvalue().encode(), len(table[0]), Dialect(delimiter)) == wanted


@given(tables())
def test_what_pandas_writes_comes_back_or_is_refused(table: list[Row]) -> None:
    """It writes a text that ends with a carriage return without quotes, like a line end of DOS."""
    import pandas as pd

    text = pd.DataFrame(table, dtype=object).to_csv(index=False, header=False)
    assert text is not None
    try:
        found = rows_of(text.encode(), len(table[0]))
    except BadCsv as e:
        assert "\r" in text and "carriage return" in str(e)
        return
    # It writes an empty text now with quotes, now without.
    assert [[c or None for c in row] for row in found] == [[c or None for c in r] for r in table]


@given(st.binary(max_size=60), st.integers(1, 3))
def test_any_bytes_are_rows_or_refused(data: bytes, columns: int) -> None:
    try:
        rows = rows_of(data, columns)
    except BadCsv:
        return
    strict = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    if b"\r" not in data:
        strict = [row or [""] for row in strict if row or columns == 1]
        assert [[cell or "" for cell in row] for row in rows] == strict
