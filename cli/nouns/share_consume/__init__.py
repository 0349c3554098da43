"""`pk share-consume`."""
