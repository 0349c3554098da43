"""Groups that hold the offsets of a pipeline (`pk spark pipeline`). They have no members, and the
metadata of their commits names the pipeline.

The metadata of each offset is `{"pk.pipeline": "NAME", "batch": N, "at_ms": N}`, which
`pk.spark.pipeline.group_offsets` writes.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

KEY = "pk.pipeline"


class PipelineCommit(NamedTuple):
    """A pipeline's description of its last commit, as its group stores it."""

    pipeline: str
    batch: int
    at_ms: int


def pipeline_of(metadata: Iterable[str]) -> PipelineCommit | None:
    """The newest commit of a pipeline among the metadata of a group's offsets; None if the group
    does not belong to a pipeline."""
    found: PipelineCommit | None = None
    for text in metadata:
        if KEY not in text:
            continue
        try:
            value: Any = json.loads(text)
            given = cast(dict[str, Any], value)
            commit = PipelineCommit(str(given[KEY]), int(given["batch"]), int(given["at_ms"]))
        except (ValueError, TypeError, KeyError):
            continue  # another program's text
        if found is None or commit.at_ms > found.at_ms:
            found = commit
    return found
