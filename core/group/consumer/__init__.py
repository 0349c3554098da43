"""Consumer groups of KIP-848: the coordinator assigns partitions, and each member adopts its
assignment independently."""
