"""`write`, `writeStream` and `write_batch`: tasks seal record batches; the driver publishes them in
one transaction, or executors those of a large batch."""

from typing import Final

DRIVER_BYTES: Final = 64 << 20
"""A batch in `foreachBatch` with more bytes than this is published by executors."""
