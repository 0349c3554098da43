"""The result of a change for each topic."""

from typing import TypedDict

from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase


class Outcome(TypedDict):
    """The last columns of a row: the result for a topic."""

    result: str
    error: str | None
    """The name of Kafka's error."""


def outcome(context: Context, error: BaseException | None, done: str) -> Outcome:
    """`done` if there is no error; otherwise the error, which is recorded as a failure of the
    command."""
    if error is None:
        return {"result": done, "error": None}
    context.fail(error)
    return {"result": phrase(error), "error": error_name(error)}
