"""A broker under hostile connections that speak TLS, stop half-way through a login, or guess
passwords."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from certificates import authority
from clients.configured_broker import ConfiguredBroker, configured_broker
from clients.fixtures import Kafka
from clients.topics import create_topic
from oauth_provider import Provider

from hostile.attack import BAD, HANDSHAKE, OAUTH, SASL, SASL_TLS, SILENT, STALLED, TLS, TOKEN
from hostile.test_hostile import ATTACK_TIMEOUT_S, RSS_BYTES_MAX, round_trips

LOGIN = "listener.name.clients.plain.sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
GUESSERS = 50


def secured(folder: Path, mode: str) -> tuple[str, Mapping[str, str]]:
    """The protocol of the listener that is attacked, and its keys."""
    tls: Mapping[str, str] = {}
    if mode in (TLS, HANDSHAKE, SASL_TLS):
        store = authority().sign("CN=127.0.0.1", "127.0.0.1").write(folder / "broker.pem")
        tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    if mode in (TLS, HANDSHAKE):
        return "SSL", tls
    jwks = folder / "jwks.json"
    jwks.write_text(json.dumps(Provider("ES256").jwks))
    return "SASL_SSL" if tls else "SASL_PLAINTEXT", {
        **tls,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "delegation.token.secret.key": "shared",
        LOGIN: f'{PLAIN_MODULE} user_admin="hush-{time.time_ns()}";',
    }


class Bystander:
    """Another client's round trips during the attack, on the plain listener."""

    def __init__(self, broker: ConfiguredBroker, folder: Path) -> None:
        self._topic = create_topic(Kafka("pk", broker.bootstrap, folder), "bystander")
        self._over = threading.Event()
        self.times: list[float] = []
        self._thread = threading.Thread(
            target=lambda: self.times.extend(round_trips(broker.bootstrap, self._topic, self._over))
        )
        self._thread.start()

    def end(self) -> tuple[float, float]:
        """The median and the 99th percentile, in ms."""
        self._over.set()
        self._thread.join(60)
        assert self.times and not self._thread.is_alive()
        ordered = sorted(self.times)
        p50, p99 = (ordered[int(len(ordered) * part)] * 1000 for part in (0.5, 0.99))
        return p50, p99


@contextmanager
def hostile(module: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A hostile process; its standard input ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [TLS, HANDSHAKE, SASL, SASL_TLS, OAUTH, TOKEN])
def test_three_thousand_hostile_connections(
    tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with configured_broker(tmp_path, *secured(tmp_path, mode)) as broker:
        host, _, port = broker.other.rpartition(":")
        bystander, most = Bystander(broker, tmp_path), broker.rss_bytes
        with hostile("hostile.attack", host, port, mode) as attack:
            assert attack.stdin is not None and attack.stdout is not None
            stdout, answer = attack.stdout, list[str]()
            reader = threading.Thread(target=lambda: answer.append(stdout.readline()))
            reader.start()
            deadline = time.monotonic() + ATTACK_TIMEOUT_S
            while reader.is_alive() and time.monotonic() < deadline:
                reader.join(0.05)
                most = max(most, broker.rss_bytes)
            attack.stdin.close()
        p50, p99 = bystander.end()
        seen = json.loads(answer[0])
        assert (seen["silent"], seen["stalled"]) == (SILENT, STALLED)
        assert seen["closed by the broker"] + seen.get("left waiting", 0) > BAD // 2, seen
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
        assert most < 2 * RSS_BYTES_MAX, "a TLS session takes some 40 kB"
    with capsys.disabled():
        print(
            f"\nunder attack ({mode}): {len(bystander.times)} round trips of another client, p50 "
            f"{p50:.2f} ms, p99 {p99:.2f} ms; broker's memory at most {most / 1e6:.0f} MB; {seen}"
        )


def guess(folder: Path, seconds: float) -> tuple[dict[str, int], float, int]:
    """Guess passwords for this long. Return the results, another client's p99 in ms, and its round
    trips."""
    with configured_broker(folder, *secured(folder, SASL)) as broker:
        host, _, port = broker.other.rpartition(":")
        bystander = Bystander(broker, folder)
        with hostile("hostile.guessing", host, port, str(GUESSERS)) as guessing:
            assert guessing.stdin is not None and guessing.stdout is not None
            assert guessing.stdout.readline() == "guessing\n"
            over = threading.Event()
            over.wait(seconds)
            guessing.stdin.close()
            seen = json.loads(guessing.stdout.readline())
        _, p99 = bystander.end()
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
        lines = broker.log_text.count("Failed authentication")
        assert lines <= 10 * (seconds + 60), "who guesses must not fill the log"
        return seen, p99, len(bystander.times)


@pytest.mark.slow
def test_a_minute_of_guessed_passwords(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen, p99, count = guess(tmp_path, 60)
    assert set(seen) <= {"refused", "closed"} and seen["refused"] > GUESSERS
    with capsys.disabled():
        print(f"\n{seen} guesses in 60 s: {count} round trips of another client, p99 {p99:.2f} ms")


@pytest.mark.thorough
def test_some_guessed_passwords(tmp_path: Path) -> None:
    seen, _, count = guess(tmp_path, 0.5)
    assert set(seen) <= {"refused", "closed"} and count > 0
