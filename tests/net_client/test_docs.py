"""The programs of docs/client*.md, run as they stand there, and on asyncio and blocking with the
changes that the page names. Fragments of programs get their context."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import pk_environment, run_python
from clients.topics import configure_group
from installed import client_alone

from pk.client import aio, blocking
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.results import NewTopic

ROOT = Path(__file__).resolve().parents[2]

WAYS = ("trio", "asyncio", "blocking")

FIRST = ("### On trio", "### On asyncio", "### Without an event loop")
"""The headings of programs that the page has for each way."""

PROGRAMS = (
    "## With your own functions",
    "## With a schema registry",
    "### Exactly once",
    "## Share consumer",
    "## Hooks and traces",
)
"""The headings of the other whole programs."""

PIECES = {
    "## Transactions": "",
    "### At least once": "",
    "### At most once": """
async with open_consumer(servers, {"group.id": "billing", "enable.auto.commit": False}) as consumer:
    consumer.subscribe(["orders"])
""",
    "## Admin": "",
}
"""The headings of pieces of programs, and the block that a piece is in."""

AROUND = """
import sys
import trio
from pk.client import LATEST, ConsumerRecord, NewTopic, open_admin, open_consumer, open_producer


class Enough(Exception):
    pass


done: list[bytes | None] = []


async def process(record: ConsumerRecord) -> None:
    done.append(record.value)
    print(record.value)
    if len(done) == 3:
        raise Enough


async def main(servers: str) -> None:
PIECE

try:
    trio.run(main, sys.argv[1])
except Enough:
    print("enough")
