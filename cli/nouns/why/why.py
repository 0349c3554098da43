"""Shows explanations, for all commands of `pk why`."""

from collections.abc import Callable, Container, Mapping, Sequence

from pk.cli.diagnosis.explain import Explanation, prose
from pk.cli.diagnosis.suggested_commands import cluster_words, with_words
from pk.cli.nouns.why.rows import EvidenceRow
from pk.cli.output.formats import Document, Listing, Section
from pk.cli.output.rows import columns, listing
from pk.cli.runtime.context import Context
from pk.cli.terminal.text import escaped_lines


def evidence_rows(explanation: Explanation) -> list[EvidenceRow]:
    """The evidence of an explanation."""
    return [{"about": e.about, "what": e.what} for e in explanation.evidence]


def answer(
    context: Context,
    explained: Sequence[Explanation],
    describe: Callable[[Explanation], Mapping[str, object]],
    row: type,
    *,
    healthy: Container[str],
) -> None:
    """Show explanations as text, or in the requested format. `describe` makes the data of each; a
    list shows the fields of `row` from it. `healthy` has the states in which there is no
    problem."""
    words = cluster_words(context)
    explained = [e._replace(next=[with_words(step, words) for step in e.next]) for e in explained]
    output = context.output
    if output.format in ("table", "wide") and not output.narrows:
        text = "\n".join(
            prose(e, output.width, color=output.color, bad=e.state not in healthy)
            for e in explained
        )
        context.write(escaped_lines(text).encode(errors="surrogateescape"))
        return
    data = [describe(e) for e in explained]
    sections = [Section(e.verdict, listing(EvidenceRow, evidence_rows(e))) for e in explained]
    context.show_document(Document(data, sections, Listing(columns(row), data)))
