"""The record filters of `consume`, `cp` and `log cat`: -k, -H and --where."""

import os
from collections.abc import Callable, Iterable
from typing import Literal

from pk.cli.exits import Unusable
from pk.cli.output import record_row
from pk.cli.output.rows import words_of
from pk.cli.output.where import MISSING, WhereError, names_at, parse_where, paths_in, value_at
from pk.cli.records.row import ROW_FIELDS, RecordRow
from pk.cli.records.source import Source
from pk.core.nearest import did_you_mean_one_of, nearest
from pk.core.record.batch import Record

_NAMES_MAX = 1000

Filter = Callable[[Source, Record], bool]


def record_filter(
    key: str | None,
    headers: Iterable[tuple[str, str]],
    where: str | None,
    absent: "AbsentFields | None" = None,
) -> Filter | None:
    """The test that records must pass; None if there is no filter. `absent` gets the records that
    do not meet `where`. Raises Unusable."""
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
        if absent is None:
            tests.append(lambda s, r: holds(RecordRow(s, r)))
        else:
            absent.expect(paths_in(where))
            tests.append(lambda s, r: holds(row := RecordRow(s, r)) or absent.see(row))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda s, r: all(test(s, r) for test in tests)


class AbsentFields:
    """The fields in keys, values and headers that a condition names and no record has."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, ...], dict[int, set[str]]] = {}
        """Field that no record had → the names that records have instead, at the first missing step
        of its path."""

        self._seen = False

    def expect(self, paths: Iterable[tuple[str, ...]]) -> None:
        """Add the fields of a condition."""
        self._names |= {path: {} for path in paths if len(path) > 1}

    def see(self, row: RecordRow) -> Literal[False]:
        """Process a record that does not meet the condition. Returns False, the result of the
        condition."""
        self._seen = True
        for path in list(self._names):
            if value_at(row, path) is not MISSING:
                del self._names[path]
            else:
                self._note(row, path)
        return False

    def _note(self, row: RecordRow, path: tuple[str, ...]) -> None:
        for depth in range(len(path) - 1, 0, -1):
            names = names_at(row, path[:depth])
            if names:
                known = self._names[path].setdefault(depth, set())
                if len(known) < _NAMES_MAX:
                    known.update(names)
                return

    def sentence(self, matched: int) -> str | None:
        """A sentence about a field that no record had. None if any record `matched`, no record was
        processed, or every field was in some record."""
        if matched or not self._seen or not self._names:
            return None
        path, names = next(iter(self._names.items()))
        hint = "."
        if names:
            depth = max(names)
            near = nearest(path[depth], names[depth])
            rest = path[depth + 1 :]
            hint = did_you_mean_one_of([".".join((*path[:depth], n, *rest)) for n in near])
        return f"--where: no record has the field {'.'.join(path)}{hint}"


def _has_header(name: str, value: bytes) -> Filter:
    wanted = (name, value)
    return lambda _, r: wanted in r.headers
