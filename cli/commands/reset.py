"""`pk groups reset-offsets`: what would move is shown first, then asked, then written, with a file that undoes it.

The preview only reads, so it may be had of an active group too; the change is refused there, naming the members. An offset
is always one that the partition has: a target outside is clamped and says so, and -1 is never committed.
"""

import csv
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pk.cli.commands.common import existing_topics
from pk.cli.commands.groups import (
    EMPTY_STATES,
    active_refusal,
    is_selected,
    selected,
    wanted_groups,
)
from pk.cli.context import Context, count, join
from pk.cli.exits import CommandError, Unusable
from pk.cli.failures import phrase
from pk.cli.output import Column, Listing, render
from pk.cli.paths import make_user_dir
from pk.cli.position import (
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
from pk.cli.resolve import Place, now_ms, positions_option, resolve
from pk.cli.times import iso_duration_ms, show_time, time_ms
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_APACHE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?")


class Target(NamedTuple):
    """Where the offsets go: by position, or read from a file as group → partition → offset."""

    positions: Positions | None
    from_file: Mapping[str | None, Mapping[TopicPartition, int]] | None
    keeps_commit: bool = False
    """Apache's --to-current: a commit stays, where there is none the end is committed."""


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
        )
        if args.given(name)
    ]
    options = [f"--{name.replace('_', '-')}" for name in given]
    if len(given) != 1:
        what = (
            "not " + join(options) if given else "such as --to start, --to @-1h or --from-file FILE"
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
    return Target(None, read_csv(args.from_file))


def read_csv(path: str) -> dict[str | None, dict[TopicPartition, int]]:
    """Group (None: whichever is named) → partition → offset, from Apache's CSV. Raises CommandError."""
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
    except (OSError, UnicodeDecodeError) as e:
        raise Unusable(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}.") from None
    found: dict[str | None, dict[TopicPartition, int]] = {}
    for number, line in enumerate(csv.reader(io.StringIO(text)), 1):
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


class Move(NamedTuple):
    """What happens to one committed offset."""

    group: str
    tp: TopicPartition
    committed: int | None
    target: int | None
    leader_epoch: int
    metadata: str
    note: str
    error: Exception | None = None

    @property
    def delta(self) -> int | None:
        return (
            None if self.committed is None or self.target is None else self.target - self.committed
        )


async def _partitions(
    context: Context,
    admin: Admin,
    commits: Iterable[TopicPartition],
    listed: Iterable[TopicPartition] | None,
) -> list[TopicPartition]:
    """The partitions that are moved: those of the file, of -t, or all that have a commit."""
    wanted = selected(context.args.topics)
    if listed is not None:
        return sorted(tp for tp in listed if is_selected(tp, wanted))
    if not wanted:
        return sorted(commits)
    topics = await existing_topics(context, admin, wanted)
    found = []
    for topic in topics:
        known = {p.partition for p in topic.partitions}
        numbers = wanted[topic.name]
        for number in known if numbers is None else numbers:
            if number not in known:
                raise CommandError(
                    f"Topic {topic.name} has no partition {number}; it has {len(known)}."
                )
            found.append(TopicPartition(topic.name, number))
    return sorted(found)


async def plan(context: Context, admin: Admin, group: str, target: Target) -> list[Move]:
    """What would happen to each offset of `group`. Changes nothing and joins nothing."""
    answers = await admin.list_group_offsets(group)
    commits = {tp: c for tp, c in answers.items() if isinstance(c, r.OffsetAndMetadata)}
    listed: Mapping[TopicPartition, int] | None = None
    if target.from_file is not None:
        listed = target.from_file.get(group) or target.from_file.get(None) or {}
    tps = await _partitions(context, admin, commits, listed)
    if not tps:
        raise CommandError(
            f"Group {group} has committed nothing; name what to set with -t TOPIC."
            if not context.args.topics
            else f"There is nothing to set for group {group}."
        )
    offsets = {tp: c.offset for tp, c in commits.items()}
    committed: dict[TopicPartition, int | None] = {tp: offsets.get(tp) for tp in tps}
    positions = target.positions
    if listed is not None:
        places = await _places_from_file(admin, listed, tps)
    else:
        assert positions is not None
        places = await resolve(admin, positions, tps, now_ms(), committed=committed)
    return [_move(group, tp, commits.get(tp), places[tp], target) for tp in tps if tp in places]


async def _places_from_file(
    admin: Admin, offsets: Mapping[TopicPartition, int], tps: Sequence[TopicPartition]
) -> dict[TopicPartition, Place | Exception]:
    """The places that a file names, topic by topic: positions are by partition number."""
    from pk.cli.position import Range

    places: dict[TopicPartition, Place | Exception] = {}
    for topic in dict.fromkeys(tp.topic for tp in tps):
        here = [tp for tp in tps if tp.topic == topic]
        ranges = {tp.partition: Range(Position(Anchor.OFFSET, offsets[tp])) for tp in here}
        places |= await resolve(admin, Positions(None, ranges), here, now_ms())
    return places


def _move(
    group: str,
    tp: TopicPartition,
    commit: r.OffsetAndMetadata | None,
    place: Place | Exception,
    target: Target,
) -> Move:
    has = commit.offset if commit else None
    metadata = commit.metadata if commit else ""
    if isinstance(place, Exception):
        return Move(group, tp, has, None, -1, metadata, phrase(place), place)
    if target.keeps_commit and has is not None:
        return Move(group, tp, has, has, commit.leader_epoch if commit else -1, metadata, "")
    note = place.note
    if has is None and not note:
        note = "no commit"
    return Move(group, tp, has, place.begin, -1, metadata, note)


_PLAN = (
    Column("group"),
    Column("topic"),
    Column("partition", right=True),
    Column("committed", right=True),
    Column("target", right=True),
    Column(
        "delta", right=True, title="Δ", show=lambda d: "-" if d is None else f"{d:+,}" if d else "0"
    ),
    Column("effect"),
    Column("target_time", title="TIME AT TARGET"),
    Column("note"),
    Column("result", wide=True),
    Column("error", wide=True),
)


def effect(delta: int | None) -> str | None:
    if delta is None:
        return None
    return "re-read" if delta < 0 else "skip" if delta > 0 else "stay"


def _rows(
    moves: Sequence[Move], times: Mapping[TopicPartition, int], result: str
) -> list[dict[str, Any]]:
    return [
        {
            "group": m.group,
            "topic": m.tp.topic,
            "partition": m.tp.partition,
            "committed": m.committed,
            "target": m.target,
            "delta": m.delta,
            "effect": effect(m.delta),
            "target_time": show_time(times[m.tp]) if m.tp in times else None,
            "note": m.note or None,
            "result": phrase(m.error) if m.error else result,
            "error": m.error.name if isinstance(m.error, KafkaError) else None,
        }
        for m in moves
    ]


async def _target_times(context: Context, moves: Sequence[Move]) -> dict[TopicPartition, int]:
    """The time of the record at each target, read without a group; absent where there is none."""
    from pk.cli.peek import record_times

    wanted = {m.tp: m.target for m in moves if m.target is not None and m.delta}
    return await record_times(context, wanted) if wanted else {}


def _totals(moves: Sequence[Move]) -> str:
    back = sum(-m.delta for m in moves if m.delta and m.delta < 0)
    on = sum(m.delta for m in moves if m.delta and m.delta > 0)
    first = sum(m.committed is None and m.target is not None for m in moves)
    parts = [
        f"re-reads {count(back, 'record')}" if back else "",
        f"skips {count(on, 'record')}" if on else "",
        f"sets {count(first, 'offset')} for the first time" if first else "",
    ]
    return join([p for p in parts if p]) or "changes nothing"


def export_csv(moves: Sequence[Move], *, with_group: bool) -> bytes:
    """The plan in Apache's CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for m in moves:
        if m.target is not None:
            row = [m.tp.topic, m.tp.partition, m.target]
            writer.writerow([m.group, *row] if with_group else row)
    return buffer.getvalue().encode()


def _write_undo(moves: Sequence[Move], stamp_ms: int) -> str | None:
    """Writes the offsets as they were; the file's name, or None where nothing was committed. Raises OSError."""
    old = [m for m in moves if m.committed is not None]
    if not old:
        return None
    directory = os.path.join(make_user_dir("state"), "undo")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = os.path.join(directory, f"reset-offsets-{stamp_ms}-{os.getpid()}.csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([m.group, m.tp.topic, m.tp.partition, m.committed] for m in old)
    return path


async def _commit(context: Context, admin: Admin, group: str, moves: Sequence[Move]) -> list[Move]:
    """Commits the targets; each move comes back with the error it met."""
    good = {
        m.tp: r.OffsetAndMetadata(m.target, m.leader_epoch, m.metadata)
        for m in moves
        if m.target is not None
    }
    assert all(c.offset >= 0 for c in good.values()), "an offset below 0 is never committed"
    answers = await admin.alter_group_offsets(group, good) if good else {}
    done = []
    for m in moves:
        error = answers.get(m.tp)
        if isinstance(error, KafkaError) and error.code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.NON_EMPTY_GROUP,
        ):
            error = KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"a member joined group {group} meanwhile"
            )
        done.append(m._replace(error=error or m.error))
    return done


