"""`pk schema` against a registry of pk and a directory of files, `pk schema-registry start`, `pk up
--schema-registry`."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import authority
from clients.pk_broker import pk_environment, running
from schemas.running import Running, running_registry

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_registry() as found:
        yield found


@pytest.fixture(params=["url", "directory"])
def at_registry(
    request: pytest.FixtureRequest,
    served: Running,
    pk: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """`pk` with a registry of either kind."""
    (tmp_path / "kept").mkdir()
    where = served.url if request.param == "url" else str(tmp_path / "kept")
    monkeypatch.setenv("PK_SCHEMA_REGISTRY", where)
    return pk


def avsc(path: Path, *fields: tuple[str, Any]) -> str:
    """A file with a record; a field with a default of 0, or without one."""
    listed = [{"name": n, "type": "int"} | ({} if d is None else {"default": d}) for n, d in fields]
    path.write_text(json.dumps({"type": "record", "name": "R", "fields": listed}))
    return str(path)


def test_a_schema_comes_changes_and_goes(
    at_registry: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pk, subject = at_registry, f"s-{request.node.callspec.id}"
    one, two = (
        avsc(tmp_path / "1.avsc", ("a", None)),
        avsc(tmp_path / "2.avsc", ("a", None), ("b", 0)),
    )
    bad = avsc(tmp_path / "3.avsc", ("a", None), ("c", None))
    assert (
        pk("schema", "add", subject, one, "-d", "-f", "json").json[0]["result"] == "would be added"
    )
    refused = pk("schema", "add", subject, one)
    assert refused.code == 5, refused.err
    added = pk("schema", "add", subject, one, "-y", "-f", "json")
    assert added.code == 0, added.err
    assert (added.json[0]["version"], added.json[0]["result"]) == (1, "added")
    assert (
        pk("schema", "add", subject, one, "-y", "-f", "json").json[0]["result"] == "already there"
    )
    checked = pk("schema", "check", subject, bad, "-f", "json")
    assert checked.code == 1 and not checked.json[0]["compatible"]
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in checked.json[0]["reason"]
    assert pk("schema", "check", subject, two, "-f", "json").json == [
        {"subject": subject, "compatible": True, "reason": None}
    ]
    assert pk("schema", "add", subject, bad, "-y").code == 1
    assert pk("schema", "add", subject, two, "-y").code == 0
    rows = pk("schema", "list", f"{subject}.*", "--versions", "-f", "json").json
    assert [(row["version"], row["type"], row["compatibility"]) for row in rows] == [
        (1, "AVRO", "BACKWARD"),
        (2, "AVRO", "BACKWARD"),
    ]
    assert [row["version"] for row in pk("schema", "list", subject, "-f", "json").json] == [2]
    shown = pk("schema", "show", subject, "--version", "1")
    assert json.loads(shown.out)["fields"] == [{"name": "a", "type": "int"}]
    assert pk("schema", "show", str(rows[0]["id"])).out == shown.out
    changed = pk("schema", "diff", subject).text
    assert '+      "name": "b",' in changed and f"--- {subject} version 1" in changed
    assert '+      "name": "c",' in pk("schema", "diff", subject, bad).text
    tried = pk("schema", "delete", subject, "--version", "1", "-d", "-f", "json")
    assert [row["result"] for row in tried.json] == ["would be deleted"]
    assert pk("schema", "delete", subject).code == 5
    gone = pk("schema", "delete", subject, "--version", "1", "-y", "-f", "json")
    assert [(row["version"], row["result"]) for row in gone.json] == [(1, "deleted")]
    assert pk("schema", "delete", subject, "-y").code == 0
    missing = pk("schema", "show", subject)
    said = f"Subject '{subject}' not found (40401); "
    assert (missing.code, missing.err.startswith(said)) == (1, True), missing.err


def test_schemas_of_other_languages_and_references(
    at_registry: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pk, name = at_registry, request.node.callspec.id
    (tmp_path / "inner.proto").write_text('syntax = "proto3"; package p; message Inner {}')
    (tmp_path / "outer.proto").write_text(
        'syntax = "proto3"; import "inner.proto"; message Outer { p.Inner inner = 1; }'
    )
    (tmp_path / "s.json").write_text('{"type": "object"}')
    assert pk("schema", "add", f"i-{name}", str(tmp_path / "inner.proto"), "-y").code == 0
    outer = str(tmp_path / "outer.proto")
    assert "inner.proto" in pk("schema", "add", f"o-{name}", outer, "-y").err
    words = ("--reference", f"inner.proto=i-{name}:1")
    added = pk("schema", "add", f"o-{name}", outer, "-y", *words)
    assert added.code == 0, added.err
    assert pk("schema", "list", f"o-{name}", "-f", "json").json[0]["references"] == 1
    assert pk("schema", "add", f"j-{name}", str(tmp_path / "s.json"), "-y").code == 0
    assert pk("schema", "list", f"j-{name}", "-f", "json").json[0]["type"] == "JSON"
    held = pk("schema", "delete", f"i-{name}", "-y")
    assert held.code == 1 and "42206" in held.err


def test_which_registry(
    pk: Run, served: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    none = pk("schema", "list")
    assert none.code == 2 and "No schema registry is named" in none.err
    pk("profile", "add", "dev", "-b", served.bootstrap, "--schema-registry", served.url)
    assert pk("schema", "list", "--profile", "dev").code == 0
    pk("profile", "add", "dev", "--guard", "readonly")
    one = avsc(tmp_path / "1.avsc", ("a", None))
    refused = pk("schema", "add", "readonly", one, "-y", "--profile", "dev")
    assert refused.code == 5 and "read-only" in refused.err
    secret = pk("schema", "list", "--schema-registry", "http://anna:secret@127.0.0.1:1")
    assert secret.code == 2 and "PK_SCHEMA_REGISTRY_USER" in secret.err
    silent = pk("schema", "list", "--schema-registry", "http://127.0.0.1:1")
    assert silent.code == 3
    assert silent.err == "http://127.0.0.1:1 does not answer: connection refused.\n"
    broker = pk("schema", "list", "--schema-registry", f"http://{served.bootstrap}")
    closed = f"http://{served.bootstrap} closed the connection: no answer.\n"
    assert (broker.code, broker.err) == (3, closed)
    monkeypatch.setenv("PK_SCHEMA_REGISTRY", served.url)
    assert pk("schema", "add", "orders-value", one, "-y").code == 0
    for command in ("show", "diff", "delete"):
        missing = pk("schema", command, "order-value")
        assert (missing.code, "did you mean orders-value?" in missing.err) == (1, True), missing.err
    monkeypatch.setenv("PK_SCHEMA_REGISTRY", str(tmp_path / "nowhere"))
    assert pk("schema", "list").code == 3


def test_a_registry_in_the_foreground(served: Running) -> None:
    words = ("schema-registry", "start", "-b", served.bootstrap, "--port", "0", "--topic", "other")
    with running(*words, "-g", "other") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.fullmatch(r"Schema registry is ready after \d+ ms, at (\S+)\n", line)
        assert url is not None, line
        with urllib.request.urlopen(f"{url[1]}/subjects", timeout=60) as answer:
            assert json.load(answer) == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_registry_with_a_certificate_that_has_expired_warns(
    served: Running, tmp_path: Path
) -> None:
    signer = authority()
    key = signer.sign("CN=registry", "127.0.0.1", days=-2).write(tmp_path / "key.pem")
    words = ("schema-registry", "start", "-b", served.bootstrap, "--port", "0", "--topic", "other")
    with running(*words, "-g", "other", "--tls-key", str(key)) as process:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline().split()[-1]
        trusting = ssl.create_default_context(cadata=signer.pem)
        with pytest.raises(urllib.error.URLError, match="certificate has expired"):
            urllib.request.urlopen(f"{url}/subjects", timeout=60, context=trusting)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        said = process.stderr.read()
        assert f"the certificate in {key} (--tls-key) expired on " in said
        assert "clients that verify it cannot connect" in said


def test_up_serves_a_registry_too() -> None:
    served = ("--schema-registry", "--schema-registry-port=0")
    with running("up", "--memory", "--port", "0", *served) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Broker 1 is ready")
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{url}/subjects", timeout=60) as answer:
            assert json.load(answer) == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_up_refuses_what_it_cannot_serve(pk: Run) -> None:
    assert pk("up", "--schema-registry", "--schema-registry-port=70000").code == 2
    assert pk("up", "--secure", "--schema-registry").code == 2


@pytest.mark.parametrize("words", ["schema list", "schema-registry start"])
def test_what_is_missing_is_named(words: str) -> None:
    """Without the extra: h11 is one of its libraries."""
    program = (
        "import sys; sys.modules['h11'] = None; from pk.cli.main import main; "
        f"main({words.split()!r})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=pk_environment() | {"PK_SCHEMA_REGISTRY": "http://127.0.0.1:1"},
    )
    assert "pip install 'pk-broker[schemas]'" in ran.stderr, ran.stderr
