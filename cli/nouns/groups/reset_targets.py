"""The targets of `pk groups reset-offsets`: a position, one of Apache's flags, a file, or another
group's offsets."""

import csv
import io
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

from pk.cli.exits import Unusable
from pk.cli.nouns.groups.options import ResetOffsets
from pk.cli.phrases import join
from pk.cli.positions.grammar import (
    COMMITTED,
    END,
    OFFSET_MAX,
    START,
    Anchor,
    Position,
    Positions,
    everywhere,
    single,
)
from pk.cli.positions.resolve import now_ms, positions_option
from pk.cli.positions.times import time_ms
from pk.core.durations import iso_ms
from pk.core.values import TopicPartition

_APACHE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?")


class Target(NamedTuple):
    """The target of the offsets: a position, a file (group → partition → offset), or another
    group's offsets."""

    positions: Positions | None
    from_file: Mapping[str | None, Mapping[TopicPartition, int]] | None
    keeps_commit: bool = False
    """Whether commits stay, as with Apache's --to-current; a partition without a commit gets the
    end."""

    to_group: str | None = None
    """The group whose commits are copied."""


def _apache_time(text: str, now: int) -> int:
    """Parse Apache's --to-datetime: without a zone, the time is UTC."""
    from datetime import UTC

    if not _APACHE_TIME.fullmatch(text):
        raise Unusable(
            f"--to-datetime must be YYYY-MM-DDTHH:mm:SS.sss, not {text!r}; --to @TIME takes other "
            "forms."
        )
    try:
        return time_ms(text, now, UTC)
    except ValueError as e:
        raise Unusable(f"--to-datetime: {e}.") from None


def target_of(options: ResetOffsets) -> Target:
    """The only target that was given. Raises Unusable if there is none, or more than one."""
    given = {
        "--to": options.to is not None,
        "--to-earliest": options.to_earliest,
        "--to-latest": options.to_latest,
        "--to-current": options.to_current,
        "--to-offset": options.to_offset is not None,
        "--shift-by": options.shift_by is not None,
        "--to-datetime": options.to_datetime is not None,
        "--by-duration": options.by_duration is not None,
        "--from-file": options.from_file is not None,
        "--to-group": options.to_group is not None,
    }
    named = [option for option, typed in given.items() if typed]
    if len(named) != 1:
        what = (
            f"not {join(named)}"
            if named
            else "such as --to start, --to @-1h, --to-group GROUP or --from-file FILE"
        )
        raise Unusable(f"Give exactly one target for the offsets, {what}.")
    if options.to_group is not None:
        return Target(None, None, to_group=options.to_group)
    if options.from_file is not None:
        return Target(None, read_csv(options.from_file))
    return Target(_positions(options), None, keeps_commit=options.to_current)


def _positions(options: ResetOffsets) -> Positions:
    """The position that a flag of pk or of Apache's tool means. Raises Unusable."""
    if options.to is not None:
        text, positions = options.to, positions_option(options.to, "--to")
        try:
            return single(positions, lambda: f"--to must be a position, not the range {text!r}")
        except ValueError as e:
            raise Unusable(f"{e}.") from None
    if options.to_offset is not None:
        if not 0 <= options.to_offset <= OFFSET_MAX:
            raise Unusable(f"--to-offset must be an offset of 0 or more, not {options.to_offset}.")
        return everywhere(Position(Anchor.OFFSET, options.to_offset))
    if options.shift_by is not None:
        return everywhere(Position(Anchor.COMMITTED, options.shift_by))
    if options.to_datetime is not None:
        return everywhere(Position(Anchor.TIME, _apache_time(options.to_datetime, now_ms())))
    if options.by_duration is not None:
        try:
            ago_ms = iso_ms(options.by_duration)
        except ValueError as e:
            raise Unusable(f"--by-duration: {e}.") from None
        return everywhere(Position(Anchor.TIME, now_ms() - ago_ms))
    if options.to_current:
        return everywhere(COMMITTED)
    return everywhere(START if options.to_earliest else END)


def read_csv(path: str) -> dict[str | None, dict[TopicPartition, int]]:
    """Read group (None: any named group) → partition → offset from Apache's CSV. Raises
    CommandError."""
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8-sig", newline="") as file:
                text = file.read()
    except (OSError, UnicodeDecodeError) as e:
        raise Unusable(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}.") from None
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as e:
        raise Unusable(f"{path} is not CSV: {e}.") from None
    found: dict[str | None, dict[TopicPartition, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line[-1].strip().lower() == "offset"):
            continue
        fields = [field.strip() for field in line]
        try:
            if len(fields) not in (3, 4):
                raise ValueError
            *group, topic, partition, offset = fields
            tp, value = TopicPartition(topic, int(partition)), int(offset)
            if value < 0 or tp.partition < 0:
                raise ValueError
        except ValueError:
            raise Unusable(
                f"{path}, line {number}: must be [group,]topic,partition,offset, not "
                f"{','.join(line)!r}."
            ) from None
        found.setdefault(group[0] if group else None, {})[tp] = value
    if not found:
        raise Unusable(f"{path} contains no offsets; a line is [group,]topic,partition,offset.")
    return found
