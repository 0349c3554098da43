"""`pk debug bundle`, `pk api-versions` and `pk version`."""

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Ran
from shapes import check_json

from pk.cli.nouns.debug.redact import is_secret, scrubbed
from pk.core import __version__

Run = Callable[..., Ran]

PLANTED = "planted-7f3a"
LOG = f"""started
sasl.jaas.config=org.apache.kafka.Scram required username="u" password="{PLANTED}";
{{"ssl.key.password": "{PLANTED}", "node": 1}}
Authorization: Bearer {PLANTED}{PLANTED}
fetched https://user:{PLANTED}@registry.example/x
-----BEGIN PRIVATE KEY-----
{PLANTED}
-----END PRIVATE KEY-----
PK_SECRET = '{PLANTED}'
client sent {PLANTED}
stopped
"""


def _members(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_a_bundle_has_no_secrets(at: Run, tmp_path: Path) -> None:
    log, made = tmp_path / "pk.log", tmp_path / "bundle.zip"
    log.write_text(LOG)
    secret = ("-X", f"sasl.password={PLANTED}")
    ran = at("debug", "bundle", "--to", str(made), "--log", str(log), *secret, "-f", "json")
    assert ran.code == 0, ran.err
    members = _members(made)
    assert PLANTED not in "".join(members.values()) + ran.text + ran.err
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    rows = check_json(("debug", "bundle", "-f", "json"), ran.out)
    assert {row["file"]: row["bytes"] for row in rows} == {
        name: len(text.encode()) for name, text in members.items()
    }
    (kept,) = (text for name, text in members.items() if name.startswith("logs/"))
    assert kept.startswith("started\n") and kept.endswith("stopped\n")
    assert json.loads(members["cluster.json"])["brokers"]
    for name in ("versions", "features", "api-versions", "topics", "groups", "configs"):
        assert json.loads(members[f"{name}.json"]) is not None
    again = at("debug", "bundle", "--to", str(made))
    assert (again.code, "exists; give another file" in again.err) == (1, True)


def test_a_bundle_without_a_cluster_says_what_is_missing(pk: Run, tmp_path: Path) -> None:
    made = tmp_path / "bundle.zip"
    ran = pk("debug", "bundle", "--to", str(made), "-b", "127.0.0.1:1")
    assert (ran.code, "Not included: brokers and controller" in ran.err) == (0, True)
    assert set(_members(made)) == {"versions.json", "errors.txt"}
    missing = pk("debug", "bundle", "--to", str(tmp_path / "b"), "--log", "/nowhere/x.log")
    assert (missing.code, (tmp_path / "b").exists()) == (1, False)


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("ssl.keystore.password", "x", True),
        ("listener.name.a.sasl.jaas.config", "x", True),
        ("ssl.keystore.key", "x", True),
        ("delegation.token.max.lifetime.ms", "604800000", False),
        ("password.encoder.iterations", "4096", False),
        ("retention.ms", "1", False),
        ("ssl.key.password", None, False),
    ],
)
def test_which_configs_are_secret(key: str, value: str | None, secret: bool) -> None:
    assert is_secret(key, value) is secret


def test_what_a_log_says_otherwise_is_kept() -> None:
    text = "orders-0: leader 1, epoch 4\npk:// http://host:9092/x\nbasic checks passed\n"
    assert scrubbed(text) == text


def test_apis_of_a_broker(at: Run) -> None:
    rows = check_json(("api-versions", "-f", "json"), at("api-versions", "-f", "json").out)
    (produce,) = (row for row in rows if row["api"] == "Produce")
    assert produce["key"] == 0 and produce["min"] <= produce["used"] <= produce["max"]
    broker = at("brokers", "list", "-f", "json").json[0]["broker"]
    assert at("api-versions", str(broker), "-f", "json").json
    unknown = at("api-versions", "12345")
    assert (unknown.code, "Broker 12345 does not exist" in unknown.err) == (1, True)


def test_versions(pk: Run) -> None:
    rows = {row["name"]: row["version"] for row in pk("version", "-f", "json").json}
    assert rows["pk"] == __version__ and {"python", "platform", "trio"} <= set(rows)
    assert f"pk {__version__} (Python {rows['python']}" in pk("--version").text
