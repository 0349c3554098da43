"""Local directories and prefixes of object storage, with the same methods.

A store holds the files of an export, a table or a checkpoint. Tasks get it pickled and write to it
directly, so files never pass through the driver. Object storage is reached by obstore, whose
settings have the names and meanings that deltalake's have: both use the same Rust library.
Credentials are read from the environment and sent with the tasks; without them each machine uses
its own role.
"""

import contextlib
import os
import secrets
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, Self

from pk.spark.errors import OptionError, SparkMissing
from pk.spark.locations import local_path, scheme

INSTALL: Final = "pip install 'pk-broker[urls]'"

_SCHEMES: Final = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **{name: name for name in ("az", "abfs", "abfss")},
}
"""URL scheme → the scheme that deltalake and pyiceberg know too. Hadoop's `s3a` is S3."""

_ENVIRONMENT: Final = {
    "s3": {
        "AWS_ACCESS_KEY_ID": "aws_access_key_id",
        "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
        "AWS_SESSION_TOKEN": "aws_session_token",
        "AWS_DEFAULT_REGION": "aws_region",
        "AWS_REGION": "aws_region",
        "AWS_ENDPOINT_URL": "aws_endpoint",
        "AWS_ENDPOINT_URL_S3": "aws_endpoint",
    },
    "gs": {
        "GOOGLE_SERVICE_ACCOUNT": "google_service_account",
        "GOOGLE_APPLICATION_CREDENTIALS": "google_application_credentials",
    },
    "az": {
        "AZURE_STORAGE_ACCOUNT_NAME": "azure_storage_account_name",
        "AZURE_STORAGE_ACCOUNT_KEY": "azure_storage_account_key",
        "AZURE_STORAGE_SAS_TOKEN": "azure_storage_sas_token",
    },
}
"""Environment variable → setting. Later variables take precedence."""

_ICEBERG: Final = {
    "aws_access_key_id": "s3.access-key-id",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
    "aws_region": "s3.region",
    "aws_endpoint": "s3.endpoint",
    "azure_storage_account_name": "adls.account-name",
    "azure_storage_account_key": "adls.account-key",
    "azure_storage_sas_token": "adls.sas-token",
}
"""obstore's setting → pyiceberg's."""


class Overtaken(Exception):
    """Another writer has replaced the object since it was read."""


class Store(ABC):
    """A directory, or a prefix of object storage. Names are relative to it and separate directories
    with slashes."""

    url: str
    """The URL of the store, without a slash at the end."""

    @abstractmethod
    def child(self, name: str) -> "Store":
        """The store of a subdirectory."""

    @abstractmethod
    def create(self, name: str) -> IO[bytes]:
        """Open a file for writing. An object exists only after it is closed. Raises OSError."""

    @abstractmethod
    def open(self, name: str) -> Any:
        """Open a file for reading at any position. Raises FileNotFoundError, OSError."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The contents of a file. Raises FileNotFoundError, OSError."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a file, replacing it atomically. Raises OSError."""

    @abstractmethod
    def add(self, name: str, data: bytes) -> None:
        """Create a file atomically, only if it does not exist. The file survives a crash of the
        machine. Raises FileExistsError, OSError."""

    @abstractmethod
    def sync(self, names: Iterable[str]) -> None:
        """Make complete files survive a crash of the machine. Raises OSError."""

    @abstractmethod
    def read_part(self, name: str, position: int, size: int) -> bytes:
        """Read `size` bytes of a file, or fewer at its end. Raises OSError."""

    @abstractmethod
    def names(self, folder: str = "") -> list[str]:
        """The names of all files in a directory and below it; empty if it does not exist. Raises
        OSError."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that do not exist are skipped. Raises OSError."""

    @abstractmethod
    def remove_folder(self, folder: str) -> None:
        """Remove a directory and its contents, if it exists. Raises OSError."""

    @property
    def storage_options(self) -> dict[str, str]:
        """deltalake's options for this store."""
        return {}

    @property
    def iceberg_properties(self) -> dict[str, str]:
        """pyiceberg's properties for this store."""
        known = {_ICEBERG[key]: v for key, v in self.storage_options.items() if key in _ICEBERG}
        return known

    def url_of(self, name: str) -> str:
        """The URL of a file."""
        return f"{self.url}/{name}"


