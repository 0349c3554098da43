"""`pk cluster health`: one screen with the problems, and an exit code for scripts.

It shows the checks of `pk doctor` that find out whether records can be written and read, and
whether enough replicas have them. Only errors make the exit code 1. *Unknown* means that a request
was refused or not answered. If there is no error, the exit code is then that of the refusal, and
the cluster is not called healthy.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from pk.cli.diagnosis.checks import CHECKS
from pk.cli.diagnosis.collect import collect
from pk.cli.diagnosis.snapshot import ERROR, WARNING, ClusterSnapshot
from pk.cli.diagnosis.suggested_commands import fixes_for
from pk.cli.diagnosis.unchecked import say_unchecked, unchecked_counted
from pk.cli.exits import Exit
from pk.cli.nouns.cluster.rows import CheckRow, HealthOfCluster
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.core.errors import KafkaError
from pk.net.client.errors import ControllerDown, ControllerSilent

OK, UNKNOWN = "ok", "unknown"
_WIDE: Final = 110
"""The number of terminal columns needed to show the fix beside each check."""
_SHOWN: Final = tuple(check for check in CHECKS if check.healthy is not None)


def check_rows(context: Context, snapshot: ClusterSnapshot) -> Iterator[CheckRow]:
    """A row for each finding, and one for each check without a finding."""
    for check in _SHOWN:
        found = fixes_for(context, check.run(snapshot))
        for f in found:
            yield {"check": f.check, "state": f.severity, "what": f.what, "fix": f.fix}
        if found or check.healthy is None:
            continue
        lacks = next((e for need, e in snapshot.lacking.items() if need in check.needs), None)
        if lacks is None:
            state, what = OK, check.healthy(snapshot)
        else:
            state, what = UNKNOWN, f"not checked: {_reason(lacks)}"
        yield {"check": check.name, "state": state, "what": what, "fix": None}


def _reason(error: Exception) -> str:
    """Why a check lacks its data, in a few words: the full reason is given once, below the
    table."""
    if isinstance(error, KafkaError):
        return error.name
    if isinstance(error, ControllerDown | ControllerSilent):
        return "the controller does not answer"
    return str(error)


def check_style(row: CheckRow) -> str | None:
    return {ERROR: "red", WARNING: "yellow", UNKNOWN: "yellow"}.get(row["state"])


def _count(rows: Iterable[CheckRow], state: str) -> int:
    return sum(row["state"] == state for row in rows)


async def health(context: Context) -> int | None:
    """Run `pk cluster health`."""
    admin = await context.admin()
    snapshot = await collect(admin, frozenset(need for check in _SHOWN for need in check.needs))
    rows = list(check_rows(context, snapshot))
    errors, warnings = _count(rows, ERROR), _count(rows, WARNING)
    unseen = snapshot.unseen
    every = listing(CheckRow, rows, check_style)
    output = context.output
    narrow = output.terminal and output.width < _WIDE
    # On a narrow terminal the fixes are shown below, to keep the checks on one screen.
    shown = listing(CheckRow, rows, check_style, without=["fix"]) if narrow else every
    data: HealthOfCluster = {
        "healthy": False if errors else None if unseen else True,
        "errors": errors,
        "warnings": warnings,
        "checks": rows,
    }
    context.show_document(Document([data], [Section("", shown)], every))
    say_unchecked(context, unseen)
    said = f"{count(errors, 'error')}, {count(warnings, 'warning')}"
    if unseen:
        said += f", but {unchecked_counted(len(unseen))}"
    verdict = " is unhealthy" if errors else "" if unseen else " is healthy"
    context.say(f"{context.settings.cluster_name}{verdict}: {said}.")
    fixes = dict.fromkeys(row["fix"] for row in rows if row["fix"])
    if narrow and fixes and not output.narrows:
        context.say()
        for fix in fixes:
            context.say(f"  $ {fix}")  # not wrapped, so that it can be copied
    return Exit.FAILED if errors else None