"""
"""A program around a piece."""


def program(heading: str) -> str:
    """The code under a heading."""
    pages = sorted((ROOT / "docs").glob("client*.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    section = text[text.index(heading) :]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    if heading not in PIECES:
        return found[1]
    piece = found[1].replace('"localhost:9092"', "servers")
    indented = textwrap.indent(PIECES[heading] + piece, "    ")
    return AROUND.replace("PIECE", indented)


def on(way: str, text: str) -> str:
    """A program that is on trio, for asyncio or blocking."""
    if way == "trio":
        return text
    names = {"asyncio": aio.__all__, "blocking": blocking.__all__}[way]
    module = {"asyncio": "pk.client.aio", "blocking": "pk.client.blocking"}[way]
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "pk.client":
            imported = {alias.name for alias in node.names}
            lines = [
                f"from {home} import {', '.join(sorted(wanted))}"
                for home, wanted in (
                    (module, imported & set(names)),
                    ("pk.client", imported - set(names)),
                )
                if wanted
            ]
            text = text.replace(ast.get_source_segment(text, node) or "", "\n".join(lines))
    if way == "asyncio":
        text = re.sub(r"trio\.run\(main, (.*)\)", r"asyncio.run(main(\1))", text)
        return text.replace("import trio\n", "import asyncio\n")
    text = re.sub(r"trio\.run\(main, (.*)\)", r"main(\1)", text)
    text = re.sub(r"\bawait |\basync (?=def|with|for)", "", text)
    return text.replace("import trio\n", "")


def run(script: Path, text: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """A program's output; it must end without an error."""
    script.write_text(text, encoding="utf-8")
    words = ("-W", "error", str(script), *arguments)
    ran = run_python(*words, env=environment or pk_environment(), text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout


def create(kafka: Kafka, *topics: str) -> None:
    with blocking.open_admin(kafka.bootstrap) as admin:
        for topic in topics:
            admin.create_topics([NewTopic(topic, 1)]).value(topic)


def test_the_table_of_operations_names_each() -> None:
    text = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    table = text[text.index("| about | operations |") :].split("\n\n", 1)[0]
    operations = {
        name
        for name, value in inspect.getmembers(Admin)
        if not name.startswith("_") and callable(value) and name != "open"
    }
    assert set(re.findall(r"`(\w+)`", table)) == operations


@pytest.mark.parametrize(
    "installed", ["everything", pytest.param("pk-client", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("heading", FIRST)
def test_the_first_program_sends_a_record_and_reads_it(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], heading: str, installed: str
) -> None:
    topic = fresh("orders")
    create(kafka, topic)
    text = program(heading).replace("orders", topic)
    environment = client_alone([], tmp_path) if installed == "pk-client" else None
    printed = run(tmp_path / "first.py", text, kafka.bootstrap, environment=environment)
    assert printed == f"{topic} 0 0\n0 b'42' b'one'\n"


@pytest.mark.parametrize(
    "way", [*WAYS, pytest.param("trio, of pk-client[schemas]", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("heading", ["## With your own functions", "## With a schema registry"])
def test_the_typed_programs_send_an_order_and_read_it(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], heading: str, way: str
) -> None:
    topic = fresh("orders")
    create(kafka, topic)
    registry = tmp_path / "registry"
    registry.mkdir()
    environment = None
    if way not in WAYS:
        way, environment = "trio", client_alone(["schemas"], tmp_path)
    text = on(way, program(heading)).replace('"orders"', f'"{topic}"')
    arguments = kafka.bootstrap, str(registry)
    printed = run(tmp_path / "typed.py", text, *arguments, environment=environment)
    assert printed == "0 alice Order(item='tea', price=3)\n"


@pytest.mark.parametrize("way", WAYS)
def test_the_spans_of_one_record_are_of_one_trace(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], way: str
) -> None:
    topic = fresh("orders")
    create(kafka, topic)
    text = on(way, program("## Hooks and traces")).replace('"orders"', f'"{topic}"')
    printed = run(tmp_path / "traces.py", text, kafka.bootstrap, topic)
    found = re.findall(r"^\{(.*?)\n\}$", printed, re.MULTILINE | re.DOTALL)
    spans = [json.loads(f"{{{text}\n}}") for text in found]
    send, poll, process = spans
    names = [span["name"] for span in spans]
    assert names == [f"send {topic}", f"poll {topic}", f"process {topic}"]
    assert process["context"]["trace_id"] == send["context"]["trace_id"]
    assert poll["links"][0]["context"]["span_id"] == send["context"]["span_id"]
    assert process["attributes"]["messaging.consumer.group.name"] == topic


@pytest.mark.slow
def test_the_programs_pass_both_type_checkers(tmp_path: Path) -> None:
    """Runs pyright in strict mode, and mypy, as a user does, on the trio, asyncio and blocking
    programs."""
    texts = [program(heading) for heading in FIRST]
    texts += [on(way, program(heading)) for heading in (*PROGRAMS, *PIECES) for way in WAYS]
    names = [f"program_{number}.py" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    settings = {
        "typeCheckingMode": "strict",
        "reportUnusedImport": False,
        "reportUnusedFunction": False,
        "reportUnusedVariable": False,
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


def send(kafka: Kafka, topic: str, *values: bytes) -> None:
    with blocking.open_producer(kafka.bootstrap) as producer:
        producer.send_many(topic, [(None, value) for value in values]).result()


def committed(kafka: Kafka, topic: str, count: int) -> list[bytes | None]:
    """The values of the first `count` records that transactions have committed."""
    config = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    found: list[bytes | None] = []
    with blocking.open_consumer(kafka.bootstrap, config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count:
            found += [record.value for record in consumer.poll()]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_read_process_write_copies_each_record_once(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], way: str
) -> None:
    orders, totals = fresh("orders"), fresh("totals")
    create(kafka, orders, totals)
    text = on(way, program("### Exactly once"))
    text = text.replace('"orders"', f'"{orders}"').replace('"totals', f'"{totals}')
    send(kafka, orders, b"a", b"b", b"c")
    assert run(tmp_path / "totals.py", text, kafka.bootstrap, "3") == "3 records copied\n"
    send(kafka, orders, b"d", b"e")
    assert run(tmp_path / "totals.py", text, kafka.bootstrap, "2") == "2 records copied\n"
    assert committed(kafka, totals, 5) == [b"A", b"B", b"C", b"D", b"E"]


@pytest.mark.parametrize("way", WAYS)
def test_jobs_are_accepted_tried_again_and_rejected(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], way: str
) -> None:
    jobs = fresh("jobs")
    create(kafka, jobs)
    configure_group(kafka, jobs, {"share.auto.offset.reset": "earliest"})
    send(kafka, jobs, b"easy", b"busy", b"broken")
    text = on(way, program("## Share consumer")).replace('"jobs"', f'"{jobs}"')
    printed = run(tmp_path / "jobs.py", text, kafka.bootstrap, "3")
    lines = ["broken reject 1", "busy accept 3", "easy accept 1"]
    assert sorted(printed.splitlines()) == lines


@pytest.mark.parametrize("way", WAYS)
def test_the_transaction_moves_money(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], way: str
) -> None:
    topic = fresh("accounts")
    create(kafka, topic)
    text = on(way, program("## Transactions")).replace('"accounts"', f'"{topic}"')
    run(tmp_path / "transfer.py", text, kafka.bootstrap)
    assert committed(kafka, topic, 2) == [b"-10", b"+10"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("heading", "commits"), [("### At least once", 0), ("### At most once", 4)]
)
def test_a_program_that_fails_reads_again_what_it_should(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], heading: str, commits: int, way: str
) -> None:
    """It fails at the third of four records of one poll."""
    topic = fresh("orders")
    create(kafka, topic)
    send(kafka, topic, b"1", b"2", b"3", b"4")
    with blocking.open_consumer(kafka.bootstrap, {"group.id": topic}) as consumer:
        consumer.commit({TopicPartition(topic, 0): 0})
    text = on(way, program(heading)).replace('"orders"', f'"{topic}"')
    text = text.replace('"billing"', f'"{topic}"')
    printed = run(tmp_path / "reads.py", text, kafka.bootstrap)
    assert printed == "b'1'\nb'2'\nb'3'\nenough\n"
    here = TopicPartition(topic, 0)
    with blocking.open_consumer(kafka.bootstrap, {"group.id": topic}) as consumer:
        offset = consumer.committed([here]).value(here)
    assert offset is not None and offset.offset == commits


@pytest.mark.parametrize("way", WAYS)
def test_the_admin_finds_a_group_and_its_ends(
    kafka: Kafka, tmp_path: Path, fresh: Callable[[str], str], way: str
) -> None:
    topic = fresh("orders")
    text = on(way, program("## Admin")).replace('"orders"', f'"{topic}"')
    text = text.replace('"billing"', f'"{topic}"')
    shown = "        print(answers.errors or 'made', lag.ok, ends.ok)\n"
    place = text.index("\n\ntry:")
    text = text[:place].rstrip() + f"\n{shown}" + text[place:]
    assert "KafkaError(" in run(tmp_path / "admin.py", text, kafka.bootstrap)
    text = text.replace("replication_factor=3", "replication_factor=1")
    assert run(tmp_path / "admin.py", text, kafka.bootstrap) == "made {} {}\n"
