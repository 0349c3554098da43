"""`write`, `writeStream` and `write_batch`: tasks seal record batches; the driver publishes them in
one transaction, or executors publish those of a large batch."""

from typing import Final

DRIVER_BYTES: Final = 64 << 20
"""The size in bytes above which executors publish a batch in `foreachBatch`."""
