"""Config keys for one kind of client, out of what the user gave for all of them.

A profile or a file may hold the keys of producers, consumers and admin clients together, as Kafka's own tools read it: each
client takes its own. What was given with -X is meant for the client that the command is about, and refused elsewhere.
"""

from collections.abc import Mapping

from pk.cli.runtime.settings import Settings
from pk.net.client.config import (
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    keys,
)
from pk.net.client.errors import ConfigError

_ALL = (AdminConfig, ProducerConfig, ConsumerConfig)


def client_config(
    kind: type[ClientConfig],
    settings: Settings,
    defaults: Mapping[str, object],
    *,
    about: type[ClientConfig] | None = None,
) -> dict[str, object]:
    """The config of a client of `kind` in a command that is `about` another (None: about this one)."""
    own = keys(kind)
    of_others = {name for other in _ALL for name in keys(other)} - set(own)
    config: dict[str, object] = dict(defaults)
    config.update({k: v for k, v in settings.properties.items() if k not in of_others})
    # What nobody knows is refused by the client that -X is for, which knows the nearest name.
    theirs = about is not None and about is not kind
    config.update({k: v for k, v in settings.given.items() if k in own or not theirs})
    if config.get("transactional.id"):
        raise ConfigError("transactional.id: no command of pk writes in transactions")
    return config
