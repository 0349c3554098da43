"""`pk metrics`: the metrics of brokers, their rates and their trends."""
