"""The record filters of `consume`, `cp` and `log cat`: -k, -H and --where."""

import os
from collections.abc import Callable, Iterable

from pk.cli.exits import Unusable
from pk.cli.output import record_row
from pk.cli.output.rows import words_of
from pk.cli.output.where import WhereError, parse_where
from pk.cli.records.row import ROW_FIELDS, RecordRow
from pk.cli.records.source import Source
from pk.core.record.batch import Record

Filter = Callable[[Source, Record], bool]


def record_filter(
    key: str | None, headers: Iterable[tuple[str, str]], where: str | None
) -> Filter | None:
    """The test that records must pass; None if there is no filter. Raises Unusable."""
    tests: list[Filter] = []
    if key is not None:
        data = os.fsencode(key)
        tests.append(lambda _, r: r.key == data)
    for name, text in headers:
        tests.append(_has_header(name, os.fsencode(text)))
    if where is not None:
        try:
            holds = parse_where(where, ROW_FIELDS, words_of(record_row.RecordRow))
        except WhereError as e:
            raise Unusable(f"{e}.") from None
        tests.append(lambda s, r: holds(RecordRow(s, r)))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda s, r: all(test(s, r) for test in tests)


def _has_header(name: str, value: bytes) -> Filter:
    wanted = (name, value)
    return lambda _, r: wanted in r.headers
