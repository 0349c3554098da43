"""`pk console-producer`, also called `pk produce`."""
