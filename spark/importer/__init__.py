"""`pk spark-import`: rows of files and tables to a topic, each exactly once."""
