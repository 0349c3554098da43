"""`pk log`: reads and checks a partition's files without a broker."""
