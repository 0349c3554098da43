"""`pk consume`, which Apache calls console-consumer."""
