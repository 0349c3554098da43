"""The export of topics to files and tables: what it reads, its job on Spark, and its manifest."""
