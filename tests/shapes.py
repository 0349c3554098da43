"""Checks the JSON of a command against the schema that the command itself prints."""

import json
from collections.abc import Sequence
from typing import Any

import jsonschema

from pk.cli.command_line.parse import parse
from pk.cli.command_line.schema import schema_of
from pk.cli.command_line.tree import Command


def check_json(words: Sequence[str], printed: bytes | str) -> Any:
    """The parsed output of a command with `-f json` or `-f jsonl`, validated against its `-f
    schema`."""
    parsed = parse(words)
    assert isinstance(parsed.node, Command)
    schema = schema_of(parsed)
    form = parsed.values["format"]
    assert form in ("json", "jsonl"), form
    text = printed.decode() if isinstance(printed, bytes) else printed
    data = [json.loads(line) for line in text.splitlines()] if form == "jsonl" else json.loads(text)
    jsonschema.Draft202012Validator(schema).validate(data)
    return data