@dataclass(frozen=True)
class LocalStore(Store):
    """A local directory, created with its first file."""

    path: Path

    @property
    def url(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"file://{self.path}"

    def child(self, name: str) -> "LocalStore":
        return LocalStore(self.path / name)

    def create(self, name: str) -> IO[bytes]:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")

    def open(self, name: str) -> Any:
        return (self.path / name).open("rb")

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_bytes(data)
        part.replace(path)

    def add(self, name: str, data: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)  # unlike a rename, a link never replaces a file
        finally:
            part.unlink(missing_ok=True)
        _sync(path.parent)

    def sync(self, names: Iterable[str]) -> None:
        paths = [self.path / name for name in names]
        for path in (*paths, *{path.parent for path in paths}):
            _sync(path)

    def read_part(self, name: str, position: int, size: int) -> bytes:
        with (self.path / name).open("rb") as file:
            file.seek(position)
            return file.read(size)

    def names(self, folder: str = "") -> list[str]:
        found = (self.path / folder).rglob("*")
        return [str(path.relative_to(self.path)) for path in found if not path.is_dir()]

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path / folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class ObjectStore(Store):
    """A prefix of a bucket."""

    url: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """obstore's settings, such as `aws_endpoint`."""

    def __reduce__(self) -> Any:
        return ObjectStore, (self.url, dict(self.settings))

    @cached_property
    def _objects(self) -> Any:
        """obstore's store. Raises SparkMissing, OptionError."""
        _need_obstore()
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        config: Any = {k: v for k, v in self.settings.items() if k != "allow_http"}
        plain = self.settings.get("allow_http") == "true"
        try:
            return from_url(self.url, config=config, client_options={"allow_http": plain})
        except (BaseError, ValueError) as e:
            raise OptionError(f"{self.url} cannot be used: {_first_line(e)}") from e

    def child(self, name: str) -> "ObjectStore":
        return ObjectStore(f"{self.url}/{name}", self.settings)

    @property
    def storage_options(self) -> dict[str, str]:
        return dict(self.settings)

    def create(self, name: str) -> IO[bytes]:
        import obstore

        file: Any = _Upload(obstore.open_writer(self._objects, name), self.url_of(name))
        return file

    def open(self, name: str) -> Any:
        import obstore

        with _Errors(self.url_of(name)):
            return _Reading(obstore.open_reader(self._objects, name))

    def read(self, name: str) -> bytes:
        return self.read_version(name)[0]

    def read_version(self, name: str) -> tuple[bytes, Mapping[str, str]]:
        """The object's contents, and its version, which `replace` compares. Raises
        FileNotFoundError, OSError."""
        import obstore

        with _Errors(self.url_of(name)):
            found = obstore.get(self._objects, name)
            data = bytes(found.bytes())
            known: Any = {"e_tag": found.meta["e_tag"], "version": found.meta["version"]}
        return data, {key: value for key, value in known.items() if value is not None}

    def age_s(self, name: str) -> float:
        """The seconds since the object was written, by this machine's clock. Raises
        FileNotFoundError, OSError."""
        import obstore

        with _Errors(self.url_of(name)):
            return time.time() - obstore.head(self._objects, name)["last_modified"].timestamp()

    def write(self, name: str, data: bytes) -> None:
        import obstore

        with _Errors(self.url_of(name)):
            obstore.put(self._objects, name, data)

    def replace(
        self, name: str, data: bytes, version: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        """Replace the object if it still has this version, and return the new version. With None,
        create the object if it does not exist. Raises Overtaken if another writer was faster,
        OSError."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if version is None else dict(version)
        with _Errors(self.url_of(name)):
            try:
                made: Any = obstore.put(self._objects, name, data, mode=mode)
                return {key: value for key, value in made.items() if value is not None}
            except (AlreadyExistsError, PreconditionError) as e:
                try:  # A put that is retried after a lost response finds the object that it wrote.
                    there, known = self.read_version(name)
                except FileNotFoundError:
                    raise Overtaken(self.url_of(name)) from e
                if there != data:
                    raise Overtaken(self.url_of(name)) from e
                return known

    def add(self, name: str, data: bytes) -> None:
        try:
            self.replace(name, data, None)
        except Overtaken as e:
            raise FileExistsError(str(e)) from e

    def sync(self, names: Iterable[str]) -> None:
        """Do nothing: an object survives once it exists."""

    def read_part(self, name: str, position: int, size: int) -> bytes:
        import obstore

        if not size:
            return b""
        with _Errors(self.url_of(name)):
            return bytes(obstore.get_range(self._objects, name, start=position, length=size))

    def names(self, folder: str = "") -> list[str]:
        import obstore

        with _Errors(self.url_of(folder)):
            return [
                each["path"]
                for part in obstore.list(self._objects, prefix=folder or None)
                for each in part
                # Some programs create an object for a directory; its name ends with a slash.
                if each["path"] and not each["path"].endswith("/")
            ]

    def remove(self, names: Iterable[str]) -> None:
        import obstore

        listed = list(names)
        with _Errors(self.url):
            if listed:
                obstore.delete(self._objects, listed)

    def remove_folder(self, folder: str) -> None:
        self.remove(self.names(folder))


def is_object_url(place: str | Path) -> bool:
    """Whether a location is a URL of an object storage that pk supports."""
    return scheme(place) in _SCHEMES and "://" in str(place)


def store_at(place: str | Path, iceberg: Mapping[str, str] | None = None) -> Store:
    """The store at a path, a `file:` URL, or a URL of object storage. `iceberg` has pyiceberg's
    properties of a table, which take precedence over the environment. Raises OptionError,
    SparkMissing."""
    name = scheme(place)
    if name in (None, "file"):
        return LocalStore(local_path(place))
    text = str(place)
    known, slashes, rest = text.partition("://")
    if not slashes:
        raise OptionError(f"a URL begins with {known.partition(':')[0]}://, not {text}")
    if name not in _SCHEMES:
        kinds = ", ".join(f"{each}://" for each in ("s3", "gs", "az", "abfss"))
        raise OptionError(f"{text} is not a location for files; give a directory, {kinds}")
    _need_obstore()
    kind = _SCHEMES[name]
    settings = settings_of(kind)
    for setting, prop in _ICEBERG.items():
        if iceberg is not None and prop in iceberg:
            settings[setting] = iceberg[prop]
    if settings.get("aws_endpoint", "").startswith("http://"):
        settings["allow_http"] = "true"
    return ObjectStore(f"{kind}://{rest.rstrip('/')}", settings)


def settings_of(kind: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """obstore's settings for a scheme, from environment variables."""
    family = "az" if kind.startswith("ab") else kind
    found: dict[str, str] = {}
    for variable, setting in _ENVIRONMENT[family].items():
        if environ.get(variable):
            found[setting] = environ[variable]
    return found


def hive_name(value: str | None) -> str:
    """The directory name for a column's name or value, escaped as by Hive and Spark."""
    if value is None or value == "":
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(_escaped(c) for c in value)


def _escaped(character: str) -> str:
    if character < " " or character in _ESCAPED:
        return f"%{ord(character):02X}"
    return character


_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^")


def _need_obstore() -> None:
    try:
        import obstore  # noqa: F401
    except ImportError:
        raise SparkMissing(f"obstore is not installed; {INSTALL} installs it.") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class _Errors:
    """A block that turns obstore's errors into OSError."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, OSError | Overtaken):
            return
        from obstore.exceptions import BaseError

        if isinstance(error, BaseError):
            raise OSError(f"{self._what}: {_first_line(error)}") from error


class _Upload:
    """An object that is being written, with the methods of a file that pyarrow calls."""

    def __init__(self, file: Any, what: str) -> None:
        self._file = file
        self._what = what
        self._size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write a part of the object. Raises OSError."""
        with _Errors(self._what):
            self._file.write(data)
        size = memoryview(data).nbytes
        self._size += size
        return size

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Do nothing: an object becomes visible when it is closed."""

    def close(self) -> None:
        """Complete the object. Raises OSError."""
        if not self.closed:
            self.closed = True
            with _Errors(self._what):
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the file, unless there was an error: then the object does not exist."""
        if error is None:
            self.close()


class _Reading:
    """An object that is being read, with the methods of a file that pyarrow calls."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.closed = False

    def read(self, size: int | None = None) -> bytes:
        return bytes(self._file.read(size))

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
