"""The pages about moving from another client: every block of code runs, with the other client and
with pk, and both print the same."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trio
from clients.fixtures import Kafka

from pk.client import NewTopic, open_admin

PAGES = Path(__file__).resolve().parents[2] / "docs/coming-from"

SECTIONS = {
    f"{page.stem}: {section.partition(chr(10))[0]}": re.findall(
        r"```python\n(.*?)```", section, re.DOTALL
    )
    for page in sorted(PAGES.glob("*.md"))
    for section in page.read_text(encoding="utf-8").split("\n## ")[1:]
}
"""Page and heading → the blocks of code below it."""


def program(block: str, servers: str, topic: str, group: int) -> str:
    block = block.replace('"orders"', repr(topic)).replace('"billing"', repr(f"{topic}-{group}"))
    if "await " not in block and "async " not in block:
        return f"servers = {servers!r}\n{block}"
    names = ("consumer",) if "await consumer.commit()" in block and "def " in block else ()
    head = f"import asyncio\nservers = {servers!r}\nasync def main():\n"
    shared = "".join(f"    global {name}\n" for name in names)
    return f"{head}{shared}{textwrap.indent(block, '    ')}\nasyncio.run(main())\n"


@pytest.mark.slow
@pytest.mark.parametrize("section", [name for name, blocks in SECTIONS.items() if blocks])
def test_both_programs_print_the_same(
    kafka: Kafka, tmp_path: Path, fresh_topic: str, section: str
) -> None:
    printed = []
    for number, block in enumerate(SECTIONS[section]):
        script = tmp_path / f"{number}.py"
        script.write_text(program(block, kafka.bootstrap, fresh_topic, number))
        ran = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stderr
        printed.append(re.sub(r"\d+", "N", ran.stdout))
    assert len(set(printed)) == 1, printed


@pytest.fixture
def fresh_topic(kafka: Kafka, request: pytest.FixtureRequest) -> str:
    """A topic of one partition with three records."""
    topic: str = request.getfixturevalue("fresh")("orders")

    async def make() -> None:
        from pk.client import open_producer

        async with open_admin(kafka.bootstrap) as admin:
            await admin.create_topics([NewTopic(topic, 1)])
        async with open_producer(kafka.bootstrap) as producer:
            await producer.send_many(topic, [(None, b"%d" % n) for n in range(3)])

    trio.run(make)
    return topic


def test_a_feature_that_all_others_have_is_here_or_has_a_reason() -> None:
    text = (PAGES / "features.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    compared = [row for row in rows if len(row) == 5]
    assert len(compared) > 30
    for feature, ours, *others in compared:
        if all(other.startswith("yes") for other in others) and not ours.startswith("yes"):
            number = re.fullmatch(r"(?:no|not tested) \((\d)\)", ours)
            assert number is not None and f"\n{number[1]}. " in text, feature
