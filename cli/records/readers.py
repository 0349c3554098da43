"""The formats of `pk produce`: convert lines to records."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from pk.cli.exits import Unusable
from pk.cli.output.formats import unescape
from pk.cli.positions.times import TIME_MAX_MS
from pk.cli.records.csv import CsvRows
from pk.cli.records.row import RECORD_FIELDS
from pk.core.nearest import did_you_mean

Headers = tuple[tuple[str, bytes | None], ...]


class NewRecord(NamedTuple):
    """A record to write. `topic`, `partition` and `timestamp` are None if the line does not give
    them.

    A timestamp of -1 means that the record has none, as with clients of Kafka 0.9; it is written
    unchanged.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None
    topic: str | None = None


class BadLine(ValueError):
    """A line is not a record in the given format."""


LineReader = Callable[[bytes], NewRecord]


Pair = tuple[bytes | None, bytes | None]


class Reading(NamedTuple):
    """How to read lines."""

    read: LineReader
    plain: bool
    """Whether a line contains only a value."""

    pairs: Callable[[Sequence[bytes]], list[Pair] | None] | None = None
    """Reads many lines at once as (key, value), if a line contains nothing else. Returns None if a
    line does not fit; `read` then reports why."""

    shape: str = "value"
    """The expected form of a line, for error messages."""

    rows: CsvRows | None = None
    """Joins lines into rows for `read`, if a row may span lines."""

    given: Mapping[str, str] = MappingProxyType({})
    """The fields that every line gives, each with the part of the format that selects it:
    {"partition": "%p"}."""


_CUT = itemgetter(1)


def _cut_all(separator: bytes) -> Callable[[Sequence[bytes]], list[Pair] | None]:
    def pairs(lines: Sequence[bytes]) -> list[Pair] | None:
        found = [line.partition(separator) for line in lines]
        if not all(map(_CUT, found)):
            return None
        return [(key, value) for key, _, value in found]

    return pairs


_FIELDS = frozenset(RECORD_FIELDS)
_USUAL = _FIELDS - {"key_b64", "value_b64"}


def _bytes(value: Any) -> bytes | None:
    """A text as UTF-8, null as None, {"b64": …} as its bytes, and anything else as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict):
        packed = cast("dict[str, Any]", value)
        if set(packed) == {"b64"} and isinstance(packed["b64"], str):
            return _b64(packed["b64"])
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _b64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise BadLine("a field that ends with _b64 must be a base64 string")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadLine(f"not base64: {text[:40]!r}") from None


def _headers(found: Any) -> Headers:
    if found is None:
        return ()
    pairs = list(cast("dict[str, Any]", found).items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list):
        raise BadLine("headers must be a list of pairs")
    headers: list[tuple[str, bytes | None]] = []
    for pair in cast("list[Any]", pairs):
        parts = cast("Sequence[Any]", pair) if isinstance(pair, list | tuple) else ()
        if len(parts) != 2 or not isinstance(parts[0], str):
            raise BadLine(f"a header must be a pair of name and value, not {json.dumps(pair)}")
        headers.append((_encodable(parts[0], "the name of a header"), _bytes(parts[1])))
    return tuple(headers)


def _encodable(text: str, what: str) -> str:
    """Return `text` if UTF-8 can encode it: JSON may contain half a surrogate pair. Raises
    BadLine."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadLine(f"{what} is not valid text: {json.dumps(text)}") from None
    return text


def _field(found: Mapping[str, Any], name: str) -> bytes | None:
    packed = f"{name}_b64"
    if packed in found:
        if found.get(name) is not None:
            raise BadLine(f"{name} and {packed} are both given")
        return _b64(found[packed])
    return _bytes(found.get(name))


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadLine(f"{name} must be a whole number, not {json.dumps(value)}")
    return _bounded(value, name)


def _bounded(number: int, name: str) -> int:
    if number > TIME_MAX_MS:
        raise BadLine(f"{name} is too large")
    if number < -TIME_MAX_MS:
        raise BadLine(f"{name} is too small")
    return number


_READ = json.JSONDecoder().raw_decode


