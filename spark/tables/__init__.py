"""Delta and Iceberg tables, and directories of files by column values."""
