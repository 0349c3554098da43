"""Installations with few extras: commands that need no missing extra work, and the others say which
extra they need."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.pk_broker import pk_command
from installed import with_extras

Run = Callable[..., Any]
Fresh = Callable[[str], str]

IMPORTS = """
import importlib, json, pkgutil, sys
from pk.cli.exits import CommandError
missing = {}
for area in sys.argv[1:]:
    folder = importlib.import_module(area)
    for module in pkgutil.walk_packages(folder.__path__, f"{area}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as e:
            missing[module.name] = e.name
        except CommandError:
            pass  # it names the extra
print(json.dumps(missing))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extras", "areas"), [([], ["pk.cli"]), (["spark"], ["pk.spark", "pk.cli.nouns.pipeline"])]
)
def test_modules_load_without_the_other_extras(
    extras: list[str], areas: list[str], tmp_path: Path
) -> None:
    """A module that a command always loads must not need a package that only some of its uses
    need."""
    if extras:
        pytest.importorskip("pyspark")
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTS, *areas],
        env=with_extras(extras, tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert json.loads(ran.stdout) == {}, ran.stderr


def run(extras: list[str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command, with pk installed with `extras`."""
    return subprocess.run(
        pk_command(*words),
        cwd=folder,
        env=with_extras(extras, folder),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_pipeline_without_a_registry_needs_spark_alone(
    at: Run, fresh: Fresh, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    topic = fresh("orders")
    at("topics", "create", topic, "-p", "1")
    at("produce", topic, '{"id": 1}')
    assert at("spark", "pipeline", "init", str(tmp_path / "p.toml"), "--topic", topic).code == 0
    for words in (["check", "p.toml"], ["run", "p.toml", "--once"]):
        ran = run(["spark"], tmp_path, "spark", "pipeline", *words)
        assert ran.returncode == 0, ran.stderr


AVRO = """\
name = "p"
checkpoint = "cp"

[schema_registry]
url = "REGISTRY"

[[source]]
name = "orders"
topic = "orders"
value = "avro"

[[sink]]
from = "orders"
topic = "out"
format = "avro"
"""


@pytest.mark.slow
def test_a_pipeline_with_a_registry_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    kept = tmp_path / "schemas" / "orders-value"
    kept.mkdir(parents=True)
    (kept / "v1-id7.avsc").write_text(
        '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    )
    (tmp_path / "p.toml").write_text(AVRO.replace("REGISTRY", str(tmp_path / "schemas")))
    ran = run(["spark"], tmp_path, "spark", "pipeline", "check", "p.toml")
    assert ran.returncode == 1
    assert "pip install 'pk-client[schemas]'" in ran.stderr, ran.stderr


@pytest.mark.parametrize(("verb", "code"), [("check", 1), ("run", 78)])
def test_a_pipeline_without_spark_names_the_extra(verb: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(AVRO.replace("REGISTRY", "http://127.0.0.1:1"))
    ran = run([], tmp_path, "spark", "pipeline", verb, "p.toml")
    assert ran.returncode == code
    assert "pip install 'pk-broker[spark]'" in ran.stderr, ran.stderr


def test_decoding_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    words = ["consume", "t", "--decode", "avro", "--schema-registry", "schemas"]
    ran = run([], tmp_path, *words)
    assert ran.returncode == 1
    assert "pip install 'pk-client[schemas]'" in ran.stderr, ran.stderr


@pytest.mark.parametrize("words", ["up --port 0 --memory", "up --port 0 --memory --brokers 2"])
def test_up_with_a_registry_names_the_extra_before_it_starts(words: str, tmp_path: Path) -> None:
    ran = run([], tmp_path, *words.split(), "--schema-registry", "--schema-registry-port=0")
    assert ran.returncode == 1
    assert "pip install 'pk-broker[schemas]'" in ran.stderr, ran.stderr
    assert ran.stdout == ""