async def reset_offsets(context: Context) -> None:
    """`pk groups reset-offsets`."""
    args = context.args
    target = target_of(context)
    if args.all_topics and args.topics:
        raise Unusable("Name topics with -t, or say --all-topics; not both.")
    admin = await context.admin()
    names = await _groups_of(context, admin, target)
    described = await admin.describe_groups(names)
    active = []
    for name in names:
        found = described[name]
        if isinstance(found, r.GroupDescription) and found.state not in EMPTY_STATES:
            active.append(found)
        elif isinstance(found, Exception) and not _is_absent(found):
            raise found
    moves = [m for name in names for m in await plan(context, admin, name, target)]
    for m in moves:
        if m.error is not None:
            context.fail(m.error)
    if args.export:
        context.write(export_csv(moves, with_group=len(names) > 1))
    if args.dry_run or (args.export and not (args.execute or args.yes)):
        if not args.export:
            context.show(
                Listing(_PLAN, _rows(moves, await _target_times(context, moves), "would be set"))
            )
        context.say(f"This {_totals(moves)}; nothing was changed.")
        for group in active:
            context.say(str(active_refusal(group, "offsets are reset")))
        return
    if active:
        raise active_refusal(active[0], "offsets are reset")
    await _ask(context, moves)
    undo = _write_undo(moves, now_ms())
    done = []
    for name in names:
        done += await _commit(context, admin, name, [m for m in moves if m.group == name])
    _report(context, done, undo, quiet=args.export)


