"""A Spark of pk's own: its start, its Python processes, and what a cluster's workers need of pk."""
