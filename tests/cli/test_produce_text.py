"""The effect of Enter in the record editor."""

from typing import Any

import pytest
from each import for_each

from pk.cli.command_line.parse import parse
from pk.cli.nouns.produce.editor_text import Typed, read
from pk.cli.nouns.produce.options import Produce
from pk.cli.nouns.produce.plan import Plan
from pk.cli.options.parameters import gathered


def plan(*words: str) -> Plan:
    parsed = parse(["produce", "orders", *words])
    return Plan(gathered(Produce, parsed.values))


def sent(found: Any) -> list[bytes | None]:
    return [record.value for record in found.records]


@for_each(
    ("words", "typed", "values"),
    [
        ((), Typed("hello"), [b"hello"]),
        ((), Typed("two\nlines"), [b"two\nlines"]),
        ((), Typed("two\nlines", pasted=True), [b"two", b"lines"]),
        ((), Typed('{"a":\n1}', pasted=True), [b'{"a":\n1}']),
        ((), Typed("[WARN] disk"), [b"[WARN] disk"]),
        ((), Typed("[1, 2]"), [b"[1, 2]"]),
        ((), Typed("{\n", insisted=True), [b"{"]),
        ((), Typed('{"a": x}', insisted=True), [b'{"a": x}']),
        ((), Typed('{"a":\n1}\n{"b": 2}', pasted=True), [b'{"a":\n1}', b'{"b": 2}']),
        (
            (),
            Typed('{"a": 1}\n[WARN] disk', pasted=True, insisted=True),
            [b'{"a": 1}', b"[WARN] disk"],
        ),
        ((), Typed("[WARN] a\n[WARN] b", pasted=True), [b"[WARN] a", b"[WARN] b"]),
        ((), Typed("", insisted=True), [b""]),
        (("-Z",), Typed("", insisted=True), [None]),
        (("--json",), Typed('{"a": 1}'), [b'{"a": 1}']),
        (("--json",), Typed('{"a": 1}\n[2,\n3]', pasted=True), [b'{"a": 1}', b"[2,\n3]"]),
        (("-f", "jsonl"), Typed('{"value":\n"x"}'), [b"x"]),
        (("-f", r"%k\t%v"), Typed("k\tv"), [b"v"]),
        (("--property", "parse.key=true"), Typed("k\tv\nk\tw", pasted=True), [b"v", b"w"]),
    ],
)
def test_records(words: tuple[str, ...], typed: Typed, values: list[bytes | None]) -> None:
    assert sent(read(plan(*words), typed)) == values


@pytest.mark.parametrize(
    ("words", "text"),
    [((), '{"a": 1,'), ((), "["), (("--json",), "[1,"), (("-f", "jsonl"), '{"value":')],
)
def test_an_unfinished_document_goes_on(words: tuple[str, ...], text: str) -> None:
    found = read(plan(*words), Typed(text))
    assert found.more and "not finished" in found.note and not found.records


@pytest.mark.parametrize(
    ("words", "typed", "position", "said"),
    [
        (("--json",), Typed('{"a": x}'), 6, "column 7"),
        (("--json",), Typed("{}\n{} x", pasted=True), 3, "line 2 column 1"),
        (("-f", "jsonl"), Typed('{"vlaue": 1}'), None, "did you mean value"),
        (("--property", "parse.key=true"), Typed("novalue"), None, "no key separator"),
        (("--property", "parse.key=true"), Typed("k\tv\nx", pasted=True), 4, "no key separator"),
        (("--property", "parse.key=true", "--json"), Typed("k\t{"), None, "not finished"),
    ],
)
def test_what_is_wrong_is_not_sent(
    words: tuple[str, ...], typed: Typed, position: int | None, said: str
) -> None:
    found = read(plan(*words), typed)
    assert not found.records and not found.more
    assert (found.position, said in found.note) == (position, True), found


def test_an_empty_text_wants_enter_twice() -> None:
    assert read(plan(), Typed("")).records == ()
    assert "an empty value" in read(plan(), Typed("", insisted=True)).note
    assert read(plan("--json"), Typed("", insisted=True)).records == ()


@pytest.mark.parametrize(
    ("typed", "position", "said"),
    [
        (Typed('{"a": x}'), 6, "not JSON at column 7"),
        (Typed("{a: 1}"), 1, "not JSON at column 2"),
        (Typed("[1, 2,]"), 6, "not JSON at column 7"),
        (Typed('{"a": 1\n'), 8, "not finished"),
        (Typed('{\n"a": 1,\n}', pasted=True), 10, "not JSON at line 3"),
    ],
)
def test_text_that_is_meant_as_json_and_is_none_wants_enter_twice(
    typed: Typed, position: int, said: str
) -> None:
    found = read(plan(), typed)
    assert not found.records and not found.more and said in found.note
    assert found.position == position
    again = read(plan(), typed._replace(insisted=True))
    assert again.records and again.note.startswith("Enter ")
    assert not read(plan("--json"), typed._replace(insisted=True)).records
