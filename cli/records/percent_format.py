"""The %-tokens of kcat and rpk, for writing records (`consume -f`) and for reading them (`produce
-f`).

If the two disagree, kcat's meaning applies: %T is the time, not a length.
"""

import base64
import json
import re
import struct
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from pk.cli.exits import Unusable
from pk.cli.output.formats import unescape
from pk.cli.positions.times import show_time
from pk.cli.records.permalinks import link_to
from pk.cli.records.source import Source
from pk.core.record.batch import Record
from pk.core.record.compress import Codec

Piece = Callable[[Source, Record, int], bytes]


def _hex(bits: int) -> Callable[[int], bytes]:
    return lambda n: b"%0*x" % (bits // 4, n & ((1 << bits) - 1))


def _binary(bits: int, order: Literal["big", "little"]) -> Callable[[int], bytes]:
    return lambda n: (n & ((1 << bits) - 1)).to_bytes(bits // 8, order)


_NUMBERS: dict[str, Callable[[int], bytes]] = {
    "ascii": lambda n: b"%d" % n,
    "byte": lambda n: (n & 0xFF).to_bytes(1, "big"),
    "bool": lambda n: b"true" if n else b"false",
    **{f"hex{bits}": _hex(bits) for bits in (64, 32, 16, 8, 4)},
    **{f"big{bits}": _binary(bits, "big") for bits in (64, 32, 16, 8)},
    **{f"little{bits}": _binary(bits, "little") for bits in (64, 32, 16, 8)},
}
_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
    "base64raw": lambda data: base64.b64encode(data).rstrip(b"="),
}


_PACKED = {
    "b": "b", "B": "B", "h": "h", "H": "H", "i": "i", "I": "I",
    "q": "q", "Q": "Q", "c": "c", ".": "c",
}  # fmt: skip


def _unpack(layout: str) -> Callable[[bytes], bytes]:
    """Make the function for `unpack[>Iq s]`, as in kcat's -s and in rpk: it converts consecutive
    numbers and texts, separated by spaces in the output. Raises Unusable for unknown letters. If
    data does not fit, the output says so."""
    order = ">"
    letters: list[tuple[str, str]] = []
    for letter in layout.replace(" ", ""):
        if letter in "<>":
            order = letter
        elif letter in _PACKED or letter in "s$":
            letters.append((order, letter))
        else:
            raise Unusable(f"-f: unpack takes < > b B h H i I q Q c . s $, not {letter!r}.")
    return lambda data: _unpacked(letters, data)


def _unpacked(letters: Sequence[tuple[str, str]], data: bytes) -> bytes:
    out: list[bytes] = []
    at = 0
    for order, letter in letters:
        if letter == "s":
            out.append(data[at:])
            at = len(data)
        elif letter == "$":
            if at != len(data):
                return b"(%d bytes are left)" % (len(data) - at)
        else:
            form = order + _PACKED[letter]
            if at + struct.calcsize(form) > len(data):
                return b"(too short for %s)" % letter.encode()
            (value,) = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
            out.append(value if isinstance(value, bytes) else b"%d" % value)
    return b" ".join(out)


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _known(value: int | None) -> int:
    """Return `value`, a value of the record's batch. Raises Unusable if it is None, since records
    were not read as batches."""
    if value is None:
        raise Unusable("-f: %a, %x and %y are unknown when a group reads with -n.")
    return value


def _mark(value: int | None) -> int:
    """Return `value`, a bound of the partition. Raises Unusable if it is None, since there was no
    fetch."""
    if value is None:
        raise Unusable(
            "-f: %[, %| and %] are unknown for files, and when a group reads with -n; "
            "`pk topics offsets` shows where partitions begin and end."
        )
    return value


_NUMBER_TOKENS: dict[str, Callable[[Source, Record, int], int]] = {
    "p": lambda s, r, i: s.partition,
    "o": lambda s, r, i: r.offset,
    "e": lambda s, r, i: s.leader_epoch,
    "T": lambda s, r, i: r.timestamp,
    "K": lambda s, r, i: _length(r.key),
    "V": lambda s, r, i: _length(r.value),
    "S": lambda s, r, i: _length(r.value),
    "H": lambda s, r, i: len(r.headers),
    "i": lambda s, r, i: i,
    "a": lambda s, r, i: _known(s.attributes),
    "x": lambda s, r, i: _known(s.producer_id),
    "y": lambda s, r, i: _known(s.producer_epoch),
    "[": lambda s, r, i: _mark(s.log_start),
    "|": lambda s, r, i: _mark(s.last_stable),
    "]": lambda s, r, i: _mark(s.high_watermark),
}
_CODECS = {codec.value: codec.name.lower().encode() for codec in Codec}
_ATTRIBUTES: dict[str, Callable[[int], bytes]] = {
    "compression": lambda a: _CODECS.get(a & 7, b"%d" % (a & 7)),
    "compression;number": lambda a: b"%d" % (a & 7),
    "timestamp-type": lambda a: b"%d" % (a >> 3 & 1),
    "transactional-bit": lambda a: b"%d" % (a >> 4 & 1),
    "control-bit": lambda a: b"%d" % (a >> 5 & 1),
}
"""The parts of a batch's attributes that `%a{…}` selects, as in rpk."""
_TEXT_TOKENS: dict[str, Callable[[Source, Record], bytes]] = {
    "t": lambda s, r: s.topic.encode(),
    "k": lambda s, r: r.key or b"",
    "v": lambda s, r: r.value or b"",
    "s": lambda s, r: r.value or b"",
}


def _modifier(text: str, position: int) -> tuple[str | None, int]:
    """The text between the braces at `position`, which may be nested, and the position after
    them."""
    if text[position : position + 1] != "{":
        return None, position
    depth, i, in_brackets = 0, position, False
    while i < len(text):
        if text[i] == "[":
            in_brackets = True
        elif text[i] == "]":
            in_brackets = False
        elif not in_brackets and text[i] == "{":
            depth += 1
        elif not in_brackets and text[i] == "}":
            depth -= 1
            if depth == 0:
                return text[position + 1 : i], i + 1
        i += 1
    raise Unusable(
        f"-f: a brace is not closed in {text[position:]!r}; %{{ and %}} are braces themselves."
    )


def compile_tokens(form: str) -> list[Piece]:
    """Compile a format to pieces, each a function of the record. Raises Unusable."""
    text = unescape(form)
    pieces: list[Piece] = []
    literal = ""
    i = 0
    while i < len(text):
        if text[i] != "%":
            literal += text[i]
            i += 1
            continue
        token = text[i + 1 : i + 2]
        i += 2
        if token in ("%", "{", "}"):
            literal += token
            continue
        modifier, i = _modifier(text, i)
        if literal:
            pieces.append(_constant(literal.encode(errors="surrogateescape")))
            literal = ""
        pieces.append(_piece(token, modifier))
    if literal:
        pieces.append(_constant(literal.encode(errors="surrogateescape")))
    return pieces


def _constant(data: bytes) -> Piece:
    return lambda s, r, i: data


def _piece(token: str, modifier: str | None) -> Piece:
    if token == "a" and modifier in _ATTRIBUTES:
        attribute = _ATTRIBUTES[modifier]
        return lambda s, r, i: attribute(_known(s.attributes))
    if token in _NUMBER_TOKENS:
        number = _NUMBER_TOKENS[token]
        show = _NUMBERS.get(modifier or "ascii")
        if show is None:
            takes = [*(_ATTRIBUTES if token == "a" else ()), *_NUMBERS]
            raise Unusable(f"-f: %{token} takes {', '.join(takes)}, not {modifier!r}.")
        return lambda s, r, i: show(number(s, r, i))
    if token in _TEXT_TOKENS:
        text = _TEXT_TOKENS[token]
        if modifier is None:
            return lambda s, r, i: text(s, r)
        packed = modifier.startswith("unpack[") and modifier.endswith("]")
        encode = _unpack(modifier[7:-1]) if packed else _TEXTS.get(modifier)
        if encode is None:
            raise Unusable(
                f"-f: %{token} takes {', '.join(_TEXTS)} or unpack[…], not {modifier!r}."
            )
        return lambda s, r, i: encode(text(s, r))
    if token == "R":
        return lambda s, r, i: (_length(r.value) & 0xFFFFFFFF).to_bytes(4, "big")
    if token == "h":
        return _headers(modifier)
    if token == "d":
        return _time(modifier)
    if token == "L" and modifier is None:
        return lambda s, r, i: link_to(s.profile, s.topic, s.partition, r.offset).encode()
    if token in ("D", "A"):
        raise Unusable(f"-f: %{token} is for records of share groups, and pk does not support it.")
    raise Unusable(
        f"-f: unknown token {'%' + token!r}; `pk help formats` lists them, and %% is a percent."
    )


def _headers(modifier: str | None) -> Piece:
    if modifier is None:
        return lambda s, r, i: b",".join(n.encode() + b"=" + (v or b"") for n, v in r.headers)
    inner = compile_tokens(modifier)

    def each(source: Source, record: Record, i: int) -> bytes:
        out: list[bytes] = []
        for name, value in record.headers:
            one = record._replace(key=name.encode(), value=value, headers=())
            out.extend(piece(source, one, i) for piece in inner)
        return b"".join(out)

    return each


def _time(modifier: str | None) -> Piece:
    if modifier is None:
        return lambda s, r, i: show_time(r.timestamp).encode()
    if modifier.startswith("strftime[") and modifier.endswith("]"):
        pattern = modifier[9:-1]
        return lambda s, r, i: _formatted(r.timestamp, pattern).encode(errors="surrogateescape")
    show = _NUMBERS.get(modifier)
    if show is None:
        raise Unusable(f"-f: %d takes strftime[…] or {', '.join(_NUMBERS)}, not {modifier!r}.")
    return lambda s, r, i: show(r.timestamp)


def _formatted(timestamp: int, pattern: str) -> str:
    if timestamp < 0:
        return ""  # the record has no time
    try:
        return datetime.fromtimestamp(timestamp / 1000).strftime(pattern)
    except (ValueError, OverflowError, OSError):
        return str(timestamp)  # the time is beyond the calendar


def token_writer(form: str) -> Callable[[Source, Sequence[Record]], bytes]:
    """A function that writes records by the tokens of `form`. Raises Unusable."""
    pieces = compile_tokens(form)
    counter = 0

    def batch(source: Source, records: Sequence[Record]) -> bytes:
        nonlocal counter
        out: list[bytes] = []
        for record in records:
            counter += 1
            for piece in pieces:
                out.append(piece(source, record, counter))
        return b"".join(out)

    return batch


def only_value_then(form: str) -> bytes | None:
    """The text after each value if `form` is a value followed by constant text; otherwise None.
    Raises Unusable."""
    found = re.fullmatch(r"%[vs]((?:[^%]|%[%{}])*)", form, re.DOTALL)
    if found is None or found[1].startswith("{"):
        return None
    return re.sub(r"%(.)", r"\1", unescape(found[1]), flags=re.DOTALL).encode(
        errors="surrogateescape"
    )


_READ = {
    "k": "key",
    "v": "value",
    "s": "value",
    "p": "partition",
    "T": "timestamp",
    "d": "timestamp",
    "h": "headers",
    "t": "topic",
}


class LineParser(NamedTuple):
    """Parses lines by tokens."""

    parse: Callable[[bytes], dict[str, bytes]]
    """The fields of a line. Raises ValueError if the line does not fit."""

    tokens: dict[str, str]
    """The token of each field: {"partition": "%p"}."""


def compile_reader(form: str) -> LineParser:
    """Compile `form` to a parser of lines, which must contain its literal text. Raises Unusable."""
    text = unescape(form).removesuffix("\n")
    pattern, i = b"", 0
    names: list[tuple[str, str | None]] = []
    tokens: dict[str, str] = {}
    while i < len(text):
        if text[i] != "%":
            pattern += re.escape(text[i].encode(errors="surrogateescape"))
            i += 1
            continue
        token = text[i + 1 : i + 2]
        i += 2
        if token in ("%", "{", "}"):
            pattern += re.escape(token.encode())
            continue
        modifier, i = _modifier(text, i)
        name = _READ.get(token)
        if token in ("K", "V", "S", "R", "H"):
            raise Unusable(
                f"-f: %{token} is a length, and pk does not read input by lengths; -f jsonl takes "
                "any bytes."
            )
        if token == "o":
            raise Unusable(
                "-f: %o cannot be written, because the broker assigns offsets; -f jsonl "
                "and -f csv skip the offsets of their input."
            )
        if name is None or name in tokens:
            raise Unusable(
                f"-f: %{token} cannot be read from a line; the tokens are "
                f"{', '.join('%' + t for t in _READ)}, each once."
            )
        last = i >= len(text)
        part = b"(.*)" if last else b"(.*?)"
        if modifier is not None and modifier.startswith("re[") and modifier.endswith("]"):
            part, modifier = _own_pattern(token, modifier[3:-1]), None
        textual = name in ("key", "value")
        if modifier not in (None, "hex", "base64", "json") or (modifier and not textual):
            raise Unusable(
                f"-f: %{token} takes {{re[…]}} and, for a key or a value, {{hex}}, {{base64}} or "
                f"{{json}}, not {modifier!r}."
            )
        names.append((name, modifier))
        tokens[name] = f"%{token}"
        pattern += part
    compiled = re.compile(pattern, re.DOTALL)

    def parse(line: bytes) -> dict[str, bytes]:
        found = compiled.fullmatch(line)
        if found is None:
            raise ValueError(f"the line does not fit the format '{form}'")
        return {
            name: _decode(part, modifier)
            for (name, modifier), part in zip(names, found.groups(), strict=True)
        }

    return LineParser(parse, tokens)


def _own_pattern(token: str, expression: str) -> bytes:
    """The pattern of `%k{re[…]}` as one group. Raises Unusable."""
    try:
        groups = re.compile(expression.encode(errors="surrogateescape")).groups
    except re.error as e:
        raise Unusable(f"-f: %{token}: {e}: {expression!r}.") from None
    if groups:
        raise Unusable(f"-f: %{token}: {expression!r} contains groups; write (?:…) instead of (…).")
    return b"(" + expression.encode(errors="surrogateescape") + b")"


def _decode(data: bytes, modifier: str | None) -> bytes:
    if modifier == "json":
        json.loads(data)
    if modifier == "hex":
        return bytes.fromhex(data.decode("ascii"))
    if modifier == "base64":
        return base64.b64decode(data, validate=True)
    return data
