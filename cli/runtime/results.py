"""Shows the results of a change for its items, and every failure once.

People read either a table or an error: one failed item is a sentence; several are a table with
their errors and the number of failures. Programs get all rows, and the sentence on standard error.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pk.cli.output.formats import Listing
from pk.cli.phrases import count, join
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import named_sentence, sentence
from pk.net.client.answers import Answers

K = TypeVar("K")
V = TypeVar("V")


def succeeded(context: Context, answers: Answers[K, V], name: Callable[[K], str]) -> dict[K, V]:
    """The values of the items that did not fail. Reports the others, by their names."""
    for item, error in answers.errors.items():
        context.failed(error, name(item))
    return answers.ok


def show_results(
    context: Context,
    listing: Listing,
    answers: Sequence[tuple[str, object]] = (),
    of: str = "change",
) -> None:
    """Show the rows, whose `error` is None unless an item failed, and name the failed items.

    `answers` has the answer for each item; the sentence names the items that failed. `of` is the
    word for an item.
    """
    rows = list(listing.rows)
    failed = sum(row["error"] is not None for row in rows)
    for_people = context.output.format in ("table", "wide")
    if not (for_people and failed == len(rows) == 1):
        context.show(listing)
    if not context.failures:
        return
    if for_people and failed and len(rows) > 1:
        context.say(f"{failed:,} of {count(len(rows), of)} failed.")
        return
    names = [name for name, answer in answers if answer in context.failures]
    error = context.failures[0]
    context.say(named_sentence(join(names), error) if names else sentence(error))
