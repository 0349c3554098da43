"""Spark: a data source that reads topics, and the export of a topic to parquet."""
