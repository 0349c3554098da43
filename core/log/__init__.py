"""Storage: the log of a partition, in Kafka's formats, written as plain blocking code on a
`Disk`."""
