"""Opens the remote storage that a URL names."""

from collections.abc import Mapping

from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError


def open_storage(url: str, options: Mapping[str, str]) -> RemoteStorage:
    """See `ObjectStorage.open`. Raises RemoteStorageError, also if the library is not installed."""
    try:
        from pk.core.log.remote.object_storage import ObjectStorage
    except ImportError:
        message = "remote storage needs: pip install 'pk-broker[tiered]'"
        raise RemoteStorageError(message) from None
    return ObjectStorage.open(url, options)
