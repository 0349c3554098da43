"""Arrow makes these functions when it is imported."""

from typing import Any

def __getattr__(name: str) -> Any: ...
