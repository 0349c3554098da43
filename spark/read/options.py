"""The options of reading with the `pk` data source, which have the same names and meanings as in
Spark's own Kafka source.

Names are case-insensitive, as in Spark. An option that would have no effect is refused with the
reason, and not ignored: this source joins no consumer group and has no consumer pool, so options
for those do not apply.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pk.core.nearest import did_you_mean_one_of, nearest
from pk.core.values import TopicPartition
from pk.net.client.config import ClientConfig, ConsumerConfig, keys
from pk.net.client.results import EARLIEST, LATEST
from pk.spark.errors import OptionError
from pk.spark.read.ranges import OFFSETS_A_RANGE
from pk.spark.read.read_options import WAIT_MS, ReadOptions

_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")
_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_READ_KEYS: Final = {
    "check.crcs",
    "client.rack",
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "isolation.level",
    "max.partition.fetch.bytes",
}
"""Consumer configs that apply to a read without a group, in addition to the configs of every
client."""

_NAMES: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
)
_STREAM_NAMES: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_BATCH_NAMES: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_MAX_DELAY_MS: Final = 15 * 60 * 1000
_DURATION: Final = re.compile(r"\s*([0-9]{1,18})\s*(us|ms|s|m|min|h|d)?\s*")
_UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}

_GROUP: Final = "names a consumer group, but this source joins none; leave it out"
_RETRIES: Final = "is not needed; kafka.default.api.timeout.ms sets how long to retry"
_REFUSED: Final = {
    "groupidprefix": _GROUP,
    "kafka.group.id": _GROUP,
    "fetchoffset.numretries": _RETRIES,
    "fetchoffset.retryintervalms": _RETRIES,
    "kafka.auto.offset.reset": "is replaced by startingOffsets here",
    "kafka.enable.auto.commit": "has no effect, because this source commits nothing; leave it out",
    "kafka.key.deserializer": "names a Java class; keys are bytes here",
    "kafka.value.deserializer": "names a Java class; values are bytes here",
    "kafka.interceptor.classes": "names Java classes",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or end of ranges: one timestamp for all partitions, or an offset or timestamp for
    each partition."""

    everywhere: int | None = None
    """Epoch milliseconds, or EARLIEST or LATEST."""

    offsets: Mapping[TopicPartition, int] | None = None
    times: Mapping[TopicPartition, int] | None = None
    otherwise_latest: bool = True
    """Whether to use the end of a partition that has no record at or after the timestamp. Otherwise
    that is an error."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits for the size of a stream's batches."""

    offsets_max: int | None = None
    """The largest number of offsets in a batch, shared between the partitions
    (`maxOffsetsPerTrigger`)."""

    offsets_min: int | None = None
    """The number of new offsets that a batch waits for (`minOffsetsPerTrigger`)."""

    delay_max_ms: int = _MAX_DELAY_MS
    """The longest time since the previous batch that a batch waits for new offsets
    (`maxTriggerDelay`)."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of a read. Exactly one of `topics`, `pattern` and `assigned` is set."""

    read: ReadOptions
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    assigned: tuple[TopicPartition, ...] = ()
    begin: Bound = field(default_factory=lambda: Bound(EARLIEST))
    end: Bound = field(default_factory=lambda: Bound(LATEST))
    min_ranges: int = 1
    offsets_max: int = OFFSETS_A_RANGE
    limits: BatchLimits = field(default_factory=BatchLimits)


def parse_options(options: Mapping[str, str], *, stream: bool = False) -> SourceOptions:
    """Parse the options that Spark passes to a batch read or a stream. Raises OptionError,
    ConfigError."""
    given = {name.lower(): str(value) for name, value in options.items()}
    client = _client_keys(given)
    _refuse_unknown(given, stream)
    if not given.get(_BOOTSTRAP):
        raise OptionError(f"the option {_BOOTSTRAP} must be given: HOST:PORT of a broker")
    read = ReadOptions(
        bootstrap=given[_BOOTSTRAP],
        client=client,
        headers=_flag(given, "includeHeaders", False),
        fail_on_data_loss=_flag(given, "failOnDataLoss", True),
        wait_ms=_count(given, "kafkaConsumer.pollTimeoutMs", WAIT_MS),
    )
    _ = read.config  # checks the configs now, in the driver
    topics, pattern, assigned = _what(given)
    return SourceOptions(
        read=read,
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        begin=_bound(given, "starting", LATEST if stream else EARLIEST, stream),
        end=_bound(given, "ending", LATEST, stream),
        min_ranges=_count(given, "minPartitions", 1),
        offsets_max=_count(given, "maxRecordsPerPartition", OFFSETS_A_RANGE),
        limits=_limits(given),
    )


def _refuse_unknown(given: Mapping[str, str], stream: bool) -> None:
    """Raise OptionError for options that this kind of read does not have."""
    here, elsewhere = (_STREAM_NAMES, _BATCH_NAMES) if stream else (_BATCH_NAMES, _STREAM_NAMES)
    names = {name.lower(): name for name in (*_NAMES, *here)}
    others = {name.lower(): name for name in elsewhere}
    for name in given:
        if name.startswith("kafka.") or name in names:
            continue
        if name in _REFUSED:
            raise OptionError(f"the option {name} {_REFUSED[name]}")
        if name in others:
            kinds = ("batch reads", "a stream") if stream else ("streaming queries", "a batch read")
            raise OptionError(
                f"the option {others[name]} is for {kinds[0]}, and this is {kinds[1]}"
            )
        hint = did_you_mean_one_of([names[near] for near in nearest(name, names)[:1]], "")
        raise OptionError(f"{name} is not an option of the source{hint}")


