"""`pk produce`, which Apache calls console-producer."""
