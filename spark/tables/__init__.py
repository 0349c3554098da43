"""Files that are written, as tables of Delta and Iceberg and as directories by columns."""
