"""`pk doctor`: current and likely problems of a cluster, each with a fix.

The checks are in `pk.cli.diagnosis`. On a terminal, a finding is a few lines of text; in a pipe,
and in any format that is requested, it is a row.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from pk.cli.diagnosis.checks import CHECKS, diagnose
from pk.cli.diagnosis.collect import collect
from pk.cli.diagnosis.explain import filled
from pk.cli.diagnosis.snapshot import ERROR, NOTE, SEVERITIES, WARNING, Check, Finding
from pk.cli.diagnosis.suggested_commands import fixes_for
from pk.cli.diagnosis.unchecked import say_unchecked, unchecked_counted
from pk.cli.exits import Exit
from pk.cli.nouns.doctor.rows import CheckRow, FindingRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.terminal.styles import styled
from pk.cli.terminal.text import escaped_lines

_PROSE: Final = 100
"""Longer lines of text are hard to read, even on a wide terminal."""
_STYLES: Final = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


def _row(finding: Finding) -> FindingRow:
    return {
        "severity": finding.severity,
        "check": finding.check,
        "what": finding.what,
        "why": finding.why,
        "fix": finding.fix,
        "subjects": list(finding.subjects),
    }


def _style(row: FindingRow) -> str | None:
    return _STYLES.get(row["severity"])


async def doctor(
    context: Context, *, check: Collection[str], list_checks: bool, fail_on: str
) -> int | None:
    """Run `pk doctor`."""
    if list_checks:
        context.show(listing(CheckRow, [{"check": c.name, "help": c.help} for c in CHECKS]))
        return None
    chosen = [c for c in CHECKS if not check or c.name in check]
    admin = await context.admin()
    snapshot = await collect(admin, frozenset(need for c in chosen for need in c.needs))
    found = fixes_for(context, diagnose(snapshot, chosen))
    look = context.output
    if look.terminal and look.format == "table" and not look.narrows:
        text = escaped_lines(cards(found, look.width, color=look.color))
        context.write(text.encode(errors="surrogateescape"))
    else:
        context.show(listing(FindingRow, [_row(f) for f in found], _style))
    say_unchecked(context, snapshot.unseen)
    unseen = len(snapshot.unseen)
    context.say(verdict(context.settings.cluster_name, found, chosen, unseen))
    return Exit.FAILED if _fails(found, fail_on) else None


def _fails(found: Iterable[Finding], least: str) -> bool:
    if least == "never":
        return False
    counted = SEVERITIES[: SEVERITIES.index(least) + 1]
    return any(f.severity in counted for f in found)


def cards(found: Sequence[Finding], width: int, *, color: bool) -> str:
    """Show the findings as text."""
    lines: list[str] = []
    room = max(min(width, _PROSE), 40)
    for f in found:
        head, text = f"{f.severity.upper():<9}{f.check}", f"{f.what} {f.why}"
        if color:
            head = styled(f"{f.severity.upper():<9}", f"bold {_STYLES[f.severity]}") + styled(
                f.check, "bold"
            )
        lines.append(head)
        lines += filled(text, room, "  ", "  ")
        if f.fix:
            # The command is not wrapped, so that it can be copied.
            lines.append(f"  $ {styled(f.fix, 'bold') if color else f.fix}")
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def verdict(
    cluster: str, found: Sequence[Finding], chosen: Sequence[Check], unseen: int = 0
) -> str:
    """The verdict in a sentence: `prod: 2 errors, 1 warning; 28 of 31 checks found nothing.` With
    `unseen` parts, it gives their number, and does not call the cluster healthy."""
    quiet = len({c.name for c in chosen} - {f.check for f in found})
    blind = f" {unchecked_counted(unseen).capitalize()}." if unseen else ""
    if unseen and not found:
        return f"{cluster}: {count(len(chosen), 'check')} found nothing.{blind}"
    if not found:
        return f"{cluster} is healthy: {count(len(chosen), 'check')} found nothing."
    counts: list[Any] = []
    for severity in SEVERITIES:
        n = sum(f.severity == severity for f in found)
        if n:
            counts.append(count(n, severity))
    checks = count(len(chosen), "check")
    return f"{cluster}: {', '.join(counts)}; {quiet} of {checks} found nothing.{blind}"