def _limits(given: Mapping[str, str]) -> BatchLimits:
    most, least = (
        _count(given, name, 1) if name.lower() in given else None
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")
    )
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"minOffsetsPerTrigger ({least}) must not be above maxOffsetsPerTrigger ({most})"
        )
    delay_ms = _MAX_DELAY_MS
    if "maxtriggerdelay" in given:
        text = given["maxtriggerdelay"]
        match = _DURATION.fullmatch(text.lower())
        if match is None:
            raise OptionError(f"maxTriggerDelay must look like 500ms, 30s, 15m or 1h, not {text!r}")
        delay_ms = int(match[1]) * _UNITS_US[match[2] or "ms"] // 1_000
    return BatchLimits(most, least, delay_ms)


def _client_keys(given: Mapping[str, str]) -> dict[str, str]:
    client: dict[str, str] = {}
    everyone = keys(ClientConfig)
    for name, value in given.items():
        if not name.startswith("kafka.") or name == _BOOTSTRAP:
            continue
        if name in _REFUSED:
            raise OptionError(f"the option {name} {_REFUSED[name]}")
        key = name.removeprefix("kafka.")
        if key in keys(ConsumerConfig) and key not in everyone and key not in _READ_KEYS:
            raise OptionError(f"the option {name} has no effect in a read without a group")
        client[key] = value
    return client


def _what(
    given: Mapping[str, str],
) -> tuple[tuple[str, ...], re.Pattern[str] | None, tuple[TopicPartition, ...]]:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(ways) != 1:
        said = f"{' and '.join(ways)} were given" if ways else "none was given"
        raise OptionError(f"one of subscribe, subscribePattern and assign must be given; {said}")
    value = given[ways[0].lower()]
    if ways[0] == "subscribe":
        topics = tuple(dict.fromkeys(filter(None, (t.strip() for t in value.split(",")))))
        if not topics:
            raise OptionError("subscribe is empty: give a topic")
        return topics, None, ()
    if ways[0] == "subscribePattern":
        try:
            return (), re.compile(value), ()
        except re.error as e:
            raise OptionError(f"subscribePattern is not a valid regular expression: {e}") from None
    assigned = _per_topic("assign", value, list)
    found = [TopicPartition(t, _number("assign", p)) for t, ps in assigned.items() for p in ps]
    if not found:
        raise OptionError("assign is empty: give a partition")
    return (), None, tuple(dict.fromkeys(found))


def _bound(
    given: Mapping[str, str], side: Literal["starting", "ending"], default: int, stream: bool
) -> Bound:
    """As in Spark, one timestamp for all partitions takes precedence over timestamps for each, and
    these take precedence over offsets."""
    latest = side == "ending"
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(
            f"startingOffsetsByTimestampStrategy must be error or latest, not {strategy!r}"
        )
    latest = latest or strategy == "latest"
    name = f"{side}Timestamp"
    if name.lower() in given:
        time_ms = _number(name, given[name.lower()])
        if time_ms < 0:
            raise OptionError(f"{name} must be milliseconds since 1970, not {time_ms}")
        return Bound(time_ms, otherwise_latest=latest)
    name = f"{side}OffsetsByTimestamp"
    if name.lower() in given:
        times = _numbers(name, given[name.lower()])
        if any(time_ms < 0 for time_ms in times.values()):
            raise OptionError(f"{name} must hold milliseconds since 1970")
        return Bound(times=times, otherwise_latest=latest)
    name = f"{side}Offsets"
    text = given.get(name.lower())
    if text is None:
        return Bound(default)
    other, wrong = ("earliest", LATEST) if side == "starting" else ("latest", EARLIEST)
    word = text.strip().lower()
    if stream:
        if word in ("earliest", "latest"):
            return Bound(EARLIEST if word == "earliest" else LATEST)
        offsets = _numbers(name, text)
        if any(offset < EARLIEST for offset in offsets.values()):
            raise OptionError(f"{name} must hold offsets, -1 (latest) or -2 (earliest)")
        return Bound(offsets=offsets)
    if word in ("earliest", "latest"):
        if word != other:
            raise OptionError(f"{name} of a batch read must be {other} or JSON, not {word}")
        return Bound(default)
    offsets = _numbers(name, text)
    if wrong in offsets.values() or any(offset < EARLIEST for offset in offsets.values()):
        raise OptionError(f"{name} of a batch read must hold offsets or {default} ({other})")
    return Bound(offsets=offsets)


def _per_topic(name: str, text: str, kind: type) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as e:
        raise OptionError(f"{name} is not JSON: {e}") from None
    if not isinstance(value, dict) or not all(isinstance(v, kind) for v in value.values()):
        like = '{"topic":[0,1]}' if kind is list else '{"topic":{"0":23,"1":-2}}'
        raise OptionError(f"{name} must look like {like}, not {text!r}")
    return value


def _numbers(name: str, text: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, _number(name, partition)): _number(name, value)
        for topic, partitions in _per_topic(name, text, dict).items()
        for partition, value in partitions.items()
    }


def _number(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise OptionError(f"{name}: {value!r} is not a whole number")


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    if name.lower() not in given:
        return default
    number = _number(name, given[name.lower()])
    if number < 1:
        raise OptionError(f"{name} must be at least 1, not {number}")
    return number


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    words: dict[str, bool] = {"true": True, "false": False}
    text = given.get(name.lower(), str(default)).lower()
    if text not in words:
        raise OptionError(f"{name} must be true or false, not {text!r}")
    return words[text]
