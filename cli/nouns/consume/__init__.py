"""`pk console-consumer`, also called `pk consume`."""
