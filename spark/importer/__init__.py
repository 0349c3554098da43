"""`pk spark-import`: imports the rows of files and tables into a topic, each exactly once."""
