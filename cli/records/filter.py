"""The record filters of `consume`, `cp` and `log cat`: -k, -H and --where."""

import os
from collections.abc import Callable

from pk.cli.command_line.bridge import Args
from pk.cli.output.where import WhereError, parse_where
from pk.cli.records.row import ROW_FIELDS, RecordRow
from pk.cli.records.source import Source
from pk.cli.runtime.exits import Unusable
from pk.core.record.batch import Record

Filter = Callable[[Source, Record], bool]


def record_filter(args: Args) -> Filter | None:
    """The test that records must pass; None if there is no filter. Raises Unusable."""
    tests: list[Filter] = []
    if args.key is not None:
        key = os.fsencode(args.key)
        tests.append(lambda s, r: r.key == key)
    for name, text in args.header:
        wanted = (name, os.fsencode(text))
        tests.append(lambda s, r, wanted=wanted: wanted in r.headers)
    if args.where is not None:
        try:
            holds = parse_where(args.where, ROW_FIELDS)
        except WhereError as e:
            raise Unusable(f"{e}.") from None
        tests.append(lambda s, r: holds(RecordRow(s, r)))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda s, r: all(test(s, r) for test in tests)
