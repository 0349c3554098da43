"""The index of the whole command tree: the content of `tree.json`, which completion, the manual and
the shell read."""

import json
from collections.abc import Sequence
from typing import Any

from pk.cli.command_line.describe import noun_data, numbered
from pk.cli.command_line.kit import load_noun
from pk.cli.command_line.nouns import under
from pk.cli.command_line.parse import root


def whole_tree() -> dict[str, Any]:
    """The whole tree as data for the index."""
    options: list[dict[str, Any]] = []
    group = root()
    keys = dict.fromkeys(under("").values())
    data = {
        "names": ["pk"],
        "help": group.help or "",
        "options": numbered(group.parameters, options),
        "children": [noun_data(key, load_noun(key), options) for key in keys],
    }
    return {"root": data, "options": options}


def _lines(entries: Sequence[Any]) -> str:
    return ",\n".join(json.dumps(each, ensure_ascii=False) for each in entries)


def index() -> str:
    """The current content of `tree.json`: a line for each option and each noun, so that diffs are
    readable."""
    found = whole_tree()
    root = found["root"]
    head = json.dumps({k: v for k, v in root.items() if k != "children"}, ensure_ascii=False)[:-1]
    return (
        f'{{"options": [\n{_lines(found["options"])}\n],\n"root": {head}, "children": [\n'
        f"{_lines(root['children'])}\n]}}}}\n"
    )
