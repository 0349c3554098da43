"""pk's Avro compared with Apache's own library: parsing, the text of schemas, and the answers for
each pair."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from clients.apache_kafka import avro_jars, java_command
from schemas.avro_pairs import PAIRS, Maker, asked
from schemas.test_avro import GOLDEN, answers

pytestmark = pytest.mark.peer


def ask_java(pairs: list[Any]) -> list[dict[str, Any]]:
    """The answers of Apache's library for each pair."""
    program = str(Path(__file__).with_name("AvroAnswers.java"))
    ran = subprocess.run(
        java_command(program, more_jars=(avro_jars(),)),
        input="".join(json.dumps(asked(pair)) + "\n" for pair in pairs),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_the_golden_answers_are_those_of_apaches_library() -> None:
    found = {name: answer for (name, *_), answer in zip(PAIRS, ask_java(PAIRS), strict=True)}
    if os.environ.get("PK_WRITE_GOLDEN"):
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    assert json.loads(GOLDEN.read_text()) == found


def test_random_pairs_are_judged_as_by_apaches_library() -> None:
    pairs = [Maker(seed).pair() for seed in range(1000)]
    for seed, (pair, expected) in enumerate(zip(pairs, ask_java(pairs), strict=True)):
        assert answers(pair) == expected, f"seed {seed}: {asked(pair)}"
