"""`write` and `writeStream`: tasks seal record batches, the driver publishes them in one
transaction."""
