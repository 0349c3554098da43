"""The answer of `pk why`: a verdict in one sentence, the evidence for it, and the next commands."""

from collections.abc import Sequence
from typing import NamedTuple

_PROSE = 100

from pk.cli.terminal.styles import styled


class Evidence(NamedTuple):
    """A fact: its subject, and the finding."""

    about: str
    what: str


class Explanation(NamedTuple):
    """The reasons for a state."""

    subject: str
    state: str
    verdict: str
    evidence: Sequence[Evidence]
    next: Sequence[str] = ()


def filled(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Fold a text into lines of at most `width`, indented by `first` and `rest`. A number stays
    with its unit."""
    import re
    import textwrap

    kept = re.sub(r"(?<=\d) (?=(?:ms|s|min|h|d)\b)", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(
        kept, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def prose(explanation: Explanation, width: int, *, color: bool, bad: bool) -> str:
    """An explanation as text: the verdict, the evidence in two columns, the commands to copy."""
    room = max(min(width, _PROSE), 40)
    lines = filled(explanation.verdict, room)
    if color:
        tone = "bold red" if bad else "bold green"
        lines = [styled(line, tone) for line in lines]
    lines.append("")
    left = min(max((len(e.about) for e in explanation.evidence), default=0), 24)
    for about, what in explanation.evidence:
        wrapped = filled(what, max(room - left - 4, 20)) or [""]
        if len(about) > left:
            lines.append(f"  {about}")
            about = ""
        lines.append(f"  {about:<{left}}  {wrapped[0]}".rstrip())
        lines += [f"  {'':<{left}}  {more}" for more in wrapped[1:]]
    if explanation.next:
        lines.append("")
        for command in explanation.next:
            # Commands are not wrapped, so that they can be copied.
            lines.append(f"  $ {styled(command, 'bold') if color else command}")
    return "".join(f"{line}\n" for line in lines)
