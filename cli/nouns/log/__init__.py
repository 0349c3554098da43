"""`pk log`: a partition's files, without a broker."""
