"""Apache Kafka's generated message classes as an oracle, and the golden file that remembers what
they said.

`python tests/wire/apache.py` (with `tests` and `scripts/path` on PYTHONPATH) writes
tests/golden/wire.jsonl again: each line is a message, a version, its fields as JSON, and the bytes
Apache's classes make of them.
"""

import base64
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from clients.apache_kafka import java_command
from wire.values import Maker, all_messages, camel, walk

from pk.core.values import uuid_text
from pk.core.wire.index import MESSAGES
from pk.core.wire.schema import Kind, Message
from pk.core.wire.types import UUID, Variable

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "wire.jsonl"
HARNESS = Path(__file__).with_name("WireHarness.java")

PACKAGES = {
    "offsets_topic": "org.apache.kafka.coordinator.group.generated",
    "offsets_topic_share": "org.apache.kafka.coordinator.group.generated",
    "offsets_topic_streams": "org.apache.kafka.coordinator.group.generated",
    "transaction_topic": "org.apache.kafka.coordinator.transaction.generated",
    "share_topic": "org.apache.kafka.coordinator.share.generated",
    "remote_log_metadata": "org.apache.kafka.server.log.remote.metadata.storage.generated",
}


OWN = frozenset(
    {
        "PkFaultsRequest",
        "PkFaultsResponse",
        "PkRemoteStorageRequest",
        "PkRemoteStorageResponse",
        "PkReplicaLogsRequest",
        "PkReplicaLogsResponse",
        "PkRestoreTopicsRequest",
        "PkRestoreTopicsResponse",
        "PkUncleanRecoveryRequest",
        "PkUncleanRecoveryResponse",
    }
)
"""Messages that Apache Kafka does not have."""


class Case(NamedTuple):
    """A message to encode in a version."""

    message: Message
    version: int


def java_name(cls: type[Message]) -> str:
    """Apache's class for ours."""
    package = PACKAGES.get(cls.__module__.rpartition(".")[2])
    if package:
        return f"{package}.{cls.__name__}"
    suffix = "Data" if cls.API_KEY >= 0 else ""
    return f"org.apache.kafka.common.message.{cls.__name__}{suffix}"


def apache_versions(cls: type[Message]) -> range:
    """The versions Apache 4.3.1 has: all that it serves, and one that is not stable yet."""
    low = MESSAGES[cls.API_KEY].versions[0] if cls.API_KEY >= 0 else cls.VERSIONS[0]
    return range(low, cls.VERSIONS[1] + 1)


def json_fields(message: Message, version: int) -> dict[str, Any]:
    """The fields of `message` as Apache's JSON converters write them."""

    def leaf(kind: Kind, value: Any) -> Any:
        if kind == UUID:
            return uuid_text(value)
        if isinstance(kind, Variable) and kind.name != "string":
            return base64.b64encode(value).decode()
        return value

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {camel(name): rename(inner) for name, inner in value.items()}
        return [rename(item) for item in value] if isinstance(value, list) else value

    return rename(walk(message, version, leaf))


def ask(cases: Iterable[Case]) -> list[str]:
    """The hex of each case as Apache's classes encode it, or "error" and why."""
    lines = [
        json.dumps(
            {
                "class": java_name(type(message)),
                "version": version,
                "fields": json_fields(message, version),
            }
        )
        for message, version in cases
    ]
    done = subprocess.run(
        java_command(str(HARNESS)),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines), done.stderr
    return answers


def golden_cases() -> Iterator[Case]:
    """One small message for each message and version."""
    for cls in all_messages():
        for version in apache_versions(cls) if cls.__name__ not in OWN else ():
            yield Case(Maker(version, small=True).message(cls, version), version)


def write_golden() -> None:
    """Write the golden file again."""
    cases = list(golden_cases())
    GOLDEN.parent.mkdir(exist_ok=True)
    with GOLDEN.open("w") as f:
        for (message, version), answer in zip(cases, ask(cases), strict=True):
            assert not answer.startswith("error"), (type(message).__name__, version, answer)
            fields = json_fields(message, version)
            line = [type(message).__name__, version, fields, answer]
            f.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write_golden()
