"""Transactions: what a transaction coordinator knows, decides and writes, without I/O."""
