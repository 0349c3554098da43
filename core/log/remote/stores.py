"""Opens the remote storage that a URL or a broker's configuration names."""

from collections.abc import Mapping

from pk.core.config import BrokerConfig
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError


def open_storage(url: str, options: Mapping[str, str], *, create: bool = True) -> RemoteStorage:
    """Open the storage at a URL: see `ObjectStorage.open`. Raises RemoteStorageError, for example
    if the library is not installed."""
    try:
        from pk.core.log.remote.object_storage import ObjectStorage
    except ImportError:
        message = "remote storage needs: pip install 'pk-broker[tiered]'"
        raise RemoteStorageError(message) from None
    return ObjectStorage.open(url, options, create=create)


def store_options(config: BrokerConfig) -> dict[str, str]:
    """Return the options for the store at `pk.remote.url`, with the names that this kind of store
    uses."""
    scheme = (config.pk_remote_url or "").partition(":")[0]
    access_key, secret_key = "access_key_id", "secret_access_key"
    if scheme in ("az", "abfs", "abfss", "azure", "adl"):
        access_key, secret_key = "account_name", "account_key"
    elif scheme == "gs":
        secret_key = "service_account_key"
    given = {
        access_key: config.pk_remote_access_key,
        secret_key: config.pk_remote_secret_key,
        "session_token": config.pk_remote_session_token,
        "endpoint": config.pk_remote_endpoint,
        "region": config.pk_remote_region,
    }
    return {name: value for name, value in given.items() if value is not None}
