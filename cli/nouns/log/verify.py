"""`pk log verify`: checks the files of logs. Also the index checks of `pk log dump`."""

import os
import time
from collections.abc import Sequence

from pk.cli.exits import CommandError, Exit
from pk.cli.nouns.log.rows import FindingRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.runtime.context import Context
from pk.cli.runtime.progress import Progress
from pk.core.log.disk import RealDisk
from pk.core.log.tools.inspect import (
    Finding,
    Kind,
    base_of,
    kind_of,
    offset_entries,
    survey,
    time_entries,
    txn_entries,
)
from pk.core.log.tools.verify import Report
from pk.core.log.tools.verify_dirs import log_bytes, verify

_AGAIN_S = 0.02


class CheckFailed(CommandError):
    """The files are damaged; the table shows where."""


def _wait() -> None:
    time.sleep(_AGAIN_S)


def _directories(paths: Sequence[str]) -> list[str]:
    """The absolute paths. Raises CommandError for a path without logs, since checking nothing is a
    failure."""
    disk = RealDisk(read_only=True)
    found: list[str] = []
    for path in map(os.path.abspath, paths):
        if not os.path.isdir(path):
            what = "is not a directory" if os.path.exists(path) else "does not exist"
            raise CommandError(f"{path} {what}; give a partition directory or a data directory.")
        inside = survey(disk, path)
        if not inside.files and not any(_has_log(disk, p) for p in inside.partitions):
            raise CommandError(
                f"{path} contains neither a log nor the files of a data directory; nothing was "
                "checked."
            )
        found.append(path)
    return found


def _has_log(disk: RealDisk, directory: str) -> bool:
    """Whether a directory with the name of a partition (`dbus-1`) contains any file of a log."""
    return any(kind_of(name) is not None for name in disk.list(directory))


def verify_command(context: Context, paths: Sequence[str], *, index_only: bool) -> int:
    """Run `pk log verify`."""
    return _verify(context, _directories(paths), logs=not index_only)


def _verify(context: Context, paths: Sequence[str], *, logs: bool) -> int:
    disk = RealDisk(read_only=True)
    total = sum(log_bytes(disk, path) for path in paths)
    findings: list[Finding] = []
    sums = Report()
    partitions = done = 0

    def on_report(path: str, report: Report) -> None:
        nonlocal partitions
        findings.extend(report.findings)
        partitions += report.segments > 0
        for name in ("segments", "batches", "records", "bytes"):
            setattr(sums, name, getattr(sums, name) + getattr(report, name))

    with Progress(context, "Checking", total >> 10, unit="KiB") as progress:

        def on_bytes(more: int) -> None:
            nonlocal done
            done += more
            progress.update(done >> 10, count(len(findings), "finding") if findings else "")

        for path in paths:
            verify(disk, path, on_report, again=_wait, progress=on_bytes, logs=logs)
    _show(context, findings)
    inside = f", {count(sums.records, 'record')}" if logs else ""
    context.say(
        f"{count(partitions, 'partition')}, {count(sums.segments, 'segment')}, "
        f"{count(sums.batches, 'batch', 'batches')}{inside}, {sums.bytes:,} bytes: "
        + (count(len(findings), "finding") if findings else "nothing is wrong")
        + "."
    )
    return Exit.FAILED if findings else Exit.OK


def _show(context: Context, findings: Sequence[Finding]) -> None:
    if not findings and context.output.format in ("table", "wide"):
        return
    rows: list[FindingRow] = [
        {
            "file": f.file,
            "position": f.position,
            "offset": f.offset if f.offset >= 0 else None,
            "what": f.what,
        }
        for f in findings
    ]
    context.show(listing(FindingRow, rows, lambda _: "red"))


def check_indexes(context: Context, paths: Sequence[str], *, alone: bool) -> None:
    """Run `pk log dump --verify-index-only`, which checks the indexes against the logs, or, if
    `alone`, `--index-sanity-check`, which reads only the indexes."""
    if not alone:
        directories = [p if os.path.isdir(p) else os.path.dirname(p) for p in paths]
        if _verify(context, _directories(list(dict.fromkeys(directories))), logs=False):
            context.fail(CheckFailed("Some indexes are damaged."))
        return
    findings: list[Finding] = []
    looked = 0
    for path in _index_files(paths):
        data, base = RealDisk(read_only=True).read(path), base_of(path.rpartition("/")[2])
        kind = kind_of(path)
        if kind is Kind.INDEX:
            findings += offset_entries(path, data, base)[1]
        elif kind is Kind.TIME_INDEX:
            findings += time_entries(path, data, base)[1]
        else:
            findings += txn_entries(path, data)[1]
        looked += 1
    _show(context, findings)
    said = count(len(findings), "finding") if findings else "nothing is wrong"
    context.say(f"{count(looked, 'index', 'indexes')}: {said}.")
    if findings:
        context.fail(CheckFailed("Some indexes are damaged."))


def _index_files(paths: Sequence[str]) -> list[str]:
    """The named index files, and those in the named directories. Raises CommandError if there are
    none."""
    wanted = (Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
    named: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path):
                raise CommandError(f"{path} does not exist; name an index or a directory of logs.")
            named.append(path)
            continue
        for directory in survey(RealDisk(read_only=True), path).partitions:
            named += [f"{directory}/{name}" for name in sorted(os.listdir(directory))]
    found = [path for path in named if kind_of(path.rpartition("/")[2]) in wanted]
    if not found:
        raise CommandError(f"{join(paths)}: no index found.")
    return found
