"""Spark's errors in the words of the command line."""

from pathlib import Path

from pk.cli.exits import CommandError, Unusable
from pk.spark.errors import OptionError
from pk.spark.locations import local_path


def spark_is_missing(error: ModuleNotFoundError) -> CommandError:
    """The error of a command that needs a library of Spark that is not installed."""
    return CommandError(
        f"Spark is not installed ({error.name} is missing): pip install 'pk-broker[spark]'."
    )


def here(place: str) -> Path:
    """Return the path that the user gave, if it is on this machine. Raises Unusable for the URL of
    another."""
    try:
        return local_path(place)
    except OptionError as e:
        raise Unusable(as_sentence(e)) from e


def as_sentence(error: Exception) -> str:
    """An error of pk.spark, or of a library, as a sentence."""
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
