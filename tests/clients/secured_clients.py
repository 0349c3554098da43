"""Clients of others, each of which writes one value through a secured listener and reads it back.

A way is given by the keys of Java's clients (`secured.ways_of`); each function says them in its
client's own words. Each raises an error if it fails.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiokafka
import aiokafka.abc
import confluent_kafka
import kafka
import kafka.net.sasl.oauth
from oauth_provider import CLIENT_ID, CLIENT_SECRET

from clients.secured import TOPIC, Secured

TIMEOUT_S: Final = 120.0
USER, PASSWORD = "alice", "wonder"
Keys = dict[str, str]
Client = Callable[[Secured, Keys, str], None]
"""(broker, keys of one way, value)."""


def _librdkafka_keys(keys: Keys) -> dict[str, Any]:
    how: dict[str, Any] = {
        "bootstrap.servers": keys["bootstrap.servers"],
        "security.protocol": keys["security.protocol"],
    }
    if "ssl.truststore.location" in keys:
        how["ssl.ca.location"] = keys["ssl.truststore.location"]
    if "ssl.keystore.location" in keys:
        how["ssl.certificate.location"] = keys["ssl.keystore.location"]
        how["ssl.key.location"] = keys["ssl.keystore.location"]
    if (mechanism := keys.get("sasl.mechanism")) is not None:
        how["sasl.mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            how |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": CLIENT_ID,
                "sasl.oauthbearer.client.secret": CLIENT_SECRET,
                "sasl.oauthbearer.token.endpoint.url": keys["sasl.oauthbearer.token.endpoint.url"],
            }
        else:
            how |= {"sasl.username": USER, "sasl.password": PASSWORD}
    return how


def by_librdkafka(secured: Secured, keys: Keys, value: str) -> None:
    """confluent-kafka."""
    how = _librdkafka_keys(keys)
    failed: list[object] = []
    producer = confluent_kafka.Producer(how)
    producer.produce(TOPIC, value.encode(), on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(TIMEOUT_S) == 0 and failed == [None]
    consumer = confluent_kafka.Consumer({**how, "group.id": value})
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until:
            message = consumer.poll(1)
            if message is not None and not message.error() and message.value() == value.encode():
                return
        raise AssertionError("the record did not come")
    finally:
        consumer.close()


def by_kcat(secured: Secured, keys: Keys, value: str) -> None:
    """kcat, whose librdkafka is Debian's."""
    said = _librdkafka_keys(keys)
    address = said.pop("bootstrap.servers")
    how = [word for key, text in said.items() for word in ("-X", f"{key}={text}")]
    words = ["kcat", "-b", address, *how, "-t", TOPIC, "-p", "0"]
    subprocess.run([*words, "-P"], input=value.encode(), check=True, timeout=TIMEOUT_S)
    reading = [*words, "-C", "-o", "beginning", "-e", "-q"]
    read = subprocess.run(reading, capture_output=True, check=True, timeout=TIMEOUT_S)
    assert value.encode() in read.stdout.splitlines(), read.stderr


def _python_keys(secured: Secured, keys: Keys) -> dict[str, Any]:
    """The settings that kafka-python and aiokafka name alike."""
    how: dict[str, Any] = {
        "bootstrap_servers": keys["bootstrap.servers"],
        "security_protocol": keys["security.protocol"],
    }
    if "ssl.truststore.location" in keys:
        context = ssl.create_default_context(cafile=keys["ssl.truststore.location"])
        if "ssl.keystore.location" in keys:
            context.load_cert_chain(keys["ssl.keystore.location"])
        how["ssl_context"] = context
    if (mechanism := keys.get("sasl.mechanism")) is not None:
        how["sasl_mechanism"] = mechanism
        if mechanism != "OAUTHBEARER":
            how |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    return how


def by_kafka_python(secured: Secured, keys: Keys, value: str) -> None:
    """kafka-python."""

    class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):
        def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # declared as None
            return secured.provider.token()

    how = _python_keys(secured, keys)
    if keys.get("sasl.mechanism") == "OAUTHBEARER":
        how["sasl_oauth_token_provider"] = Tokens()
    producer = kafka.KafkaProducer(**how)
    producer.send(TOPIC, value.encode()).get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        TOPIC, **how, auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT_S * 1000)
    )
    try:
        assert any(record.value == value.encode() for record in consumer)
    finally:
        consumer.close()


def by_aiokafka(secured: Secured, keys: Keys, value: str) -> None:
    """aiokafka."""

    class Tokens(aiokafka.abc.AbstractTokenProvider):
        async def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # declared as None
            return secured.provider.token()

    async def read(consumer: Any) -> None:
        while (await consumer.getone()).value != value.encode():
            pass

    async def main() -> None:
        how = _python_keys(secured, keys)
        if keys.get("sasl.mechanism") == "OAUTHBEARER":
            how["sasl_oauth_token_provider"] = Tokens()
        async with aiokafka.AIOKafkaProducer(**how) as producer:
            await producer.send_and_wait(TOPIC, value.encode())
        consumer = aiokafka.AIOKafkaConsumer(TOPIC, **how, auto_offset_reset="earliest")
        async with consumer:
            await asyncio.wait_for(read(consumer), TIMEOUT_S)

    asyncio.run(main())


def by_franz_go(program: Path) -> Client:
    """franz-go, by the program of `franz/`."""

    def client(secured: Secured, keys: Keys, value: str) -> None:
        said = {
            "protocol": keys["security.protocol"],
            "mechanism": keys.get("sasl.mechanism", ""),
            "user": USER,
            "password": PASSWORD,
            "token": secured.provider.token(),
            "ca": keys.get("ssl.truststore.location", ""),
            "certificate": keys.get("ssl.keystore.location", ""),
        }
        how = [f"{key}={text}" for key, text in said.items()]
        words = [str(program), "secured", keys["bootstrap.servers"], TOPIC, value, *how]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert ran.stdout == "OK\n", ran.stderr

    return client


CLIENTS: Final[dict[str, Client]] = {
    "kcat": by_kcat,
    "librdkafka": by_librdkafka,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


def supports(client: str, kind: str, keys: Keys) -> bool:
    """Whether a client of `CLIENTS` can go this way at `kind` of broker.

    Debian's librdkafka, which kcat has, is built without the requests that fetch tokens. And as all
    before 2.6.1 it repeats its part of SCRAM's nonce, which pk takes and Apache Kafka, since 4.0,
    refuses."""
    mechanism = keys.get("sasl.mechanism", "")
    if client != "kcat":
        return True
    return mechanism != "OAUTHBEARER" and (kind == "pk" or not mechanism.startswith("SCRAM"))
