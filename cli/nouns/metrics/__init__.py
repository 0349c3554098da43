"""`pk metrics`: the metrics of brokers, their rates and how they develop."""