async def _groups_of(context: Context, admin: Admin, target: Target) -> list[str]:
    args = context.args
    in_file = [g for g in target.from_file or {} if g is not None]
    if in_file and not args.group and not args.groups and not args.all_groups:
        return in_file
    return await wanted_groups(context, admin)


def _is_absent(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND


async def _ask(context: Context, moves: Sequence[Move]) -> None:
    args = context.args
    if not (args.yes or args.execute):
        rows = _rows(moves, await _target_times(context, moves), "")
        look = context.look._replace(
            format="table",
            columns=(),
            sort=(),
            where=None,
            limit=None,
            terminal=context.streams.err_terminal,
            colour=context.streams.err_colour,
        )
        context.say(render(Listing(_PLAN, rows), look).decode().rstrip("\n"))
    groups = list(dict.fromkeys(m.group for m in moves))
    context.say(f"On {context.settings.cluster_name}, this {_totals(moves)} for {join(groups)}.")
    await context.agree(
        "Reset?", name=groups[0] if len(groups) == 1 else context.settings.bootstrap
    )


def _report(context: Context, done: Sequence[Move], undo: str | None, *, quiet: bool) -> None:
    for m in done:
        if m.error is not None and m.error not in context.failures:
            context.failed(m.error, f"{m.group} {m.tp}")
    if not quiet:
        columns = [
            c._replace(wide=False) if c.key == "result" else c
            for c in _PLAN
            if c.key != "target_time"
        ]
        context.show(Listing(columns, _rows(done, {}, "set")))
    if undo is not None:
        context.say(f"To undo it: pk groups reset-offsets --from-file {undo}")
