"""Our verdicts on JSON Schema and protobuf beside libraries that others wrote: jsoncompat, and
Buf's rules of what breaks the wire format. Each difference is in a table here, with its reason.

(test_avro_peer.py has Avro.)
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from compatibility.clients import MissingError, install_node_packages, need
from compatibility.main import builds
from schemas import json_pairs, protobuf_pairs

pytestmark = pytest.mark.peer

SOURCES: Final = Path(__file__).with_name("others")
ANSWER_S: Final = 600.0

UNDECLARED: Final = "jsoncompat does not see that an undeclared property could hold anything before"
A_DEFAULT: Final = "Confluent's registry takes a default as the value of a property that is missing"
DEPENDENCIES: Final = "jsoncompat reads draft 2020-12, which has no `dependencies`"
JSON_OTHERWISE: Final[Mapping[str, str]] = {
    "property added to an open object": UNDECLARED,
    "property added that is not covered": UNDECLARED,
    "further properties narrowed": UNDECLARED,
    "further properties changed": UNDECLARED,
    "false property removed from a closed object": "no object has such a property before or after, "
    "which jsoncompat does not see",
    "required property with a default added to a closed object": A_DEFAULT,
    "property with a default made required": A_DEFAULT,
    "dependency added": DEPENDENCIES,
    "dependency extended": DEPENDENCIES,
    "dependent schema added": DEPENDENCIES,
    "any of to one of": "the alternatives exclude each other, so any of them is one of them; "
    "Confluent's registry looks at the word",
}
"""Pair → why jsoncompat says the opposite."""

TUPLES: Final = "jsoncompat reads draft 2020-12, where a list of `items` is `prefixItems`"
JSON_UNKNOWN: Final[Mapping[str, str]] = {
    "title, description, default and id": "jsoncompat reads no `$id`",
    "item added to an open array": TUPLES,
    "item removed from an open array": TUPLES,
    "item added to a closed array": TUPLES,
    "item removed from a closed array": TUPLES,
}
"""Pair → why jsoncompat cannot tell."""

BUF: Final = """\
version: v2
breaking:
  use: [WIRE, PACKAGE_MESSAGE_NO_DELETE]
  # Confluent's registry does not ask that the numbers of removed fields are reserved.
  except:
    - FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED
    - ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED
"""
PROTOBUF_OTHERWISE: Final[Mapping[str, str]] = {
    "enum to int32": "both are varints on the wire; Buf asks for the same enum",
    "map removed": "to Buf a map's entry is a message, which goes",
    "string made repeated": "a reader takes the last of several values; Buf allows no change from "
    "one to many",
    "field moved to a new oneof": "a oneof of one field is that field; Buf looks at its name",
    "field removed from a oneof": "a rule of Confluent's: the reader does not learn which was set",
}
"""Pair → why Buf says the opposite."""


@pytest.fixture(scope="module")
def others() -> Path:
    """The folder in which both are installed."""
    folder = builds() / "schemas"
    try:
        install_node_packages(SOURCES, folder)
        need("node")
    except MissingError as error:
        pytest.skip(str(error))
    return folder


def compare(
    ours: Mapping[str, bool], theirs: Mapping[str, bool | str], otherwise: Mapping[str, str]
) -> Iterator[str]:
    """The answers that differ from the table of differences."""
    for name, allowed in ours.items():
        answer = theirs[name]
        if isinstance(answer, bool) and (answer != allowed) != (name in otherwise):
            yield f"{name}: {allowed} here, {answer} there"
    yield from (f"{name}: no such pair" for name in otherwise.keys() - ours.keys())


def test_json_schemas_beside_jsoncompat(others: Path) -> None:
    asked = "".join(json.dumps({"old": o, "new": n}) + "\n" for _, o, n, _ in json_pairs.PAIRS)
    ran = subprocess.run(
        ["node", str(others / "json_answers.js")],
        input=asked,
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        check=True,
    )
    answers = map(json.loads, ran.stdout.splitlines())
    theirs = {pair[0]: answer for pair, answer in zip(json_pairs.PAIRS, answers, strict=True)}
    assert {n for n, answer in theirs.items() if isinstance(answer, str)} == set(JSON_UNKNOWN)
    ours = {name: not rule for name, _, _, rule in json_pairs.PAIRS}
    assert list(compare(ours, theirs, JSON_OTHERWISE)) == []


def in_package(text: str, name: str) -> str:
    """The file, in a package with this name instead of in none, or in one within it."""
    if "\npackage " in text:
        return text.replace("\npackage ", f"\npackage {name}.")
    syntax, _, rest = text.partition("\n")
    return f"{syntax}\npackage {name};\n{rest}"


def test_protobuf_schemas_beside_buf(others: Path, tmp_path: Path) -> None:
    """Buf is asked once, with each pair in a package of its own."""
    for number, (_, old, new, _) in enumerate(protobuf_pairs.PAIRS):
        for folder, text in (("old", old), ("new", new)):
            (tmp_path / folder / f"pair{number}").mkdir(parents=True)
            file = tmp_path / folder / f"pair{number}" / "m.proto"
            file.write_text(in_package(text, f"pair{number}"))
    for folder in ("old", "new"):
        (tmp_path / folder / "buf.yaml").write_text(BUF)
    buf = str(others / "node_modules" / ".bin" / "buf")
    words = [buf, "breaking", "new", "--against", "old", "--error-format", "json"]
    ran = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    assert ran.returncode == 100, ran.stderr  # some rules are broken
    # A package that is gone has no file, but its name is in the message.
    broken = {int(re.findall(r"pair(\d+)", line)[0]) for line in ran.stdout.splitlines()}
    theirs: dict[str, bool | str] = {
        pair[0]: number not in broken for number, pair in enumerate(protobuf_pairs.PAIRS)
    }
    ours = {name: not rule for name, _, _, rule in protobuf_pairs.PAIRS}
    assert list(compare(ours, theirs, PROTOBUF_OTHERWISE)) == []
