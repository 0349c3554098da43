"""`pk test`: a command that finds a Kafka of its own."""
