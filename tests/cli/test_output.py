"""Formats, columns, sorting: the shape of results that scripts rely on."""

import csv
import fcntl
import io
import json
import os
import struct
import sys
import termios

import cbor2
import pytest
from each import for_each

from pk.cli.command_line.parse import parse
from pk.cli.exits import CommandError, Unusable
from pk.cli.output.amounts import show_rate
from pk.cli.output.formats import (
    Column,
    Document,
    Listing,
    OutputOptions,
    Section,
    render,
    render_document,
    template,
    terminal_table,
    yaml,
)
from pk.cli.runtime.context import Context
from pk.cli.runtime.question_table import say_table
from pk.cli.terminal.streams import Streams

COLUMNS = (
    Column("topic"),
    Column("partitions", right=True),
    Column("isr", title="ISR"),
    Column("internal", wide=True),
)
ROWS = [
    {"topic": "orders", "partitions": 12, "isr": [1, 2], "internal": False},
    {"topic": "a", "partitions": 3, "isr": [], "internal": True},
    {"topic": "ünï", "partitions": None, "isr": None, "internal": False},
]
LISTING = Listing(COLUMNS, ROWS)


def shown(look: OutputOptions, listing: Listing = LISTING) -> str:
    return render(listing, look).decode()


def test_a_table_is_plain_when_it_goes_to_a_pipe() -> None:
    assert shown(OutputOptions()) == (
        "TOPIC   PARTITIONS  ISR\n"
        "orders          12  1,2\n"
        "a                3  -\n"
        "ünï              -  -\n"
    )


def test_wide_shows_every_column() -> None:
    assert shown(OutputOptions(format="wide")).splitlines()[0].split() == [
        "TOPIC",
        "PARTITIONS",
        "ISR",
        "INTERNAL",
    ]


def test_a_terminal_s_table_fits_and_has_no_color_where_none_is_wanted() -> None:
    long = Listing(COLUMNS, [{"topic": "t" * 200, "partitions": 1, "isr": [1], "internal": False}])
    text = shown(OutputOptions(terminal=True, color=False, width=80), long)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert text.count("t") == 200


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("{n:>6d}|", "     1|     -|"),
        ("{n:06d}|", "000001|     -|"),
        ("{n:<4d}|", "1   |-   |"),
        ("{n:8.2f}|", "    1.00|       -|"),
        ("{n:,}|", "1|-|"),
    ],
)
def test_what_is_not_known_stands_in_a_template_as_a_dash(form: str, expected: str) -> None:
    listing = Listing([Column("n")], [{"n": 1}, {"n": None}])
    assert shown(OutputOptions(format=form), listing) == expected


NUMBERS = Listing(
    [Column("name"), *(Column(f"some_number_{n}", right=True) for n in range(6))],
    [
        {"name": f"row-{i}", **{f"some_number_{n}": 10**9 + 97 * n + i for n in range(6)}}
        for i in range(2)
    ],
)


@pytest.mark.parametrize("width", [30, 40, 76, 80, 120, 200])
def test_no_number_is_ever_cut_off(width: int) -> None:
    """Headings that are too wide break. Rows whose numbers are too wide are shown upright."""
    text = shown(OutputOptions(terminal=True, width=width), NUMBERS)
    assert max(map(len, text.splitlines())) <= width
    for row in NUMBERS.rows:
        assert all(str(value) in text for value in row.values())
    upright = "── 2 " in text
    assert upright == (width < 77)
    assert ("SOME NUMBER 0" in text) == (upright or width >= 120)


def test_an_upright_row_folds_names_and_lights_what_changed() -> None:
    rows = [{"topic": "a name of words", "partitions": n} for n in (1, 123_456_789)]
    listing = Listing((Column("topic"), Column("partitions", right=True, title="N")), rows)
    look = OutputOptions(terminal=True, width=15)
    assert terminal_table(listing, look, lambda i, k: (i, k) == (1, 1)).splitlines() == [
        "── 1 ──────────",
        "TOPIC  a name",
        "       of words",
        "    N  1",
        "── 2 ──────────",
        "TOPIC  a name",
        "       of words",
        "    N  \x1b[7m123456789\x1b[0m",
    ]


def test_heads_are_folded_before_a_table_becomes_too_wide() -> None:
    columns = (Column("topic"), Column("last_known_elr", right=True))
    listing = Listing(columns, [{"topic": "orders", "last_known_elr": 1}])
    text = shown(OutputOptions(terminal=True, width=14), listing)
    assert text.splitlines() == [
        "          LAST",
        "         KNOWN",
        "TOPIC      ELR",
        "──────────────",
        "orders       1",
    ]


