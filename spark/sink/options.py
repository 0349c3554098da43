"""The options of writing with the `pk` data source, and the columns that it writes.

The names are the same as in Spark's own Kafka sink. Producer configs that would have no effect are
refused with the reason: tasks seal whole batches, so `linger.ms` does not apply, and no config may
weaken the guarantee of a write.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from pk.core.nearest import did_you_mean_one_of, nearest
from pk.net.client.config import AdminConfig, ProducerConfig, keys, parse
from pk.spark.errors import OptionError

BATCH_BYTES: Final = 512 * 1024
"""The default of `batch.size`, which is large because a task seals many records at once."""

_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_NAMES: Final = ("topic", "delivery", "stagingLocation", "checkpointLocation", "queryName")
_BATCH_NAMES: Final = ("queryId", "batchId")
"""Options for `foreachBatch`. (Spark passes on its own options checkpointLocation and
queryName.)"""

_QUERY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_BATCH_ID: Final = re.compile(r"[0-9]{1,18}")
_SOURCE: Final = "is an option of the source"
_REFUSED: Final = {
    "includeheaders": "is an option of the source; the column headers is written if it exists",
    "startingoffsets": _SOURCE,
    "endingoffsets": _SOURCE,
    "subscribe": "is an option of the source; the option topic names the topic to write to",
    "path": "has no effect; the option topic names the topic to write to",
}
_SEALED: Final = "has no effect: tasks seal whole batches of records"
_KEYS_REFUSED: Final = {
    "linger.ms": _SEALED,
    "buffer.memory": _SEALED,
    "max.in.flight.requests.per.connection": (
        "has no effect: each partition has one request in flight"
    ),
    "retries": "has no effect; kafka.delivery.timeout.ms sets how long to retry",
    "partitioner.class": (
        "has no effect: the partition is chosen by key, as in Java's producer, unless the rows"
        " have the column partition"
    ),
    "partitioner.ignore.keys": "has no effect; the column partition sets a record's partition",
    "partitioner.adaptive.partitioning.enable": _SEALED,
    "metadata.max.idle.ms": "has no effect here",
    "transactional.id": (
        "cannot be set: it is derived from the query's id, so that a second driver is fenced"
    ),
}
_NEUTRAL: Final = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}


class Delivery(Enum):
    """The guarantee of a write."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """The identity of a stream's batch; a batch that is already written is skipped."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed options of a write. `client` has producer configs under Kafka's names."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    topic: str | None = None
    """The topic for all rows; None means the topic in the column `topic`."""

    delivery: Delivery = Delivery.EXACTLY_ONCE
    batch: "StreamBatch | None" = None
    """The stream's batch that a batch job in `foreachBatch` writes."""

    staging: str | None = None
    """A directory or URL that the driver and the executors share, for batches that do not fit in a
    task's message."""

    @property
    def config(self) -> ProducerConfig:
        """The parsed configs of `client`. Raises ConfigError."""
        return parse(ProducerConfig, {"batch.size": BATCH_BYTES, **self.client})

    @property
    def admin_config(self) -> dict[str, str]:
        """The configs of `client` that also apply to an admin client."""
        return {name: value for name, value in self.client.items() if name in keys(AdminConfig)}


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options that Spark passes. Raises OptionError, ConfigError."""
    given = {name.lower(): str(value) for name, value in options.items()}
    names = {name.lower(): name for name in (*_NAMES, *_BATCH_NAMES)}
    for name in given:
        if name.startswith("kafka.") or name in names:
            continue
        if name in _REFUSED:
            raise OptionError(f"the option {name} {_REFUSED[name]}")
        hint = did_you_mean_one_of([names[near] for near in nearest(name, names)[:1]], "")
        raise OptionError(f"{name} is not an option of the sink{hint}")
    if not given.get(_BOOTSTRAP):
        raise OptionError(f"the option {_BOOTSTRAP} must be given: HOST:PORT of a broker")
    deliveries = [d.value for d in Delivery]
    delivery = given.get("delivery", Delivery.EXACTLY_ONCE.value).lower()
    if delivery not in deliveries:
        raise OptionError(f"delivery must be {' or '.join(deliveries)}, not {delivery!r}")
    parsed = SinkOptions(
        bootstrap=given[_BOOTSTRAP],
        client=_client_keys(given),
        topic=given.get("topic"),
        delivery=Delivery(delivery),
        batch=_batch(given),
        staging=_staging(given),
    )
    _ = parsed.config  # checks the configs now, in the driver
    return parsed


def _batch(given: Mapping[str, str]) -> StreamBatch | None:
    query_id, batch_id = given.get("queryid"), given.get("batchid")
    if query_id is None and batch_id is None:
        return None
    if query_id is None or batch_id is None:
        raise OptionError("queryId and batchId must be given together, in foreachBatch")
    if not _QUERY_ID.fullmatch(query_id):
        raise OptionError(
            f"queryId may contain only letters, digits, '.', '_' and '-', not {query_id!r}"
        )
    if not _BATCH_ID.fullmatch(batch_id):
        raise OptionError(f"batchId must be the number of a batch, not {batch_id!r}")
    return StreamBatch(query_id, int(batch_id))


def _client_keys(given: Mapping[str, str]) -> dict[str, str]:
    client: dict[str, str] = {}
    for name, value in given.items():
        if not name.startswith("kafka.") or name == _BOOTSTRAP:
            continue
        key = name.removeprefix("kafka.")
        if key in _KEYS_REFUSED:
            raise OptionError(f"the option {name} {_KEYS_REFUSED[key]}")
        if key in _NEUTRAL and value.lower() not in _NEUTRAL[key]:
            raise OptionError(f"the option {name} must be {_NEUTRAL[key][0]} here, not {value!r}")
        client[key] = value
    return client


def _staging(given: Mapping[str, str]) -> str | None:
    if "staginglocation" in given:
        place = given["staginglocation"]
    elif "checkpointlocation" in given:
        place = f"{given['checkpointlocation'].rstrip('/')}/pk-staging"
    else:
        return None
    # A task may have another working directory than the driver.
    return place if "://" in place or place.startswith("file:") else str(Path(place).absolute())


_TEXT: Final = (StringType, BinaryType)


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise OptionError unless the rows have the columns of a record. Other columns are ignored, as
    in Spark."""
    fields = {f.name: f for f in schema.fields}
    if "value" not in fields:
        raise OptionError("the rows need a column value, a string or binary")
    if topic is None and "topic" not in fields:
        raise OptionError("the option topic must be given if the rows have no column topic")
    for name in ("key", "value"):
        _check(fields, name, _TEXT, "a string or binary")
    _check(fields, "topic", (StringType,), "a string")
    _check(fields, "partition", (IntegerType,), "an int")
    if "headers" in fields and not _is_headers(fields["headers"].dataType):
        raise OptionError(
            "the column headers must be an array<struct<key:string,value:binary>>, not"
            f" {fields['headers'].dataType.simpleString()}"
        )


def _check(
    fields: Mapping[str, StructField], name: str, types: tuple[type[DataType], ...], what: str
) -> None:
    if name in fields and not isinstance(fields[name].dataType, types):
        kind = fields[name].dataType.simpleString()
        raise OptionError(f"the column {name} must be {what}, not {kind}")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    types = [(f.name, type(f.dataType)) for f in kind.elementType.fields]
    return types == [("key", StringType), ("value", BinaryType)]
