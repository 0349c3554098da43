"""Small files that are replaced in one step."""

import json
import os
from pathlib import Path


def write_json(path: Path, value: object) -> None:
    """Replaces a file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(path)