def read_json(line: bytes) -> NewRecord:
    """Read a record from a line of `jsonl`. Raises BadLine."""
    try:
        text = line.decode()
        found, end = _READ(text)
        row: dict[str, Any] = found
        if end == len(text) and type(found) is dict and row.keys() <= _USUAL:
            key, value, headers = row.get("key"), row.get("value"), row.get("headers")
            timestamp, topic = row.get("timestamp"), row.get("topic")
            if (
                (key is None or type(key) is str)
                and (value is None or type(value) is str)
                and (
                    timestamp is None or (type(timestamp) is int and -1 <= timestamp <= TIME_MAX_MS)
                )
                and (topic is None or (type(topic) is str and topic.isascii()))
            ):
                return NewRecord(
                    None if key is None else key.encode(),
                    None if value is None else value.encode(),
                    _headers(headers) if headers else (),
                    timestamp,
                    _whole(row, "partition"),
                    topic,
                )
    except (ValueError, RecursionError):
        pass  # the careful function below finds the right error message
    return _read_json_carefully(line)


def _read_json_carefully(line: bytes) -> NewRecord:
    """Do the same as `read_json`, which is faster for the usual line, but find the right error."""
    try:
        found = json.loads(line)
    except ValueError as e:
        raise BadLine(f"not JSON ({e})") from None
    except RecursionError:
        raise BadLine("the JSON is nested too deeply") from None
    if not isinstance(found, dict):
        raise BadLine('it must be an object such as {"key": "a", "value": "b"}')
    return _record(cast("dict[str, Any]", found))


def _record(found: Mapping[str, Any]) -> NewRecord:
    """Make a record from its fields. Raises BadLine."""
    unknown = [name for name in found if name not in _FIELDS]
    if unknown:
        hint = did_you_mean(unknown[0], _FIELDS, f"; the fields are {', '.join(sorted(_FIELDS))}")
        raise BadLine(f"unknown field {unknown[0]!r}{hint}")
    timestamp = _whole(found, "timestamp")
    topic = found.get("topic")
    if topic is not None and not isinstance(topic, str):
        raise BadLine("topic must be a string")
    if topic is not None:
        _encodable(topic, "topic")
    return NewRecord(
        _field(found, "key"),
        _field(found, "value"),
        _headers(found.get("headers")),
        timestamp,
        _whole(found, "partition"),
        topic,
    )


def csv_reading() -> Reading:
    """How to read CSV: the first row names the columns."""
    rows = CsvRows()

    def read(row: bytes) -> NewRecord:
        try:
            return _record(rows.fields(row))
        except BadLine:
            raise
        except UnicodeDecodeError:
            raise BadLine("it is not UTF-8") from None
        except RecursionError:
            raise BadLine("the headers are nested too deeply") from None
        except ValueError as e:
            raise BadLine(str(e)) from None

    return Reading(read, False, None, "a row of CSV", rows)


_PROPERTIES = {
    "parse.key": "false",
    "key.separator": "\t",
    "parse.headers": "false",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
    "null.marker": "",
}


def apache_reading(pairs: Iterable[tuple[str, str]]) -> Reading:
    """How to read lines as Apache's LineMessageReader does with these properties. Raises
    Unusable."""
    given = dict(pairs)
    for name in given:
        if name not in _PROPERTIES:
            hint = did_you_mean(
                name, _PROPERTIES, f"; the properties are {', '.join(_PROPERTIES)}."
            )
            raise Unusable(f"--property: the reader has no property {name!r}{hint}")
    values = {**_PROPERTIES, **given}

    def on(name: str) -> bool:
        return values[name].strip().lower() == "true"

    def separator(name: str) -> bytes:
        text = unescape(values[name]).encode(errors="surrogateescape")
        if not text:
            raise Unusable(f"--property: {name} is empty.")
        return text

    keyed, headed = on("parse.key"), on("parse.headers")
    key_end, headers_end = separator("key.separator"), separator("headers.delimiter")
    null = (
        values["null.marker"].encode(errors="surrogateescape") if "null.marker" in given else None
    )
    read = _apache(
        keyed=keyed,
        headed=headed,
        lenient=on("ignore.error"),
        key_end=key_end,
        headers_end=headers_end,
        between=separator("headers.separator"),
        name_end=separator("headers.key.separator"),
        null=null,
    )
    shape = "value"
    if keyed:
        shape = f"key{_visible(key_end)}{shape}"
    if headed:
        shape = f"headers{_visible(headers_end)}{shape}"
    bulk = keyed and not headed and null is None
    plain = not keyed and not headed and null is None
    given = {"key": "parse.key"} if keyed else {}
    return Reading(read, plain, _cut_all(key_end) if bulk else None, shape, given=given)


