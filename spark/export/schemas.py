"""Decodes an export's keys and values whose schemas are in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.schema import MissingLibrary, SchemaError
from pk.net.schemas.answers import RegistryUnreachable
from pk.spark.errors import OptionError
from pk.spark.schemas.growth import NUMBERS, is_wider
from pk.spark.schemas.kinds import KINDS
from pk.spark.schemas.reading import Reading, Written
from pk.spark.schemas.source_columns import reading_of, source_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pk.spark.export.options import ExportOptions

_NUMBERS: Final[Mapping[str | None, frozenset[tuple[str, str]]]] = {
    None: NUMBERS,
    "iceberg": NUMBERS - {("int", "double")},
    "delta": frozenset(),
}
"""Pairs of number types (narrow, wide): a column may become wider in a resumed export. By the kind
of its table; None means files alone. Iceberg's format does not allow int to double, and deltalake
cannot change types."""


@dataclass(frozen=True)
class Decoding:
    """The decoder of an export's records, which is sent to the tasks unchanged."""

    reading: Reading
    written: Written
    schema: StructType

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The decoded rows. Raises Undecodable."""
        return self.reading.rows(batches, self.written, self.schema)


def decoding(options: ExportOptions, known: Mapping[str, Any]) -> Decoding | None:
    """Create the decoder for the records that are in the topic now; None if neither keys nor values
    have schemas. `known` has the columns of a resumed export. These are kept, unless the export
    evolves and the newest schemas have all of them, with the same types or with wider numbers that
    the table supports. Raises OptionError."""
    kinds = {"key": options.key, "value": options.value}
    formats = {f"{name}.format": KINDS[kind] for name, kind in kinds.items() if kind in KINDS}
    if not formats:
        return None
    given = {"kafka.bootstrap.servers": options.bootstrap, "subscribe": options.topic}
    try:
        reading = reading_of({**given, **formats, **options.schemas})
        before = StructType.fromJson(dict(known)) if known else None
        chosen = reading.choose(None if options.evolve else before)
        if options.evolve and before is not None:
            written = [name for name, kind in kinds.items() if kind in KINDS]
            numbers = {n: _NUMBERS[options.table] if kinds[n] == "avro" else () for n in written}
            types = {n: (before[n].dataType, chosen[n].dataType) for n in written}
            if not all(is_wider(*types[n], numbers[n]) for n in written):
                chosen = reading.choose(before)
        columns = source_columns(chosen, headers=True)
        return Decoding(reading, reading.written(), columns)
    except (RegistryError, RegistryUnreachable, SchemaError, MissingLibrary) as e:
        raise OptionError(f"the schemas of {options.topic}: {e}") from e
