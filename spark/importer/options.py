"""The options, progress and summary of an import."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pk.spark.errors import OptionError, SparkError
from pk.spark.jdbc_url import with_path
from pk.spark.session.local import HERE, Where
from pk.spark.sink.options import SinkOptions
from pk.spark.text.text_options import PACKED, text_options

FORMATS: Final = ("parquet", "csv", "json", "delta", "iceberg", "jdbc")
TEXT: Final = ("csv", "json")
BLOCK_BYTES: Final = 32 << 20
"""The size in bytes of the part of a file that one task reads."""

_BY_SUFFIX: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


class ImportRefused(SparkError):
    """An earlier run of the same import had another source or other settings; nothing was
    published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The settings of an import: its source, and how a row becomes a record.

    `source` is a path, a URL or, for `jdbc`, the database's URL. `key`, `value`, `timestamp`,
    `partition` and the values of `headers` are expressions of Spark's SQL over the columns of the
    source. `client` has producer configs under Kafka's names, `read` has options of Spark's reader.
    """

    bootstrap: str
    topic: str
    source: str
    format: str | None = None
    client: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    value: str | None = None
    """The expression for values; None means a JSON object of all columns."""

    timestamp: str | None = None
    partition: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    import_id: str | None = None
    """The id of the import; None means an id made of the topic and the source, so that the same
    command continues the import."""

    schema: str | None = None
    """The columns of CSV and JSON (DDL)."""

    read: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None
    """The table of a database, or a query in parentheses with a name."""

    order_by: str | None = None
    """The unique whole-number column by which the rows of the table are divided and identified."""

    jars: tuple[str, ...] = ()
    """Jars with the database's JDBC driver."""

    cores: int | None = None
    where: Where = HERE
    """The Spark that runs the tasks. On a cluster, the tasks must be able to read the source, and
    must share `staging` with this process."""

    block_bytes: int = BLOCK_BYTES
    staging: str | None = None

    @property
    def kind(self) -> str:
        """The format of the source. Raises OptionError if the format is not given and the name of
        the source does not show it."""
        if self.format is not None:
            return self.format
        if self.source.startswith("jdbc:"):
            return "jdbc"
        found = _format_of(self.place)
        if found is None:
            raise OptionError(
                f"the name of {self.source} does not show its format; give one of"
                f" {', '.join(FORMATS)}"
            )
        return found

    @property
    def place(self) -> str:
        """The source as an absolute path or URL."""
        if ":" in self.source.partition("/")[0]:
            return with_path(self.source, Path.cwd())
        return str(Path(self.source).absolute())

    @property
    def sink(self) -> SinkOptions:
        """The options for publishing records."""
        return SinkOptions(self.bootstrap, self.client, self.topic, staging=self.staging)

    def id(self, topic_id: str) -> str:
        """The id under which the import's progress is kept."""
        if self.import_id is not None:
            return self.import_id
        named = "\n".join((topic_id, self.place, self.table or ""))
        return hashlib.sha256(named.encode()).hexdigest()[:16]

    def meaning(self) -> dict[str, Any]:
        """The settings that must not change between the runs of an import."""
        return {
            "source": self.place,
            "format": self.kind,
            "table": self.table,
            "order_by": self.order_by,
            "key": self.key,
            "value": self.value,
            "timestamp": self.timestamp,
            "partition": self.partition,
            "headers": [list(header) for header in self.headers],
            "read": {name: self.read[name] for name in sorted(self.read) if not _is_secret(name)},
            "block_bytes": self.block_bytes,
            # How rows are divided into blocks. The first versions of pk read text differently.
            "text": 2 if self.kind in TEXT else None,
        }

    def check(self) -> None:
        """Raise OptionError or ConfigError for invalid values and combinations."""
        if self.where.remote is not None:
            raise OptionError(
                "an import cannot run on a Spark Connect server, which does not show how it "
                "splits files into tasks; use --master, or a local Spark"
            )
        if self.kind not in FORMATS:
            raise OptionError(f"the format must be one of {', '.join(FORMATS)}, not {self.kind!r}")
        if self.kind in TEXT:
            text_options(self.kind, self.read)
        elif "delimiter" in self.read:
            raise OptionError("a delimiter is only for csv")
        if self.kind == "jdbc":
            if self.table is None or self.order_by is None:
                raise OptionError("jdbc needs a table and the unique column that orders its rows")
        elif self.table is not None or self.order_by is not None:
            raise OptionError("a table and the column that orders its rows are only for jdbc")
        for jar in self.jars:
            if not Path(jar).is_file():
                raise OptionError(f"the jar {jar} does not exist")
        if self.schema is not None and self.kind not in TEXT:
            raise OptionError("a schema is only for csv and json; other formats have their own")
        if self.block_bytes < 1:
            raise OptionError("a block must have at least one byte")
        _ = self.sink.config


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("password", "secret", "token", "key", "user"))


def _format_of(place: str) -> str | None:
    path = Path(place)
    if path.suffix in PACKED:
        path = path.with_suffix("")
    if path.suffix in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix]
    if not path.is_dir():
        return None
    if (path / "_delta_log").is_dir():
        return "delta"
    if (path / "metadata").is_dir() and any((path / "metadata").glob("*.metadata.json")):
        return "iceberg"
    kinds = {
        kind
        for each in path.rglob("*")
        if not each.name.startswith(("_", ".")) and (kind := _format_of_file(each)) is not None
    }
    return kinds.pop() if len(kinds) == 1 else None


def _format_of_file(path: Path) -> str | None:
    if path.suffix in PACKED:
        path = path.with_suffix("")
    return _BY_SUFFIX.get(path.suffix)


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """The progress of an import. `bytes` counts the bytes of the source that were read; for a
    database, it counts keys."""

    stage: Literal["starting", "planning", "importing", "finishing"]
    records: int = 0
    bytes: int = 0
    bytes_total: int = 0


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file of the source, and how much of it earlier runs have imported."""

    name: str
    bytes: int
    portions: int
    portions_done: int
    records_before: int


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The result of an import."""

    import_id: str
    topic: str
    topic_id: str
    records: int
    records_before: int
    """The number of records that earlier runs of the same import published."""

    files: tuple[FilePlan, ...]
    elapsed_ms: int
