"""A table of cases in one test: for tables of hundreds of cases that each take a fraction of a
millisecond, where pytest's own work for a test of its own is most of the time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

FAILURES = (Exception, pytest.fail.Exception, BaseExceptionGroup)
"""The exception of `pytest.fail` does not derive from Exception, nor does an inner table's group
that contains it."""

_PARAM = type(pytest.param())


def for_each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Callable[[Any], object] | Iterable[str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Takes what `pytest.mark.parametrize` takes, but the test is one for all cases. It runs them
    all, and each failure names its case. Cases share the test's fixtures, so what a case leaves in
    one the next finds.

    Raises BaseExceptionGroup with the failures, if there are any.
    """
    known = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_row(known, case) for case in cases]
    labels: list[str | None]
    if ids is None or callable(ids):
        labels = [None] * len(rows)
    else:
        labels = list(ids)
    described = [
        label or given or ", ".join(str(ids(v) if callable(ids) else v) for v in values)
        for (given, values), label in zip(rows, labels, strict=True)
    ]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**fixtures: Any) -> None:
            assert rows, "there are no cases"
            failures: list[BaseException] = []
            for (_, values), label in zip(rows, described, strict=True):
                try:
                    function(**fixtures, **dict(zip(known, values, strict=True)))
                except FAILURES as error:
                    error.add_note(f"in the case {label}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases", failures)

        signature = inspect.signature(function)
        left = [p for name, p in signature.parameters.items() if name not in known]
        run.__signature__ = signature.replace(parameters=left)  # pyright: ignore[reportAttributeAccessIssue] - functions may have one
        return run

    return decorate


def _row(names: Sequence[str], case: Any) -> tuple[str | None, tuple[Any, ...]]:
    """A case's own label, if it is a `pytest.param`, and its values."""
    if isinstance(case, _PARAM):
        assert not case.marks, "one test has the same marks for all its cases"
        return None if case.id is None else str(case.id), tuple(case.values)
    return None, (case,) if len(names) == 1 else tuple(case)