def _visible(separator: bytes) -> str:
    return {b"\t": " TAB ", b" ": " BLANK "}.get(separator) or _text(separator)


def _text(data: bytes) -> str:
    """Show arbitrary bytes as text in a message."""
    return data.decode(errors="replace")


def _apache(
    *,
    keyed: bool,
    headed: bool,
    lenient: bool,
    key_end: bytes,
    headers_end: bytes,
    between: bytes,
    name_end: bytes,
    null: bytes | None,
) -> LineReader:
    def cut(line: bytes, end: bytes, what: str) -> tuple[bytes | None, bytes]:
        head, found, rest = line.partition(end)
        if found:
            return head, rest
        if lenient:
            return None, line
        raise BadLine(f"it has no {what} {_text(end)!r}")

    def header(pair: bytes) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(name_end)
        if not found:
            if lenient:
                return pair.decode(), None
            raise BadLine(f"the header {_text(pair)!r} has no {_text(name_end)!r}")
        if name == null:
            raise BadLine("the name of a header is the null marker")
        return name.decode(), None if value == null else value

    def read(line: bytes) -> NewRecord:
        headers: Headers = ()
        key: bytes | None = None
        try:
            if headed:
                found, line = cut(line, headers_end, "end of headers")
                if found is not None and found != null:
                    headers = tuple(header(pair) for pair in found.split(between))
            if keyed:
                key, line = cut(line, key_end, "key separator")
        except UnicodeDecodeError:
            raise BadLine("the name of a header is not UTF-8") from None
        return NewRecord(None if key == null else key, None if line == null else line, headers)

    return read


_KEY_AND_VALUE = re.compile(r"%k([^%{]+)%[vs]")


def token_reading(form: str) -> Reading:
    """How to read lines by %-tokens. Raises Unusable."""
    from pk.cli.records.percent_format import compile_reader

    text = unescape(form).removesuffix("\n")
    found = _KEY_AND_VALUE.fullmatch(text)
    pairs = _cut_all(found[1].encode(errors="surrogateescape")) if found else None
    shape = form.removesuffix("\\n")
    parser = compile_reader(form)

    def read(line: bytes) -> NewRecord:
        try:
            parts = parser.parse(line)
            headers = parts.get("headers")
            return NewRecord(
                parts.get("key"),
                parts.get("value"),
                tuple(_plain_header(h) for h in headers.split(b",")) if headers else (),
                _moment(parts.get("timestamp")),
                _number(parts.get("partition"), "%p"),
                parts["topic"].decode() if "topic" in parts else None,
            )
        except BadLine:
            raise
        except (ValueError, binascii.Error) as e:
            raise BadLine(str(e)) from None

    return Reading(read, text in ("%v", "%s"), pairs, shape, given=parser.tokens)


def _plain_header(pair: bytes) -> tuple[str, bytes]:
    name, found, value = pair.partition(b"=")
    if not found:
        raise BadLine(f"%h must be NAME=VALUE,NAME=VALUE, not {pair.decode(errors='replace')!r}")
    return name.decode(), value


def _number(text: bytes | None, token: str) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise BadLine(
            f"{token} must be a whole number, not {text.decode(errors='replace')!r}"
        ) from None


def _moment(text: bytes | None) -> int | None:
    if text is None:
        return None
    from pk.cli.positions.resolve import now_ms
    from pk.cli.positions.times import time_ms

    word = text.decode()
    return (
        _bounded(int(word), "the timestamp")
        if word == "-1" or (word.isascii() and word.isdigit())
        else time_ms(word, now_ms())
    )


def reading(form: str | None, properties: Iterable[tuple[str, str]]) -> Reading:
    """How to read lines, according to -f and the reader's properties. Raises Unusable."""
    pairs = list(properties)
    if form is not None and form != "value" and pairs:
        raise Unusable("--property is for Apache's reader; it cannot be combined with -f.")
    if form == "jsonl":
        return Reading(read_json, False, None, "a JSON object with key, value, headers, …")
    if form == "csv":
        return csv_reading()
    if form is not None and "%" in form:
        return token_reading(form)
    if form not in (None, "value"):
        raise Unusable(
            f"-f must be value, jsonl, csv or %-tokens such as '%k\\t%v\\n', not {form!r}."
        )
    return apache_reading(pairs)
