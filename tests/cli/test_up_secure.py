"""`pk up --secure`: pk and other clients can log in at once, and nobody else can."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from terminal import Terminal
from up_process import ROOT, Cluster

from pk.cli.runtime.settings import read_properties
from pk.cli.up.certificates import Authority

Run = Callable[..., Any]
SECURITY_CHECKS = tuple(
    f"--check={name}"
    for name in (
        "certificates-end",
        "public-plaintext",
        "everyone-may-write",
        "acls-without-resource",
        "users-without-password",
    )
)


def librdkafka_config(folder: Path) -> dict[str, Any]:
    """The written file, as a program that uses confluent-kafka reads it."""
    return dict(read_properties(str(folder / "librdkafka.properties")))


def produce_and_consume(folder: Path, topic: str) -> None:
    config = librdkafka_config(folder)
    failed: list[object] = []
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"secret", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0 and failed == [None]
    consumer = confluent_kafka.Consumer(
        {**config, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(60)
    assert message is not None and message.value() == b"secret", message and message.error()
    consumer.close()


def test_a_broker_its_profile_and_other_clients(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    folder = data / "secure"
    first = cluster("--secure", "--data", str(data))
    created = pk("--profile", "secure", "topics", "create", "t", "-y")
    assert created.code == 0, created.err + "".join(first.said)
    assert pk("--profile", "secure", "users", "list", "-f", "csv").lines[1:] == [
        "admin,SCRAM-SHA-512,4096"
    ]
    produce_and_consume(folder, "t")
    config = pk("topics", "list", "--config-file", str(folder / "client.properties"))
    assert config.code == 0 and "t " in config.text, config.err

    # No client gets in without TLS or a login, or may do anything that no rule allows.
    assert pk("topics", "list", "-b", first.bootstrap).code == 3
    trust = [f"-Xssl.truststore.location={folder / 'ca.pem'}", "-Xssl.truststore.type=PEM"]
    at = ["-b", first.bootstrap, "-Xsecurity.protocol=SASL_SSL", *trust]
    bob = ["-Xsasl.mechanism=SCRAM-SHA-512", "-Xsasl.username=bob", "-Xsasl.password=bobby"]
    assert pk("topics", "list", *at, *bob).code == 4
    added = pk("--profile", "secure", "users", "add", "bob", "-y", stdin=b"bobby\n")
    assert added.code == 0, added.err
    refused = pk("produce", "t", *at, *bob, stdin=b"x\n")
    assert refused.code == 4 and "TOPIC_AUTHORIZATION_FAILED" in refused.err.upper(), refused.err

    sound = pk("--profile", "secure", "doctor", "--fail-on", "note", *SECURITY_CHECKS)
    assert sound.code == 0, sound.text + sound.err
    allowed = ("acls", "add", "--allow", "*", "--operation", "write", "--topic", "tt", "-y")
    assert pk("--profile", "secure", *allowed).code == 0
    ill = pk("--profile", "secure", "doctor", *SECURITY_CHECKS, "-f", "json")
    assert {one["check"] for one in ill.json} == {"everyone-may-write", "acls-without-resource"}

    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    said = "".join(first.said)
    assert kept["admin-password"].decode().strip() not in said
    assert first.end() == -signal.SIGINT

    # A second start uses them again, also without --secure.
    second = cluster("--data", str(data))
    for name in ("ca.pem", "ca-key.pem", "node-1.pem", "admin-password", "broker-password"):
        assert (folder / name).read_bytes() == kept[name], name
    listed = pk("--profile", "secure", "topics", "list", "-f", "name")
    assert "t" in listed.lines, listed.err + "".join(second.said)
    assert second.end() == -signal.SIGINT


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_three_brokers_and_kcat(cluster: Callable[..., Cluster], pk: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = cluster("--brokers", "3", "--secure", "--data", str(data))
    assert "Cluster of 3 brokers is ready" in up.line, up.said
    created = pk("--profile", "secure", "topics", "create", "t", "-r", "3", "-p", "3", "-y")
    assert created.code == 0, created.err
    file = str(data / "secure" / "librdkafka.properties")
    words = ["kcat", "-F", file, "-t", "t", "-p", "0"]
    subprocess.run([*words, "-P", "-X", "acks=all"], input=b"kcat", check=True, timeout=60)
    read = subprocess.run(
        [*words, "-C", "-o", "beginning", "-e", "-q"], capture_output=True, check=True, timeout=60
    )
    assert read.stdout == b"kcat\n"
    isr = pk("--profile", "secure", "isr", "-f", "jsonl")
    assert isr.code == 0, isr.err
    assert up.end() == -signal.SIGINT


def test_on_a_terminal_without_a_directory(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    up = terminal("up", "--secure", "--port", "0", columns=300)  # however long TMPDIR is
    screen = up.wait_for(re.compile(r"kcat -F \S+/librdkafka.properties"))
    assert "pk --profile secure topics list" in screen
    used = terminal("--profile", "secure", "users", "list", columns=100)
    assert used.end() == 0
    assert "admin" in used.scrollback()
    profiles = tmp_path / "xdg_config_home" / "pk" / "profiles.toml"
    assert "profiles.secure" in profiles.read_text()
    up.keys("ctrl-c")
    assert up.end() == -signal.SIGINT
    assert "profiles.secure" not in profiles.read_text(), "it names files that are gone"


def test_from_nothing_in_five_commands(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    """Those of docs/security.md, in their order; and a client without a certificate is refused."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition("## A secure broker in five commands")[2]
    block = section.partition("```console\n")[2].partition("```")[0]
    first, *others = [line.removeprefix("$ pk ") for line in block.splitlines()]
    assert len(others) == 4
    data = str(tmp_path / "data")
    up = cluster(*shlex.split(first.replace("./data", data))[1:])
    for line in others:
        words = shlex.split(line)
        agreed = () if words[1] == "check" else ("-y",)
        ran = pk(*words, *agreed, stdin=b"wonder\n")
        assert ran.code == 0, (line, ran.err, up.said)
    folder = Path(data, "secure")
    produce_and_consume(folder, "orders")
    login = ["-Xsecurity.protocol=SASL_SSL", "-Xsasl.mechanism=SCRAM-SHA-512"]
    alice = [*login, "-Xsasl.username=alice", "-Xsasl.password=wonder", "-b", up.bootstrap]
    trust = [f"-Xssl.truststore.location={folder / 'ca.pem'}", "-Xssl.truststore.type=PEM"]
    key = [f"-Xssl.keystore.location={folder / 'client.pem'}", "-Xssl.keystore.type=PEM"]
    produced = pk("produce", "orders", *alice, *trust, *key, stdin=b"x\n")
    assert produced.code == 0, produced.err
    refused = pk("produce", "orders", *alice, *trust, stdin=b"x\n")
    assert refused.code == 3 and "but this client does not" not in refused.err, refused.err
    assert up.end() == -signal.SIGINT


def test_keys_that_it_sets_are_refused(pk: Run, tmp_path: Path) -> None:
    for key in ("super.users=User:me", "listeners=PLAINTEXT://:0"):
        for count in ("1", "3"):
            words = ("up", "--secure", "--brokers", count, "--data", str(tmp_path / "d"))
            ran = pk(*words, "-X", key)
            assert ran.code == 2 and key.partition("=")[0] in ran.err, ran.err


def test_a_profile_of_the_users_own_stays(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    assert pk("profile", "add", "secure", "-b", "elsewhere:9092").code == 0
    up = cluster("--secure", "--data", str(tmp_path / "data"))
    line = up.wait_for("--config-file")
    assert "stays as it is" in line
    assert "elsewhere:9092" in pk("profile", "show", "secure").text
    assert up.end() == -signal.SIGINT


def test_certificates_are_renewed_for_another_authority(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    key_store = tmp_path / "node.pem"
    Authority.in_directory(str(one)).give(str(key_store), "node-1")
    first = key_store.read_bytes()
    Authority.in_directory(str(one)).give(str(key_store), "node-1")
    assert key_store.read_bytes() == first
    Authority.in_directory(str(other)).give(str(key_store), "node-1")
    assert key_store.read_bytes() != first
