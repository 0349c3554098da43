"""`pk spark-export`."""
