"""Options of the larger commands of `pk users`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import whole

ScramName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


def scram_iterations(text: str) -> int:
    """Parse a number of SCRAM iterations that brokers accept."""
    from pk.core.auth.scram import ITERATIONS_MAX, ITERATIONS_MIN

    number = whole(text)
    if not ITERATIONS_MIN <= number <= ITERATIONS_MAX:
        raise ValueError(f"needs a number from {ITERATIONS_MIN} to {ITERATIONS_MAX}, not {text}")
    return number


@dataclass(frozen=True, kw_only=True)
class SetPassword:
    """Options of `pk users add` and `pk users alter`."""

    user: Annotated[str, Argument("USER", help="The user's name, without User:.")]
    mechanism: Annotated[
        ScramName, Option("--mechanism", help="The SASL mechanism that the password is for.")
    ] = "SCRAM-SHA-512"
    iterations: Annotated[
        int | None,
        Option(
            "--iterations",
            value="N",
            parser=scram_iterations,
            help=(
                "The number of SCRAM iterations, 4096 to 16384; more make guessing slower "
                "(default: 4096, or the current number)."
            ),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DeleteUsers:
    """Options of `pk users delete`."""

    user: Annotated[tuple[str, ...], Argument("USER", help="The users' names, without User:.")]
    mechanism: Annotated[
        ScramName | None,
        Option("--mechanism", help="Only the password of this SASL mechanism."),
    ] = None
