"""Who reads which partition in a classic group: the assignors of a consumer that leads, and the bytes they exchange."""
