"""kafka-python 2.0.6 as an oracle for versions that Apache Kafka 4 dropped, and the golden file of
its answers.

`python tests/wire/old_versions.py` (with `tests` and `scripts/path` on PYTHONPATH) writes
tests/golden/wire_old.jsonl again: each line is a message, a version, its values by position, and
the bytes kafka-python makes of them.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clients.apache_kafka import locked
from wire.values import Maker, all_messages

from pk.core.wire.emit import fields_of
from pk.core.wire.index import MESSAGES
from pk.core.wire.schema import Array, Kind, Message, Struct

VERSION = "2.0.6"
ENCODER = Path(__file__).with_name("old_kafka_python.py")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "wire_old.jsonl"

OTHERS: dict[str, tuple[str, str]] = {
    "Produce": ("produce", "Produce"),
    "Fetch": ("fetch", "Fetch"),
    "ListOffsets": ("offset", "Offset"),
    "OffsetCommit": ("commit", "OffsetCommit"),
    "OffsetFetch": ("commit", "OffsetFetch"),
    "CreateTopics": ("admin", "CreateTopics"),
    "DeleteTopics": ("admin", "DeleteTopics"),
    "DescribeAcls": ("admin", "DescribeAcls"),
    "CreateAcls": ("admin", "CreateAcls"),
    "DeleteAcls": ("admin", "DeleteAcls"),
    "DescribeConfigs": ("admin", "DescribeConfigs"),
}
"""An api of which we have versions that Apache dropped → kafka-python's module, and its name for
it.
"""


def positional(kind: Kind, value: Any, version: int) -> Any:
    """A value in the form that kafka-python's schemas take: structs as lists of the version's
    fields."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return [positional(kind.element, item, version) for item in value]
    if isinstance(kind, type):
        return by_place(value, version)
    return {"hex": bytes(value).hex()} if isinstance(value, (bytes, memoryview)) else value


def by_place(message: Struct, version: int) -> list[Any]:
    """The values of the fields that `version` has."""
    return [
        positional(kind, getattr(message, name), version)
        for name, kind, f in fields_of(type(message))
        if f.within(version)
    ]


def fetch() -> Path:
    """The folder that holds kafka-python 2.0.6, fetched by pip at the first call ever.

    Raises RuntimeError with pip's last words if it fails.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = Path(cache) / "pk-kafka-python" / VERSION
    with locked(home.parent / ".lock"):
        if not home.exists():
            fresh = home.with_suffix(".part")
            shutil.rmtree(fresh, ignore_errors=True)
            wanted = [f"kafka-python=={VERSION}", "--no-deps", "--target", str(fresh)]
            ran = subprocess.run(
                [sys.executable, "-m", "pip", "install", "-q", *wanted],
                capture_output=True,
                text=True,
                check=False,
            )
            if ran.returncode:
                raise RuntimeError(f"pip failed: {ran.stderr[-300:]}")
            fresh.rename(home)
    return home


def dropped() -> Iterator[tuple[type[Message], int]]:
    """Every message in every version that we have and Apache Kafka 4 has not."""
    for cls in all_messages():
        api = MESSAGES.get(cls.API_KEY)
        if api is not None:
            for version in range(cls.VERSIONS[0], api.versions[0]):
                yield cls, version


def ask(library: Path, cases: list[tuple[Message, int]]) -> list[str]:
    """The hex of each case as kafka-python encodes it, or "error" and the exception."""
    questions = []
    for message, version in cases:
        api = MESSAGES[message.API_KEY]
        module, name = OTHERS[api.name]
        kind = type(message).__name__.removeprefix(api.name)
        questions.append([module, f"{name}{kind}_v{version}", by_place(message, version)])
    done = subprocess.run(
        [sys.executable, str(ENCODER), str(library)],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


def write_golden() -> None:
    """Write the golden file again."""
    cases: list[tuple[Message, int]] = [
        (Maker(version, small=True).message(cls, version), version) for cls, version in dropped()
    ]
    with GOLDEN.open("w") as f:
        for (message, version), answer in zip(cases, ask(fetch(), cases), strict=True):
            assert not answer.startswith("error"), (message, version, answer)
            line = [type(message).__name__, version, by_place(message, version), answer]
            f.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write_golden()
