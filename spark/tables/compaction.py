"""Compacts a Delta table: many small files become few large ones.

deltalake rewrites the files in the process that asks for it, and puts the new ones in place of the
old ones in one commit. Rows that other writers append meanwhile stay, and so do the batch numbers
that the table keeps for each writer. If another writer removes one of the files meanwhile, the
commit is refused, and nothing has changed. Old files stay for the table's
`delta.deletedFileRetentionDuration`, a week by default, for readers of earlier versions.
"""

from typing import NamedTuple

from pk.spark.files.store import Store
from pk.spark.tables.lake_commit import delta_table_of


class Compacted(NamedTuple):
    """The numbers of files that a compaction removed from the table, and added."""

    removed: int
    added: int


def compact_delta(store: Store) -> Compacted:
    """Compacts files up to the table's `delta.targetFileSize`, 100 MB by default, and removes files
    that left the table longer ago than its retention. Raises SparkMissing, DeltaError, OSError."""
    table = delta_table_of(store)
    if table is None:
        return Compacted(0, 0)
    done = table.optimize.compact()
    found = Compacted(int(done["numFilesRemoved"]), int(done["numFilesAdded"]))
    if found.removed:
        # A full vacuum also removes what killed attempts left, which the log does not name.
        table.vacuum(dry_run=False, full=True)
    return found
