"""`pk spark pipeline`: Spark runs the streams that a TOML file declares."""
