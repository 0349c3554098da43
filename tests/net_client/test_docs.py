"""The whole programs of docs/client.md: run as they stand there."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from clients.fixtures import Kafka
from clients.topics import configure_group
from installed import client_alone
from net_client.support import eventually

from pk.core.values import TopicPartition
from pk.net.client.admin import Admin, open_admin
from pk.net.client.consumer import open_consumer
from pk.net.client.producer import open_producer
from pk.net.client.results import NewTopic

ROOT = Path(__file__).resolve().parents[2]

PROGRAMS = (
    "### On trio",
    "### On asyncio",
    "### Without an event loop",
    "## Keys and values",
    "### With a schema registry",
    "### Exactly once",
    "## Share consumer",
    "## Hooks and traces",
)
"""The headings of whole programs."""


def program(heading: str) -> str:
    """The code under a heading."""
    text = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    section = text[text.index(heading) :]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_table_of_operations_names_each() -> None:
    text = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    table = text[text.index("| about | operations |") :].split("\n\n", 1)[0]
    operations = {
        name
        for name, value in inspect.getmembers(Admin)
        if not name.startswith("_") and callable(value) and name != "open"
    }
    assert set(re.findall(r"`(\w+)`", table)) == operations


@pytest.mark.parametrize("installed", ["everything", "pk-client"])
@pytest.mark.parametrize("heading", ["### On trio", "### On asyncio", "### Without an event loop"])
def test_the_first_program_sends_a_record_and_reads_it(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], heading: str, installed: str
) -> None:
    topic = fresh("orders")
    script = tmp_path / "first.py"
    script.write_text(program(heading).replace("orders", topic), encoding="utf-8")

    async def make() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await admin.create_topics([NewTopic(topic, 1)])

    trio.run(make)
    command = [sys.executable, "-W", "error", str(script), kafka.bootstrap]
    environment = client_alone([], tmp_path) if installed == "pk-client" else None
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == (f"{topic} 0 0\n0 b'42' b'one'\n", "")


@pytest.mark.parametrize("installed", ["everything", "pk-client[schemas]"])
@pytest.mark.parametrize("heading", ["## Keys and values", "### With a schema registry"])
def test_the_typed_programs_send_an_order_and_read_it(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], heading: str, installed: str
) -> None:
    topic = fresh("orders")
    script = tmp_path / "typed.py"
    script.write_text(program(heading).replace('"orders"', f'"{topic}"'), encoding="utf-8")
    registry = tmp_path / "registry"
    registry.mkdir()

    async def make() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await admin.create_topics([NewTopic(topic, 1)])

    trio.run(make)
    command = [sys.executable, "-W", "error", str(script), kafka.bootstrap, str(registry)]
    environment = client_alone(["schemas"], tmp_path) if installed != "everything" else None
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == ("0 alice Order(item='tea', price=3)\n", "")


def test_the_spans_of_one_record_are_of_one_trace(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str]
) -> None:
    topic = fresh("orders")
    script = tmp_path / "traces.py"
    text = program("## Hooks and traces").replace('"orders"', f'"{topic}"')
    script.write_text(text.replace('"billing"', f'"{topic}"'), encoding="utf-8")

    async def make() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await admin.create_topics([NewTopic(topic, 1)])

    trio.run(make)
    command = [sys.executable, "-W", "error", str(script), kafka.bootstrap]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    spans = [
        json.loads(f"{{{text}\n}}")
        for text in re.findall(r"^\{(.*?)\n\}$", ran.stdout, re.MULTILINE | re.DOTALL)
    ]
    send, poll, process = spans
    names = [span["name"] for span in spans]
    assert names == [f"send {topic}", f"poll {topic}", f"process {topic}"]
    assert process["context"]["trace_id"] == send["context"]["trace_id"]
    assert poll["links"][0]["context"]["span_id"] == send["context"]["span_id"]
    assert process["attributes"]["messaging.consumer.group.name"] == topic


@pytest.mark.slow
def test_the_programs_pass_both_type_checkers(tmp_path: Path) -> None:
    """As a user has them: pyright in its strict mode, and mypy."""
    names = []
    for number, heading in enumerate(PROGRAMS):
        names.append(f"program_{number}.py")
        (tmp_path / names[-1]).write_text(program(heading), encoding="utf-8")
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(ROOT / "scripts/path")],
        "include": ["."],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", "."]
    mypy = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *names]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "scripts/path")}
    for command in (pyright, mypy):
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_read_process_write_copies_each_record_once(kafka: Kafka, tmp_path: Path) -> None:
    script = tmp_path / "totals.py"
    script.write_text(program("### Exactly once"), encoding="utf-8")

    def run(until: int) -> str:
        command = [sys.executable, str(script), kafka.bootstrap, str(until)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    async def fill(values: list[bytes]) -> None:
        async with open_producer(kafka.bootstrap) as producer:
            await (await producer.send_many("orders", [(None, v) for v in values])).wait()

    async def make() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await admin.create_topics([NewTopic("orders", 2, 1), NewTopic("totals", 1, 1)])
        await fill([b"a", b"b", b"c"])

    async def look() -> list[bytes]:
        config = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        found: list[bytes] = []
        async with open_consumer(kafka.bootstrap, config) as consumer:
            here = TopicPartition("totals", 0)
            consumer.assign([here])
            end = (await consumer.end_offsets([here])).value(here)
            while await consumer.position(here) < end.offset:
                found += [record.value or b"" for record in await consumer.poll(timeout_ms=200)]
        return sorted(found)

    async def drop() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await admin.delete_topics(["orders", "totals"])
            await admin.delete_groups(["totals"])

    trio.run(make)
    try:
        assert run(3) == "3 records copied\n"
        trio.run(fill, [b"d", b"e"])
        assert run(2) == "2 records copied\n"
        trio.run(eventually, look, [b"A", b"B", b"C", b"D", b"E"])
    finally:
        trio.run(drop)


def test_jobs_are_accepted_tried_again_and_rejected(kafka: Kafka, tmp_path: Path) -> None:
    script = tmp_path / "jobs.py"
    script.write_text(program("## Share consumer"), encoding="utf-8")

    async def make() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await admin.create_topics([NewTopic("jobs", 1, 1)])
        async with open_producer(kafka.bootstrap) as producer:
            values = (b"easy", b"busy", b"broken")
            await (await producer.send_many("jobs", [(None, v) for v in values])).wait()

    configure_group(kafka, "jobs", {"share.auto.offset.reset": "earliest"})
    trio.run(make)
    command = [sys.executable, str(script), kafka.bootstrap, "3"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ["broken reject 1", "busy accept 3", "easy accept 1"]
    assert sorted(ran.stdout.splitlines()) == lines
