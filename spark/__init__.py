"""Spark: the data source `pk` for tables and streams, exports, imports and pipelines."""
