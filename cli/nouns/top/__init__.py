"""`pk top`: its options; the screen itself is in `cli/top`."""