def test_what_is_too_long_is_folded_between_words_else_within_them() -> None:
    rows = [
        {"topic": "one two three", "partitions": 7},
        {"topic": "日本語日本語", "partitions": 10},
        {"topic": "abcdefghijklm no", "partitions": None},
        {"topic": "über\nzwei", "partitions": 1},
    ]
    columns = (Column("topic", show=str), Column("partitions", right=True, title="N"))
    listing = Listing(columns, rows)
    text = shown(OutputOptions(terminal=True, width=12), listing)
    assert text.splitlines()[2:] == [
        "one two    7",
        "three",
        "日本語日  10",
        "本語",
        "abcdefgh   -",
        "ijklm no",
        "über       1",
        "zwei",
    ]


def test_a_few_long_cells_are_folded_so_that_the_others_are_not() -> None:
    rows = [{"name": f"a.name.of.usual-length-{n}", "value": "1048576 (1 MiB)"} for n in range(40)]
    rows[3] = {"name": "a.name.that.is.much.longer.than.all.others", "value": "-1"}
    rows[5] = {"name": "protocols", "value": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL"}
    table = Listing((Column("name"), Column("value")), rows)
    lines = shown(OutputOptions(terminal=True, width=50), table).splitlines()[2:]
    assert max(map(len, lines)) <= 50
    assert [" ".join(line.split()) for line in lines[2:9]] == [
        "a.name.of.usual-length-2 1048576 (1 MiB)",
        "a.name.that.is.much. -1",
        "longer.than.all.others",
        "a.name.of.usual-length-4 1048576 (1 MiB)",
        "protocols SASL_SSL:SASL_SSL,",
        "PLAINTEXT:PLAINTEXT,",
        "SSL:SSL",
    ]
    assert len(lines) == 40 + 3


@pytest.mark.parametrize("columns", [30, 200])
def test_a_table_with_a_question_has_the_width_of_standard_error(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    names = ["a" * 60, "b" * 60]
    table = Listing((Column("one"), Column("other")), [{"one": names[0], "other": names[1]}])
    parsed = parse(("topics", "list"))
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w") as err:
        say_table(Context(parsed.values, parsed.path, Streams(io.BytesIO(), err)), table)
        err.flush()
        lines = os.read(master, 65536).decode().splitlines()
    os.close(master)
    assert max(map(len, lines)) <= columns
    assert (" ".join(names) in [" ".join(line.split()) for line in lines]) == (columns == 200)


@pytest.mark.parametrize(("width", "heading"), [(24, "PARTITION"), (23, "PART")])
def test_the_heading_of_partitions_is_short_before_a_name_is_folded(
    width: int, heading: str
) -> None:
    table = Listing(
        (Column("topic"), Column("partition", right=True)),
        [{"topic": "thirteen-long", "partition": 3}],
    )
    lines = shown(OutputOptions(terminal=True, width=width), table).splitlines()
    assert lines[0].split() == ["TOPIC", heading]
    assert lines[2].split() == ["thirteen-long", "3"]


def test_thousands_of_rows_are_laid_out_at_a_few_calls_each() -> None:
    rows = [{"topic": f"t-{n}", "partitions": n, "isr": [1], "internal": False} for n in range(500)]
    listing = LISTING._replace(rows=rows, style=lambda row: "red" if row["topic"] == "t-3" else "")
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        text = shown(OutputOptions(terminal=True, color=True, width=80), listing)
    finally:
        sys.setprofile(None)
    assert (len(text.splitlines()), text.count("\x1b[31m")) == (502, 1)
    assert calls < 30 * len(rows)


def test_color_on_a_terminal() -> None:
    listing = LISTING._replace(style=lambda row: "red" if row["topic"] == "a" else None)
    assert "\x1b[31m" in shown(OutputOptions(terminal=True, color=True, width=80), listing)


def test_json_has_every_column_whatever_the_table_shows() -> None:
    assert json.loads(shown(OutputOptions(format="json"))) == ROWS


def test_jsonl_is_an_object_a_line() -> None:
    assert [json.loads(line) for line in shown(OutputOptions(format="jsonl")).splitlines()] == ROWS


def test_csv() -> None:
    rows = list(csv.reader(io.StringIO(shown(OutputOptions(format="csv")))))
    assert rows == [
        ["topic", "partitions", "isr", "internal"],
        ["orders", "12", "1,2", "false"],
        ["a", "3", "", "true"],
        ["ünï", "", "", "false"],
    ]


def test_csv_holds_lists_of_objects_as_json() -> None:
    headers = {
        "topic": "a",
        "partitions": 1,
        "isr": [["trace", "ü"], ["n", None]],
        "internal": False,
    }
    assignment = headers | {"isr": [{"topic": "orders", "partition": 0}]}
    text = shown(OutputOptions(format="csv"), LISTING._replace(rows=[headers, assignment]))
    _, *rows = csv.reader(io.StringIO(text))
    assert [json.loads(row[2]) for row in rows] == [headers["isr"], assignment["isr"]]
    assert "ü" in text


def test_a_template_takes_no_more_memory_than_a_line_has() -> None:
    assert template("{topic:>9999}", None)({"topic": "t"}).endswith(" t")
    with pytest.raises(Unusable, match="four digits"):
        template("{topic:>99999999999}", None)


def test_name_cbor_and_template() -> None:
    assert shown(OutputOptions(format="name")) == "orders\na\nünï\n"
    assert cbor2.loads(render(LISTING, OutputOptions(format="cbor"))) == ROWS
    assert shown(OutputOptions(format=r"{topic:>7}|{partitions}\n", limit=1)) == " orders|12\n"


def test_yaml() -> None:
    assert shown(OutputOptions(format="yaml", limit=1)) == (
        "- topic: orders\n  partitions: 12\n  isr:\n    - 1\n    - 2\n  internal: false\n"
    )
    assert yaml({"a": [], "b": {}, "c": "yes", "d": "1", "e": "x: y", "f": [{"g": None}]}) == (
        'a: []\nb: {}\nc: "yes"\nd: "1"\ne: "x: y"\nf:\n  - g: null'
    )


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (OutputOptions(columns=("isr", "topic")), ["ISR", "TOPIC"]),
        (OutputOptions(columns=("-isr",)), ["TOPIC", "PARTITIONS", "INTERNAL"]),
        (OutputOptions(columns=("internal",)), ["INTERNAL"]),
    ],
)
def test_columns(look: OutputOptions, expected: list[str]) -> None:
    assert shown(look).splitlines()[0].split() == expected


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (OutputOptions(sort=("topic",)), ["a", "orders", "ünï"]),
        (OutputOptions(sort=("-partitions",)), ["orders", "a", "ünï"]),
        (OutputOptions(sort=("internal", "-topic")), ["ünï", "orders", "a"]),
        (OutputOptions(where="partitions > 1", limit=1), ["orders"]),
        (OutputOptions(where="partitions = null"), ["ünï"]),
    ],
)
def test_rows(look: OutputOptions, expected: list[str]) -> None:
    assert shown(look._replace(format="name")).split() == expected


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (OutputOptions(columns=("topci",)), "did you mean topic"),
        (OutputOptions(sort=("x",)), "the columns are topic"),
        (OutputOptions(columns=("topic", "-topic"), format="name"), "leaves no column to show"),
        (OutputOptions(where="x = 1"), "unknown field 'x'"),
        (OutputOptions(format="{x}"), "unknown column 'x'"),
        (OutputOptions(format="{topic"), "cannot be read"),
        (OutputOptions(format="{topic:d}"), "topic:d"),
    ],
)
def test_what_cannot_be_shown(look: OutputOptions, said: str) -> None:
    with pytest.raises(Unusable, match=said):
        shown(look)


