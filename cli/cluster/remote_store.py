"""Opens the store of remote segments that a command line names."""

from collections.abc import Sequence

from pk.cli.exits import CommandError, Unusable
from pk.cli.options.values import Pair
from pk.core.config import BrokerConfig, ConfigError
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError
from pk.core.log.remote.stores import open_storage, store_options

REMOTE_KEYS = "pk.remote."


def opened_store(url: str, configs: Sequence[Pair], flag: str = "-X") -> RemoteStorage:
    """The store at `url`, with the keys pk.remote.* of `configs`, which were given with `flag`.
    Raises Unusable, CommandError."""
    given = {pair.key: pair.value for pair in configs}
    if stray := [key for key in given if not key.startswith(REMOTE_KEYS)]:
        raise Unusable(f"{flag} takes only keys pk.remote.*, not {stray[0]}.")
    try:
        config = BrokerConfig({**given, "pk.remote.url": url})
        return open_storage(url, store_options(config), create=False)
    except (ConfigError, RemoteStorageError) as e:
        raise CommandError(f"{e}.") from e
