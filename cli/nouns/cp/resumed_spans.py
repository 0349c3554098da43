"""The ranges of a copy that continues an earlier one."""

from collections.abc import Mapping

from pk.cli.exits import CommandError
from pk.cli.phrases import count, partition_name
from pk.cli.records.range_reader import Span
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition


def resumed_spans(
    spans: Mapping[TopicPartition, Span],
    starts: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Span]:
    """The `spans` from `positions` on, or from `starts` if the records between the two were
    deleted."""
    return {
        tp: Span(max(positions[tp], starts[tp]), span.end) if tp in positions else span
        for tp, span in spans.items()
    }


def report_deleted(
    context: Context,
    spans: Mapping[TopicPartition, Span],
    starts: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, int],
) -> None:
    """Report, as a failure, records of `spans` before `starts` that were deleted and not copied."""
    for tp in spans:
        at = positions.get(tp)
        if at is not None and at < starts[tp]:
            gone = count(starts[tp] - at, "offset")
            error = CommandError(f"{gone} from {at} on were deleted before they were copied.")
            context.failed(error, partition_name(tp))
