"""Values with passwords, keys and tokens do not show them: a repr gets into logs and tracebacks."""

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

import pk.core
import pk.net
from pk.core.meta.events import BROKER, TOPIC, ConfigChanged
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SECRET = re.compile(
    r".*(password|passphrase|secret|hmac|salt|stored_key|server_key|auth_bytes|keystore_key)"
)
MARK = "do not show it"


def holders() -> Iterator[tuple[type[Any], list[str]]]:
    """Every class of values with a field that is named like a secret, and these fields."""
    for package in (pk.core, pk.net):
        for info in walk_packages(package.__path__, package.__name__ + "."):
            module = import_module(info.name)
            for value in vars(module).values():
                if not isinstance(value, type) or value.__module__ != module.__name__:
                    continue
                if issubclass(value, msgspec.Struct):
                    names = value.__struct_fields__
                elif issubclass(value, tuple):
                    names = getattr(value, "_fields", ())
                else:
                    continue
                types = value.__annotations__
                secrets = [
                    name for name in names if SECRET.fullmatch(name) and types.get(name) is not bool
                ]
                if secrets:
                    yield value, secrets


def test_no_value_shows_the_secret_that_it_holds() -> None:
    found = dict(holders())
    assert len(found) > 15
    for cls, secrets in found.items():
        needed = dict.fromkeys(getattr(cls, "_fields", ()), Mock())
        if issubclass(cls, msgspec.Struct):
            needed = {
                f.name: Mock()
                for f in msgspec.structs.fields(cls)
                if f.default is msgspec.NODEFAULT and f.default_factory is msgspec.NODEFAULT
            }
        shown = repr(cls(**needed | dict.fromkeys(secrets, MARK)))
        assert cls.__name__ in shown and MARK not in shown, shown


@pytest.mark.parametrize(
    "message",
    [
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(configs=[AlterableConfig(name="ssl.key.password", value=MARK)])
            ]
        ),
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(name="u", salted_password=MARK.encode())]
        ),
    ],
)
def test_a_request_does_not_show_what_its_parts_hide(message: object) -> None:
    assert MARK not in repr(message)


def test_the_configs_of_brokers_are_not_shown() -> None:
    """Passwords of keystores are among them."""
    event = ConfigChanged(BROKER, "1", "ssl.keystore.password", MARK)
    assert MARK not in repr(event)
    assert MARK not in repr(MetadataImage().apply([event]))
    assert "compact" in repr(ConfigChanged(TOPIC, "orders", "cleanup.policy", "compact"))
