"""The export of topics to files and tables: its plan, its job on Spark, and its manifest."""
