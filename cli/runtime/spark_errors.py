"""What went wrong with Spark, in the command line's words."""

from pk.cli.runtime.exits import CommandError


def spark_is_missing(error: ModuleNotFoundError) -> CommandError:
    """The error of a command that needs a library of Spark's which is not installed."""
    return CommandError(
        f"Spark is not installed ({error.name} is missing): pip install 'pk-broker[spark]'."
    )


def as_sentence(error: Exception) -> str:
    """An error of pk.spark, or of a library, as a sentence."""
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
