"""Dead letters: records that a pipeline could not process, sent to a topic of their own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from pk.net.client.config import ProducerConfig, parse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADER: Final = "__pk.errors."
"""The prefix of the names of a dead letter's headers; Kafka Streams uses `__streams.errors.`"""

_LIMIT: Final = "kafka.max.request.size"
_RECORD: Final = ("topic", "partition", "offset")
_REASON: Final = 1_000
"""The longest reason, in characters, since a reason may contain the value that does not fit."""

_BESIDE: Final = 200
"""An upper bound for the bytes of a one-record batch in addition to its key, value and headers."""

_BESIDE_HEADER: Final = 12


def size_limit(kafka: Mapping[str, str]) -> int:
    """The size limit for records of a pipeline's producers, in bytes. Raises ConfigError."""
    given = {"max.request.size": kafka[_LIMIT]} if _LIMIT in kafka else {}
    return parse(ProducerConfig, given).max_request_size


def letters(
    raw: "DataFrame",
    topic: str | None,
    key: "Column",
    value: "Column",
    says: "Mapping[str, Column]",
    limit: int,
) -> "DataFrame":
    """Convert the records `raw` to dead letters, with their original key and value. `says` has the
    headers that explain the failure, under names without the prefix. Fields that would make a dead
    letter larger than `limit` are dropped and named in a header, since a refused record would stop
    the pipeline."""
    places = {name: f.col(name).cast("string") for name in _RECORD}
    why = {name: f.left(text, f.lit(_REASON)) for name, text in says.items()}
    ours = [_header(name, text) for name, text in {**places, **why}.items()]
    nothing = f.array().cast("array<struct<key:string,value:binary>>")
    theirs = f.coalesce(f.col("headers"), nothing)
    whole = f.concat(theirs, f.array(*ours))
    rest = _bytes_of(key) + _headers_size(whole) + _BESIDE
    all_of_it, rest_of_it = rest + _bytes_of(value) > limit, rest > limit
    dropped = (
        [_header("dropped", f.lit("value"))],
        [_header("dropped", f.lit("key, value, headers"))],
    )
    return raw.select(
        f.when(~rest_of_it, key).alias("key"),
        f.when(~all_of_it, value).alias("value"),
        f.when(rest_of_it, f.array(*ours, *dropped[1]))
        .when(all_of_it, f.concat(whole, f.array(*dropped[0])))
        .otherwise(whole)
        .alias("headers"),
        f.lit(topic).alias("topic"),
    )


def _header(name: str, text: "Column") -> "Column":
    return f.struct(f.lit(HEADER + name).alias("key"), f.encode(text, "utf-8").alias("value"))


def _bytes_of(column: "Column") -> "Column":
    return f.coalesce(f.octet_length(column), f.lit(0))


def _headers_size(headers: "Column") -> "Column":
    def add(total: "Column", each: "Column") -> "Column":
        return total + _bytes_of(each["key"]) + _bytes_of(each["value"]) + _BESIDE_HEADER

    return f.aggregate(headers, f.lit(0), add)
