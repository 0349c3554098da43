"""`pk spark pipeline`: streams that a TOML file declares, run by Spark."""
