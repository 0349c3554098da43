"""Reports what a diagnosis could not check, and why."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pk.cli.phrases import count, join
from pk.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

_NAMED = 6
"""The most parts with the same reason that are named."""


def say_unchecked(context: "Context", parts: Mapping[str, Exception]) -> None:
    """Record the parts that could not be checked as failures, and report each reason once. `parts`
    maps the name of a part to its error."""
    from pk.cli.runtime.failures import sentence

    by_reason: dict[object, list[str]] = {}
    for part, error in parts.items():
        # The refusals of several requests about the cluster itself differ only in wording.
        code = error.code if isinstance(error, KafkaError) else None
        whole = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        by_reason.setdefault(code if whole else sentence(error), []).append(part)
    for first, *more in by_reason.values():
        context.failed(parts[first], f"not checked: {join([first, *more], _NAMED)}")
        for part in more:
            context.fail(parts[part])


def unchecked_counted(parts: int) -> str:
    """`1 part was not checked`, `3 parts were not checked`."""
    return f"{count(parts, 'part was', 'parts were')} not checked"
