"""Where `pk groups reset-offsets` is to move offsets: our positions, Apache's flags, a file, another group."""

import csv
import io
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

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
from pk.cli.positions.times import iso_duration_ms, time_ms
from pk.cli.runtime.context import Context, join
from pk.cli.runtime.exits import Unusable
from pk.core.values import TopicPartition

_APACHE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?")


class Target(NamedTuple):
    """Where the offsets go: by position, read from a file as group → partition → offset, or as another group has them."""

    positions: Positions | None
    from_file: Mapping[str | None, Mapping[TopicPartition, int]] | None
    keeps_commit: bool = False
    """Apache's --to-current: a commit stays, where there is none the end is committed."""

    to_group: str | None = None
    """The group whose commits are copied."""


def _apache_time(text: str, now: int) -> int:
    """Apache's --to-datetime: UTC where no zone is named."""
    from datetime import UTC

    if not _APACHE_TIME.fullmatch(text):
        raise Unusable(
            f"--to-datetime wants YYYY-MM-DDTHH:mm:SS.sss, not {text!r}; --to @TIME takes other forms."
        )
    try:
        return time_ms(text, now, UTC)
    except ValueError as e:
        raise Unusable(f"--to-datetime: {e}.") from None


def target_of(context: Context) -> Target:
    """The one target that was given. Raises Unusable where there is none, or more than one."""
    args = context.args
    given = [
        name
        for name in (
            "to",
            "to_earliest",
            "to_latest",
            "to_current",
            "to_offset",
            "shift_by",
            "to_datetime",
            "by_duration",
            "from_file",
            "to_group",
        )
        if args.given(name)
    ]
    options = [f"--{name.replace('_', '-')}" for name in given]
    if len(given) != 1:
        what = (
            "not " + join(options)
            if given
            else "such as --to start, --to @-1h, --to-group GROUP or --from-file FILE"
        )
        raise Unusable(f"Say once where the offsets go, {what}.")
    now = now_ms()
    match given[0]:
        case "to":
            positions = positions_option(args.to, "--to")
            try:
                return Target(
                    single(positions, lambda: f"--to wants places, not the range {args.to!r}"), None
                )
            except ValueError as e:
                raise Unusable(f"{e}.") from None
        case "to_earliest":
            return Target(everywhere(START), None)
        case "to_latest":
            return Target(everywhere(END), None)
        case "to_current":
            return Target(everywhere(COMMITTED), None, keeps_commit=True)
        case "to_offset":
            if not 0 <= args.to_offset <= OFFSET_MAX:
                raise Unusable(f"--to-offset wants an offset from 0 on, not {args.to_offset}.")
            return Target(everywhere(Position(Anchor.OFFSET, args.to_offset)), None)
        case "shift_by":
            return Target(everywhere(Position(Anchor.COMMITTED, args.shift_by)), None)
        case "to_datetime":
            return Target(
                everywhere(Position(Anchor.TIME, _apache_time(args.to_datetime, now))), None
            )
        case "by_duration":
            try:
                ago = iso_duration_ms(args.by_duration)
            except ValueError as e:
                raise Unusable(f"--by-duration: {e}.") from None
            return Target(everywhere(Position(Anchor.TIME, now - ago)), None)
        case "to_group":
            return Target(None, None, to_group=args.to_group)
    return Target(None, read_csv(args.from_file))


def read_csv(path: str) -> dict[str | None, dict[TopicPartition, int]]:
    """Group (None: whichever is named) → partition → offset, from Apache's CSV. Raises CommandError."""
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
        raise Unusable(f"{path} is no CSV: {e}.") from None
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
                f"{path}, line {number}: it wants [group,]topic,partition,offset, not {','.join(line)!r}."
            ) from None
        found.setdefault(group[0] if group else None, {})[tp] = value
    if not found:
        raise Unusable(f"{path} holds no offsets; a line is [group,]topic,partition,offset.")
    return found
