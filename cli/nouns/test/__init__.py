"""`pk test`: runs a command with a Kafka cluster of its own."""
