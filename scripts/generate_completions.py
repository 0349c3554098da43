"""Generates the files for completion: completions/pk.bash, pk.zsh and pk.fish, the table of config
keys, which completion reads instead of importing them (cli/config_keys/words.tsv), and the tree of
commands (cli/command_line/tree.json). A test fails if they are stale.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "path"))

from pk.cli.command_line.tree_index import index
from pk.cli.nouns.completion.completion import SCRIPTS
from pk.core.config import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from pk.core.config.keys import Key, Type
from pk.net.client.common_config import ConfigKey
from pk.net.client.config import AdminConfig, ConsumerConfig, ProducerConfig, keys

_KEYS: Mapping[str, Mapping[str, Key]] = {
    "topic": TOPIC_KEYS,
    "broker": BROKER_KEYS,
    "group": GROUP_KEYS,
    "client-metrics": CLIENT_METRICS_KEYS,
}
_CLIENTS = {"admin": AdminConfig, "producer": ProducerConfig, "consumer": ConsumerConfig}


def _values(key: Key) -> str:
    if key.type is Type.BOOLEAN:
        return "true,false"
    if not key.valid or ".." in key.valid or key.valid in ("nonempty", "nonzero"):
        return ""
    return key.valid.lstrip("~")


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].strip().rstrip(".").replace("\t", " ")


def _client_keys() -> Iterator[tuple[str, str, str, str, str]]:
    owners: dict[str, list[str]] = {}
    fields: dict[str, ConfigKey] = {}
    for owner, cls in _CLIENTS.items():
        for name, field in keys(cls).items():
            owners.setdefault(name, []).append(owner)
            fields[name] = field
    for name in sorted(fields):
        default = fields[name].default
        values = ",".join(fields[name].one_of)
        if isinstance(default, bool):
            default, values = str(default).lower(), "true,false"
        elif isinstance(default, tuple):
            default = ",".join(default)
        every = len(owners[name]) == len(_CLIENTS)
        about = "every client" if every else " and ".join(owners[name])
        yield "client", name, "-" if default is None else str(default), values, f"of {about}"


def config_words() -> str:
    """Return the table that `pk.cli.config_keys.words` reads."""
    lines: list[tuple[str, ...]] = []
    for kind, table in _KEYS.items():
        for key in table.values():
            default = "-" if key.default is None else key.default
            lines.append((kind, key.name, default, _values(key), _first_sentence(key.doc)))
    lines += _client_keys()
    return "".join("\t".join(line) + "\n" for line in lines)


def files() -> dict[Path, str]:
    """Return each generated file and its content."""
    found = {ROOT / "completions" / f"pk.{shell}": script for shell, script in SCRIPTS.items()}
    return {
        **found,
        ROOT / "cli" / "config_keys" / "words.tsv": config_words(),
        ROOT / "cli" / "command_line" / "tree.json": index(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
