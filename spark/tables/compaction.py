"""Compacts a Delta table: replaces many small files with a few large ones.

deltalake rewrites the files in the calling process, and replaces the old files with the new ones in
one commit. Rows that other writers append in the meantime are kept, and so are the batch numbers
that the table stores for each writer. If another writer removes one of the files in the meantime,
the commit fails and the table is unchanged. Old files are kept for the table's
`delta.deletedFileRetentionDuration`, a week by default, for readers of earlier versions.
"""

import json
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pk.spark.files.object_path import Place, write_json
from pk.spark.files.store import Store
from pk.spark.tables.lake_commit import delta_table_of

NOT_COMPACTED: Final = {
    "iceberg": "pyiceberg cannot rewrite files",
    "parquet": "a directory has no step that replaces files",
}
"""The reasons why targets other than Delta tables cannot be compacted."""


class Compacted(NamedTuple):
    """The number of files that a compaction removed from the table, and the number that it
    added."""

    removed: int
    added: int


def compact_delta(store: Store) -> Compacted:
    """Merge files up to the table's `delta.targetFileSize`, 100 MB by default. If any were merged,
    delete the files that have not been part of the table for longer than its retention time. Raises
    SparkMissing, DeltaError, OSError."""
    table = delta_table_of(store)
    if table is None:
        return Compacted(0, 0)
    done = table.optimize.compact()
    found = Compacted(int(done["numFilesRemoved"]), int(done["numFilesAdded"]))
    if found.removed:
        # A full vacuum also removes the files of killed attempts, which the log does not name.
        table.vacuum(dry_run=False, full=True)
    return found


class Compaction:
    """The periodic compaction of one table, after its batches.

    The time of the last compaction is stored in a file, so that the period continues across
    restarts. A failed compaction does not stop the writer of the table: the batch is already in the
    table, and the next attempt follows a period later.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        remembered: Place,
        period_s: float,
        say: Callable[[str], None],
    ) -> None:
        """`name` is the table's name in the sentences for `say`; `remembered` is the file that
        stores the time of the last compaction. Raises OSError."""
        self._name = name
        self._store = store
        self._remembered = remembered
        self._period_s = period_s
        self._say = say
        self._last_s = self._read()

    def after_batch(self) -> None:
        """Compact the table if its period has passed. Raises OSError."""
        now = time.time()
        if now - self._last_s < self._period_s:
            return
        self._last_s = now
        try:
            done = compact_delta(self._store)
        except Exception as e:  # deltalake has errors of its own  # noqa: BLE001
            said = " ".join(str(e).split())
            self._say(f"{self._name}: the table was not compacted: {said}. Writing continues.")
            return
        write_json(self._remembered, {"at_s": now})
        if done.removed:
            self._say(
                f"{self._name}: {done.removed} files of the table were compacted to {done.added}."
            )

    def _read(self) -> float:
        """The time of the last compaction. For a new table this is now, so that it is not compacted
        at once."""
        try:
            found: Any = json.loads(self._remembered.read_text())
        except FileNotFoundError:
            found = {"at_s": time.time()}
            write_json(self._remembered, found)
        return float(found["at_s"])
