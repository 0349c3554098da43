"""Selects the config keys for one kind of client from those that the user gave for all kinds.

A profile or a file may mix keys of producers, consumers and admin clients, as Kafka's own tools
allow: each client takes its own. A key given with -X is for the client that is the subject of the
command, and is refused if that client does not know it.
"""

from collections.abc import Mapping

from pk.cli.runtime.settings import Settings
from pk.net.client.config import (
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    keys,
)
from pk.net.client.errors import ConfigError

_ALL = (AdminConfig, ProducerConfig, ConsumerConfig, ShareConsumerConfig)


def client_config(
    kind: type[ClientConfig],
    settings: Settings,
    defaults: Mapping[str, object],
    *,
    about: type[ClientConfig] | None = None,
    transactional: bool = False,
) -> dict[str, object]:
    """The config of a client of `kind` in a command whose subject is the client `about` (None: this
    one).

    Raises ConfigError for a `transactional.id`, unless the command writes in transactions
    (`transactional`).
    """
    own = keys(kind)
    of_others = {name for other in _ALL for name in keys(other)} - set(own)
    config: dict[str, object] = dict(defaults)
    config.update({k: v for k, v in settings.properties.items() if k not in of_others})
    # The client that -X is for refuses a key that no client knows, and suggests the nearest name.
    theirs = about is not None and about is not kind
    config.update({k: v for k, v in settings.given.items() if k in own or not theirs})
    if config.get("transactional.id") and not transactional:
        raise ConfigError(
            "transactional.id: only `pk produce` and `pk cp --exactly-once --to-property` accept it"
        )
    return config
