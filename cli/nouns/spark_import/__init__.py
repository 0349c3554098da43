"""`pk spark-import`."""
