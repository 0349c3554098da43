"""The options of the source and the sink for the schemas of keys and values.

    value.format = avro
    schema.registry.url = http://127.0.0.1:8081

The names are Confluent's if Confluent has the option. These options are split off first, so that
the parsers of the other options need not know about schemas.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast

from pk.core.nearest import did_you_mean_key
from pk.core.schemas.schema import AVRO, JSON, PROTOBUF
from pk.core.schemas.subjects import STRATEGIES
from pk.net.tls.contexts import TlsError, client_context
from pk.net.tls.settings import KEYS, TlsSettings
from pk.spark.errors import OptionError

if TYPE_CHECKING:
    from pk.net.schemas.blocking import Schemas

Column = Literal["key", "value"]
OnError = Literal["fail", "null"]
OnNewVersion = Literal["keep", "fail"]

COLUMNS: Final[tuple[Column, ...]] = ("key", "value")
FORMATS: Final = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
LATEST: Final = -1

_URL: Final = "schema.registry.url"
_USER: Final = "schema.registry.basic.auth.user.info"
_TLS: Final = "schema.registry."
_ON_ERROR: Final = "schema.on.error"
_ON_NEW: Final = "schema.on.new.version"
_BYTES: Final = "schema.include.bytes"
_REGISTER: Final = "auto.register.schemas"
_PER_COLUMN: Final = (
    "format",
    "schema.subject",
    "schema.version",
    "schema.id",
    "schema.name",
    "subject.name.strategy",
)
_SOURCE_ONLY: Final = (_ON_ERROR, _ON_NEW, _BYTES)
_SINK_ONLY: Final = (_REGISTER,)
_STRATEGY: Final = re.compile(r"(?:[\w.]*\.)?(Topic|Record|TopicRecord)NameStrategy")
_STRATEGIES: Final = {"Topic": "topic", "Record": "record", "TopicRecord": "topic-record"}
_TLS_KEYS: Final = tuple(key for key in KEYS if key != "ssl.client.auth")


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The registry's address and credentials, which are not sent to tasks."""

    where: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The configs `ssl.*`, under Kafka's names."""

    def open(self) -> Schemas:
        """Open a client of the registry. Raises OptionError, MissingLibrary."""
        # Importing the client takes 0.13 s of CPU, which a source without schemas avoids.
        from pk.net.schemas.blocking import Schemas

        try:
            return Schemas(self.where, user=self.user, password=self.password, tls=self._context())
        except (ValueError, TlsError) as e:
            raise OptionError(f"{_URL}: {e}") from None

    def _context(self) -> ssl.SSLContext | None:
        return client_context(TlsSettings.of(self._tls_value)) if self.tls else None

    def _tls_value(self, key: str) -> object:
        value = self.tls.get(key)
        lists = ("ssl.cipher.suites", "ssl.enabled.protocols")
        if value is None or key not in lists:
            return value
        return tuple(filter(None, (part.strip() for part in value.split(","))))


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options for the schema of one column."""

    type: str
    """AVRO, JSON or PROTOBUF."""

    subjects: tuple[str, ...] = ()
    """The subjects; the column has the schema of the first. Empty means the subject that the
    strategy derives from the topic."""

    version: int = LATEST
    id: int | None = None
    """A schema id, instead of a subject and a version."""

    name: str | None = None
    """The name of the protobuf message or of the record."""

    strategy: str = "topic"


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """The options for schemas of a read or a write."""

    registry: RegistryOptions
    columns: Mapping[Column, ColumnOptions]
    on_error: OnError = "fail"
    on_new_version: OnNewVersion = "keep"
    register: bool = False
    """Whether a write registers the schema of its rows."""

    include_bytes: bool = False
    """Whether a read adds the columns `key_bytes` and `value_bytes` with the original bytes."""


def split_options(
    options: Mapping[str, str], *, sink: bool = False, environ: Mapping[str, str] = os.environ
) -> tuple[dict[str, str], SchemaOptions | None]:
    """Split off the options for schemas. Returns the other options, and the parsed options for
    schemas; None if no column has a schema. Raises OptionError."""
    ours: dict[str, str] = {}
    rest: dict[str, str] = {}
    known = _names()
    for name, value in options.items():
        (ours if name.lower() in known else rest)[name] = str(value)
    given = {name.lower(): value for name, value in ours.items()}
    for name in rest:
        _refuse_near(name.lower(), known)
    for name in _SOURCE_ONLY if sink else _SINK_ONLY:
        if name in given:
            raise OptionError(f"{name} is an option of the {'source' if sink else 'sink'}")
    columns: dict[Column, ColumnOptions] = {}
    for name in COLUMNS:
        found = _column(given, name)
        if found is not None:
            columns[name] = found
    if not columns:
        if given:
            raise OptionError(f"{min(given)} has no effect without value.format or key.format")
        return rest, None
    return rest, SchemaOptions(
        registry=_registry(given, environ),
        columns=columns,
        on_error=cast(OnError, _choice(given, _ON_ERROR, ("fail", "null"))),
        on_new_version=cast(OnNewVersion, _choice(given, _ON_NEW, ("keep", "fail"))),
        register=_choice(given, _REGISTER, ("false", "true")) == "true",
        include_bytes=_choice(given, _BYTES, ("false", "true")) == "true",
    )


def _names() -> frozenset[str]:
    columns = {f"{column}.{name}" for column in COLUMNS for name in _PER_COLUMN}
    tls = {_TLS + key for key in _TLS_KEYS}
    return frozenset({*columns, *tls, _URL, _USER, *_SOURCE_ONLY, *_SINK_ONLY})


def _refuse_near(name: str, known: frozenset[str]) -> None:
    """Raise OptionError for an option that looks like one for schemas: the names of other options
    contain no dots, or begin with `kafka.`"""
    begins = ("key.", "value.", "schema.", "auto.register.")
    if name.startswith(begins):
        hint = did_you_mean_key(name, known)
        raise OptionError(f"{name} is not an option{hint}")


def _choice(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """The value of an option; the first word is the default."""
    value = given.get(name, words[0]).strip().lower()
    if value not in words:
        raise OptionError(f"{name} must be {' or '.join(words)}, not {value!r}")
    return value


def _column(given: Mapping[str, str], column: Column) -> ColumnOptions | None:
    own = {name: given[f"{column}.{name}"] for name in _PER_COLUMN if f"{column}.{name}" in given}
    if not own:
        return None
    word = own.get("format", "").strip().lower()
    if not word:
        raise OptionError(f"{column}.{min(own)} has no effect without {column}.format")
    if word not in FORMATS:
        raise OptionError(f"{column}.format must be {', '.join(FORMATS)}, not {word!r}")
    if "schema.id" in own and "schema.version" in own:
        raise OptionError(f"{column}.schema.id and {column}.schema.version cannot be combined")
    version = own.get("schema.version", "latest").strip().lower()
    subjects = (part.strip() for part in own.get("schema.subject", "").split(","))
    return ColumnOptions(
        type=FORMATS[word],
        subjects=tuple(filter(None, subjects)),
        version=LATEST if version == "latest" else _whole(f"{column}.schema.version", version),
        id=_whole(f"{column}.schema.id", own["schema.id"]) if "schema.id" in own else None,
        name=own.get("schema.name"),
        strategy=_strategy(column, own.get("subject.name.strategy")),
    )


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text) or int(text) < 1:
        raise OptionError(f"{name} must be a whole number from 1, not {text!r}")
    return int(text)


def _strategy(column: Column, text: str | None) -> str:
    if text is None:
        return "topic"
    match = _STRATEGY.fullmatch(text.strip())
    word = _STRATEGIES[match[1]] if match is not None else text.strip().lower()
    if word not in STRATEGIES:
        raise OptionError(
            f"{column}.subject.name.strategy must be TopicNameStrategy, RecordNameStrategy or"
            f" TopicRecordNameStrategy, not {text!r}"
        )
    return word


def _registry(given: Mapping[str, str], environ: Mapping[str, str]) -> RegistryOptions:
    where = given.get(_URL) or environ.get("PK_SCHEMA_REGISTRY")
    if not where:
        raise OptionError(f"the option {_URL} must be given: a URL, or a directory of schemas")
    login = given.get(_USER) or environ.get("PK_SCHEMA_REGISTRY_USER") or ""
    user, colon, password = login.partition(":")
    if login and not colon:
        raise OptionError(f"{_USER} must be NAME:PASSWORD")
    tls = {key: given[_TLS + key] for key in _TLS_KEYS if _TLS + key in given}
    return RegistryOptions(where.strip(), user or None, password or None, tls)
