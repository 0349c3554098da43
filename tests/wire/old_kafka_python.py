"""Encodes by kafka-python 2.0.6: run as a script in a process of its own, because 3 is what the
tests have.

A line in is [module, class, values]: the values of the class's schema by position, bytes as {"hex":
...}. A line out is the bytes in hex, or "error" and the exception. The first argument is the folder
that holds kafka-python.
"""

import importlib
import json
import sys
import types
from typing import Any


def plain(value: Any) -> Any:
    """JSON to what the schema takes."""
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return [plain(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    """Answer every line of standard input."""
    sys.path.insert(0, sys.argv[1])
    # Only its `protocol` package is wanted; its vendored modules do not load in every newer Python.
    package = types.ModuleType("kafka")
    package.__path__ = [f"{sys.argv[1]}/kafka"]
    sys.modules["kafka"] = package
    for line in sys.stdin:
        module, name, values = json.loads(line)
        cls = getattr(importlib.import_module(f"kafka.protocol.{module}"), name)
        try:
            print(cls.SCHEMA.encode(plain(values)).hex())
        except Exception as e:  # noqa: BLE001
            print(f"error {e!r}")


if __name__ == "__main__":
    main()
