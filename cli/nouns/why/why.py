"""What the commands of `pk why` share: showing explanations."""

from collections.abc import Container, Sequence
from typing import Any, Final

from pk.cli.diagnosis.explain import Explanation, listed, prose
from pk.cli.diagnosis.suggested_commands import cluster_words, with_words
from pk.cli.output.formats import Column, Document, Listing, Section
from pk.cli.runtime.context import Context
from pk.cli.terminal.text import escaped_lines

_EVIDENCE: Final = (Column("about"), Column("what"))


def answer(
    context: Context,
    explained: Sequence[Explanation],
    *,
    subject: str,
    healthy: Container[str],
    more: Sequence[dict[str, Any]] = (),
) -> None:
    """Shows explanations: as prose, or in the format asked for. `more` is added to the data of each."""
    words = cluster_words(context)
    explained = [e._replace(next=[with_words(step, words) for step in e.next]) for e in explained]
    look = context.output
    if look.format in ("table", "wide") and not look.narrows:
        text = "\n".join(
            prose(e, look.width, colour=look.colour, bad=e.state not in healthy) for e in explained
        )
        context.write(escaped_lines(text).encode(errors="surrogateescape"))
        return
    data = [
        {
            subject: e.subject,
            "state": e.state,
            "verdict": e.verdict,
            **(more[i] if more else {}),
            "evidence": listed(e.evidence),
            "next": list(e.next),
        }
        for i, e in enumerate(explained)
    ]
    columns = (Column(subject), Column("state"), Column("verdict"), Column("next"))
    sections = [Section(e.verdict, Listing(_EVIDENCE, listed(e.evidence))) for e in explained]
    context.show_document(Document(data, sections, Listing(columns, data)))
