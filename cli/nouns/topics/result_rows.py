"""What became of each topic of a change, and a sentence on the first failure."""

from typing import TypedDict

from pk.cli.output.formats import Listing
from pk.cli.runtime.context import Context, join
from pk.cli.runtime.failures import error_name, phrase, sentence


class Outcome(TypedDict):
    """The end of a row: what became of a topic."""

    result: str
    error: str | None
    """The name of Kafka's error."""


def outcome(context: Context, error: BaseException | None, done: str) -> Outcome:
    """`done` if there is no error; otherwise the error, which the context notes."""
    if error is None:
        return {"result": done, "error": None}
    context.fail(error)
    return {"result": phrase(error), "error": error_name(error)}


def show_results(context: Context, listing: Listing, answers: list[tuple[str, object]]) -> None:
    """Shows the rows and, if topics failed, says on standard error what to do about the first.

    `answers`: topic and answer of each; the sentence names the topics that failed.
    """
    context.show(listing)
    if context.failures:
        names = [name for name, answer in answers if answer in context.failures]
        context.say(
            f"{join(names)}: {sentence(context.failures[0])}"
            if names
            else sentence(context.failures[0])
        )
