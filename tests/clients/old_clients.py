"""kafka-python 2.0.6 in a process of its own, since the tests themselves have version 3: what
clients of Kafka 0.9 to 0.11 were, told by `api_version` which requests to speak.

pip fetches the library and its dependencies into a cache folder, once.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wire.old_versions import fetch

from clients.apache_kafka import locked

COMPANIONS = ("six==1.17.0", "xxhash>=3,<5")
"""Its own copy of six does not load in newer Pythons; lz4 as Kafka 0.9 knew it needs xxhash."""

MAIN = Path(__file__).with_name("old_client_main.py")
TIMEOUT_S = 120.0


def libraries() -> list[str]:
    """The folders to put in front of the module path. Raises RuntimeError with pip's last words."""
    library = fetch()
    home = library.parent / "companions"
    with locked(library.parent / ".companions.lock"):
        if not home.exists():
            fresh = home.with_suffix(".part")
            shutil.rmtree(fresh, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(fresh)]
            ran = subprocess.run([*pip, *COMPANIONS], capture_output=True, text=True, check=False)
            if ran.returncode:
                raise RuntimeError(f"pip failed: {ran.stderr[-300:]}")
            fresh.rename(home)
    return [str(library), str(home)]


def pack(value: Any) -> Any:
    """Bytes as what JSON can carry."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return [pack(item) for item in value] if isinstance(value, (list, tuple)) else value


def unpack(value: Any) -> Any:
    """The opposite of `pack`; a list comes back as a tuple."""
    if isinstance(value, dict) and "b64" in value:
        return base64.b64decode(value["b64"])
    return tuple(unpack(item) for item in value) if isinstance(value, list) else value


class OldClient:
    """The process. Each call is a function of old_client_main.py; it answers before the next."""

    def __init__(self) -> None:
        paths = [*libraries(), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, str(MAIN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def call(self, name: str, *arguments: Any) -> Any:
        """The function's return value. Raises AssertionError with the function's own error."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps([name, *map(pack, arguments)]) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "the old client ended"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return unpack(answer["result"])
