"""A registry over TLS that asks for a certificate, by the options of the data source."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Certificate, authority
from pyspark.sql import types as t
from schemas.running import running_registry

from pk.core.schemas.schema import Schema
from pk.net.schemas.answers import RegistryUnreachable
from pk.net.schemas.blocking import Schemas
from pk.net.schemas.serve import Listening
from pk.net.tls.contexts import client_context, server_context
from pk.net.tls.settings import TlsSettings
from pk.spark.errors import OptionError
from pk.spark.schemas.options import RegistryOptions, split_options
from pk.spark.schemas.source_columns import reading_of
from pk.spark.schemas.writing import encoders

PASSWORD = "not for a plan"
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
ROWS = t.StructType(
    [t.StructField("value", t.StructType([t.StructField("id", t.LongType(), nullable=False)]))]
)


class World:
    """A registry that trusts one authority, which has signed its certificate too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.signer = authority()
        self.trust = str(self.signer.write_trust(directory / "trust.pem"))
        self.client = self.signer.sign("CN=spark", "spark")
        self.url = ""

    def settings(self) -> TlsSettings:
        """Those of the registry."""
        key = self.signer.sign("CN=registry", "localhost").write(self.directory / "server.pem")
        return TlsSettings(
            client_auth="required",
            keystore_type="PEM",
            keystore_location=str(key),
            truststore_type="PEM",
            truststore_location=self.trust,
        )

    def options(self, **tls: str) -> dict[str, str]:
        """Options of the data source; `tls` by Kafka's names with underscores."""
        given = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.trust}
        given |= {f"ssl.{name.replace('_', '.')}": value for name, value in tls.items()}
        return {
            "value.format": "avro",
            "schema.registry.url": self.url,
            **{f"schema.registry.{name}": value for name, value in given.items()},
        }

    def registry(self, **tls: str) -> RegistryOptions:
        _, found = split_options(self.options(**tls), environ={})
        assert found is not None
        return found.registry

    def pem(self, signer: Certificate | None = None) -> dict[str, str]:
        """A key in a PEM file with a password."""
        certificate = self.client if signer is None else signer.sign("CN=spark", "spark")
        path = certificate.write(self.directory / "client.pem", PASSWORD)
        return {"keystore_type": "PEM", "keystore_location": str(path), "key_password": PASSWORD}

    def pkcs12(self) -> dict[str, str]:
        path = self.client.write_pkcs12(self.directory / "client.p12", PASSWORD)
        return {
            "keystore_type": "PKCS12",
            "keystore_location": str(path),
            "keystore_password": PASSWORD,
        }

    def texts(self) -> dict[str, str]:
        """Key, chain and trust in the options themselves."""
        return {
            "keystore_type": "PEM",
            "keystore_key": self.client.key_pem(),
            "keystore_certificate_chain": self.client.pem,
            "enabled_protocols": "TLSv1.2, TLSv1.3",
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("tls"))
    settings = found.settings()
    listening = Listening(
        host="localhost", tls=server_context(settings), forward_tls=client_context(settings)
    )
    with running_registry(listening) as running:
        assert running.url.startswith("https://localhost:")
        found.url = running.url
        yield found


def _registered(world: World, schemas: Schemas, subject: str) -> None:
    assert schemas.register(subject, Schema(ORDER)) > 0
    assert schemas.of_subject(subject)[1].schema == Schema(ORDER)


@pytest.mark.parametrize("keys", [World.pem, World.pkcs12, World.texts])
def test_a_registry_that_asks_for_a_certificate(
    world: World, keys: Callable[[World], dict[str, str]]
) -> None:
    subject = f"{keys.__name__}-value"
    _registered(world, world.registry(**keys(world)).open(), subject)


def test_a_source_and_a_sink_ask_it(world: World) -> None:
    _registered(world, world.registry(**world.pem()).open(), "orders-value")
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders"}
    reading = reading_of({**given, **world.options(**world.pem())})
    assert reading.choose()["value"].dataType.simpleString() == "struct<id:bigint>"
    [schemas] = reading.written().values()
    assert [each.schema for each in schemas.values()] == [Schema(ORDER)] * len(schemas)
    assert PASSWORD.encode() not in pickle.dumps(reading), "tasks do not get it"
    _, parsed = split_options(world.options(**world.pem()), sink=True, environ={})
    assert parsed is not None
    [encoder] = encoders(parsed, ROWS, "orders")
    assert encoder.schema.schema == Schema(ORDER)
    assert PASSWORD not in repr(parsed)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(lambda world: {}, id="no certificate"),
        pytest.param(lambda world: world.pem(authority("CN=Another")), id="another authority's"),
    ],
)
def test_a_certificate_that_it_does_not_take(
    world: World, keys: Callable[[World], dict[str, str]]
) -> None:
    with pytest.raises(RegistryUnreachable, match="localhost"):
        world.registry(**keys(world)).open().of_subject("orders-value")


def test_a_registry_that_nobody_here_trusts(world: World, tmp_path: Path) -> None:
    other = str(authority("CN=Another").write_trust(tmp_path / "other.pem"))
    given: dict[str, Any] = {**world.pem(), "truststore_location": other}
    with pytest.raises(RegistryUnreachable, match="(?i)certificate"):
        world.registry(**given).open().of_subject("orders-value")


def test_options_that_are_wrong_name_what_is(world: World, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(OptionError, match=r"missing\.pem"):
        world.registry(truststore_location=missing).open()
    with pytest.raises(OptionError, match=r"ssl\.key\.password|password"):
        world.registry(**{**world.pem(), "key_password": "wrong"}).open()
    with pytest.raises(OptionError, match=r"schema\.registry\.ssl\.truststor.* is not an option"):
        split_options(
            {**world.options(), "schema.registry.ssl.truststor.location": "x"}, environ={}
        )
