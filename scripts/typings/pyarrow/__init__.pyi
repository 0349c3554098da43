"""pyarrow has no types of its own: all that it offers is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