def test_a_description_is_narrowed_to_its_rows() -> None:
    document = Document([{"name": "x", "rows": ROWS}], [Section("X:", LISTING)], LISTING)
    assert json.loads(render_document(document, OutputOptions(format="json"))) == [
        {"name": "x", "rows": ROWS}
    ]
    assert json.loads(
        render_document(document, OutputOptions(format="json", where="topic = a"))
    ) == [ROWS[1]]
    assert render_document(document, OutputOptions()).startswith(b"X:\nTOPIC")
    assert render_document(document, OutputOptions(format="csv")).startswith(b"topic,")


def test_a_sentence_ends_once() -> None:
    assert str(CommandError("did you mean x?.")) == "did you mean x?"


@for_each(
    ("rate", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.4, "0.4"),
        (9.96, "10"),
        (812.4, "812"),
        (999.6, "1.0k"),
        (12_400, "12.4k"),
        (124_000, "124k"),
        (1.3e6, "1.3M"),
        (5e12, "5000G"),
    ],
)
def test_records_a_second_for_people(rate: float | None, shown: str) -> None:
    assert show_rate(rate) == shown


def test_bytes_a_second_for_people() -> None:
    assert show_rate(50e6, "bytes") == "50.0 MB/s"
    assert show_rate(0, "bytes") == "0 B/s"
    assert show_rate(None, "bytes") == "-"
