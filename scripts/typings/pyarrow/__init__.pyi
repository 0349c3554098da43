"""pyarrow has no types of its own, so all its names are Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
