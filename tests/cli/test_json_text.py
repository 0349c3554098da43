"""JSON that is typed or piped in: whether it is complete, and the position of an error."""

import json
from typing import Any

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.cli.records.json_text import BadDocument, Documents, fault


@pytest.mark.parametrize(
    "text", ["", "{", '{"a"', '{"a":', '{"a": 1,', "[1,", "[1, [2]", '{"a": {']
)
def test_unfinished(text: str) -> None:
    found = fault(text)
    assert found is not None and found.unfinished, found


@for_each(
    ("text", "line", "column", "said"),
    [
        ('{"a": tru', 1, 7, "missing or misspelled"),
        ('{"a', 1, 2, "no closing quote"),
        ('{"a": "x\ny"}', 1, 9, "a line end"),
        ('{"a":\n\n 1 b', 3, 4, "','"),
        ("{} {}", 1, 4, "after the end"),
        ('{"a": NaN}', 1, 7, "NaN is not JSON"),
        ('{"a": "NaN",\n "b\\"": NaN}', 2, 9, "NaN is not JSON"),
        ("[-Infinity, Infinity]", 1, 2, "-Infinity is not JSON"),
        ("{a: 1}", 1, 2, "property name"),
        ("[1 2", 1, 4, "','"),
        ("[" * 100_000 + "1", 1, 1, "too deeply"),
    ],
)
def test_wrong(text: str, line: int, column: int, said: str) -> None:
    found = fault(text)
    assert found is not None and not found.unfinished
    assert (found.line, found.column) == (line, column)
    assert said in found.message


def test_a_number_may_have_any_number_of_digits() -> None:
    assert fault(f'{{"a": {"7" * 5000}}}') is None


documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(documents)
def test_what_json_writes_has_no_fault(document: Any) -> None:
    assert fault(json.dumps(document, indent=1)) is None


@given(
    st.lists(st.tuples(documents, st.sampled_from([None, 0, 2])), max_size=6),
    st.integers(1, 5),
)
def test_documents_over_lines_come_apart_as_they_were_written(
    written: list[tuple[Any, int | None]], at_a_time: int
) -> None:
    texts = [json.dumps(d, indent=indent, ensure_ascii=False).encode() for d, indent in written]
    lines = b"\n".join(texts).split(b"\n") if texts else []
    reader = Documents()
    found: list[bytes] = []
    for start in range(0, len(lines), at_a_time):
        found += reader.feed(lines[start : start + at_a_time])
    reader.end()
    assert found == texts


def test_a_stream_that_is_no_json_says_where() -> None:
    reader = Documents()
    with pytest.raises(BadDocument, match="Line 5, column 3: a value") as caught:
        reader.feed([b'{"a": 1}', b"", b"[1", b",", b"  x]", b"{}"])
    assert caught.value.before == [b'{"a": 1}']
    reader = Documents()
    reader.feed([b"", b'{"a":'])
    with pytest.raises(BadDocument, match="Line 2: .*not finished"):
        reader.end()
    with pytest.raises(BadDocument, match="Line 1: not UTF-8"):
        Documents().feed([b'"\xff"'])


def test_a_long_document_is_not_read_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from pk.cli.records import json_text

    calls = 0

    def counted(text: str) -> Any:
        nonlocal calls
        calls += 1
        return fault(text)

    monkeypatch.setattr(json_text, "fault", counted)
    document = json.dumps([{"n": i} for i in range(5000)], indent=1).encode()
    assert Documents().feed(document.split(b"\n")) == [document]
    assert calls < 20
