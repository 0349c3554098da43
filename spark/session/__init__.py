"""pk's own Spark sessions: starting them, their Python processes, and the packages that a cluster's
workers need."""
