"""The formats of every command's output: columns, schema, conditions and `-w`."""
