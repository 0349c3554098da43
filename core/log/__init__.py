"""Storage: the log of a partition, in Kafka's formats, as plain blocking code on a disk."""
