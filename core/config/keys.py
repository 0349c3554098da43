"""Configuration keys: their type, default, bounds and scope, and the parsing of values.

The tables (`*_keys.py`) are text, because a table of 340 keys should look like a table. Each entry
is a line that defines the key,

    NAME TYPE DEFAULT [valid=BOUNDS] [dynamic=cluster|broker]

and, indented below it, one sentence of documentation. The default is `null` if there is none,
`required` if the key must be set, and `""` for the empty string. Bounds are `1..` (at least),
`1..9` (between), `-1|1..9` (or), `a,b,c` (one of), `~a,b` (the same, in any case), `*a,b` (a list
of these), `nonempty`, `nonzero`.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from functools import cache
from typing import Final

from msgspec import Struct

from pk.core.nearest import did_you_mean_key

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value: lists are tuples, classes and passwords are strings."""


class ConfigError(ValueError):
    """A key or a value is refused. The text is one sentence that names the key."""


class Type(IntEnum):
    """The types of values, numbered as in DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(IntEnum):
    """How a broker key may change at runtime (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    """The key may change for single brokers, but not as the cluster-wide default."""

    CLUSTER_WIDE = 2
    """The key may change for single brokers and as the cluster-wide default."""


_INT_BITS: Final = {Type.SHORT: 15, Type.INT: 31, Type.LONG: 63}
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_COMMA: Final = re.compile(r"\s*,\s*")


class Key(Struct, frozen=True):
    """One configuration key."""

    name: str
    type: Type
    default: str | None
    """The text of the default, or None."""

    doc: str
    valid: str = ""
    scope: Scope = Scope.READ_ONLY
    required: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret, which is never returned and never logged."""
        return self.type in (Type.PASSWORD, Type.UNKNOWN)

    @property
    def dynamic(self) -> bool:
        """Whether a running broker accepts a new value."""
        return self.scope is not Scope.READ_ONLY

    def parse(self, text: str | None) -> Value:
        """Parse a value. Raises ConfigError if it is invalid or out of bounds."""
        if text is None:
            if self.default is None:
                return None
            raise ConfigError(f"{self.name} must have a value")
        value = self._convert(text.strip())
        _parse_bounds(self.valid).check(self, value)
        return value

    def default_value(self) -> Value:
        """Return the parsed default. (A default may be out of bounds: null and "" mean "not
        set".)"""
        return None if self.default is None else self._convert(self.default)

    def text(self, value: Value) -> str | None:
        """Return `value` as DescribeConfigs prints it, or None for a secret."""
        if value is None or self.sensitive:
            return None
        return value_text(value)

    def invalid(self, text: str, why: str) -> ConfigError:
        """Return the error for a value, with Apache's message, because scripts match it."""
        shown = "[hidden]" if self.sensitive else text[:80]
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {why}")

    def _convert(self, text: str) -> Value:
        kind = self.type
        if kind is Type.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise self.invalid(text, "Expected value to be either true or false")
            return lowered == "true"
        if kind in _INT_BITS:
            bits = _INT_BITS[kind]
            # Converting an int of a million digits takes seconds, so check its length first.
            if len(text) > 20 or not _WHOLE.fullmatch(text):
                raise self.invalid(text, f"Not a number of type {kind.name}")
            number = int(text)
            if not -(1 << bits) <= number < 1 << bits:
                raise self.invalid(text, f"Not a number of type {kind.name}")
            return number
        if kind is Type.DOUBLE:
            try:
                if "_" in text:  # Python would accept 1_0 as 10.
                    raise ValueError
                return float(text)
            except ValueError:
                raise self.invalid(text, "Not a number of type DOUBLE") from None
        if kind is Type.LIST:
            return tuple(_COMMA.split(text)) if text else ()
        return text


_REQUIREMENTS: Final = {
    "log.cleaner.dedupe.buffer.size": "must be at least 1MB per cleaner thread.",
    "log.retention.ms": "must be unlimited (-1) or, greater than or equal to 1",
    "log.roll.jitter.ms": "must be greater than or equal to 0",
    "log.roll.ms": "must be greater than or equal to 1",
}
"""Bounds that Apache Kafka checks separately from a key's definition, and its messages for them."""


class _Bounds(Struct, frozen=True):
    """The constraints on a value beyond its type."""

    low: float | None = None
    high: float | None = None
    also: float | None = None
    choices: tuple[str, ...] = ()
    fold: bool = False
    nonempty: bool = False
    nonzero: bool = False

    def check(self, key: Key, value: Value) -> None:
        if self.low is not None or self.high is not None:
            assert isinstance(value, (int, float))
            inside = (self.low is None or value >= self.low) and (
                self.high is None or value <= self.high
            )
            if not inside and value != self.also:
                _check_requirement(key)
                raise key.invalid(value_text(value), f"Value must be {self._wanted(value)}")
        elif self.choices:
            self._check_choices(key, value)
        elif self.nonempty and not value:
            raise ConfigError(f"{key.name} must not be empty")
        elif self.nonzero and value == 0:
            _check_requirement(key)
            raise ConfigError(f"{key.name} must not be 0")

    def _wanted(self, value: float) -> str:
        """Return the requirement that a number out of bounds violates. With the exception `also`,
        it names both bounds, otherwise the violated one."""
        low, high = (None if x is None else f"{x:.0f}" for x in (self.low, self.high))
        if self.also is not None and high is not None:
            return f"between {low} and {high} or equal to {self.also:.0f}"
        if self.low is not None and value < self.low:
            return f"at least {low}"
        return f"no more than {high}"

    def _check_choices(self, key: Key, value: Value) -> None:
        for word in value if isinstance(value, tuple) else (value,):
            seen = word.lower() if self.fold and isinstance(word, str) else word
            if seen not in self.choices:
                any_case = " (case insensitive)" if self.fold else ""
                choice = f"String must be one of{any_case}: {', '.join(self.choices)}"
                raise key.invalid("null" if word is None else str(word), choice)


def _check_requirement(key: Key) -> None:
    """Raise ConfigError with Apache's message for the key's requirement, if there is one."""
    if key.name in _REQUIREMENTS:
        raise ConfigError(f"requirement failed: {key.name} {_REQUIREMENTS[key.name]}")


@cache
def _parse_bounds(text: str) -> _Bounds:
    if not text:
        return _Bounds()
    if text == "nonempty":
        return _Bounds(nonempty=True)
    if text == "nonzero":
        return _Bounds(nonzero=True)
    if ".." in text:
        also, _, interval = text.rpartition("|")
        low, _, high = interval.partition("..")
        return _Bounds(
            low=float(low),
            high=float(high) if high else None,
            also=float(also) if also else None,
        )
    fold = text.startswith("~")
    choices = text.lstrip("~*").split(",")
    return _Bounds(choices=tuple(w.lower() if fold else w for w in choices), fold=fold)


def value_text(value: Value) -> str:
    """Return `value` as Kafka prints it: `true`, `1,2`, `0.5`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _java_double(value)
    return "" if value is None else str(value)


def _java_double(value: float) -> str:
    """Return Java's `Double.toString`: 1.0E10 for ten billion, 0.5 for a half."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:e}".partition("e")
    digits = repr(value).lower().partition("e")[0].replace(".", "").lstrip("-0").rstrip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


_SCOPES: Final = {"cluster": Scope.CLUSTER_WIDE, "broker": Scope.PER_BROKER}


def read_table(*tables: str) -> dict[str, Key]:
    """Parse the keys of `tables`. Returns them by name, in order."""
    return {key.name: key for table in tables for key in _read(table)}


def _read(table: str) -> Iterator[Key]:
    head: list[str] = []
    doc: list[str] = []
    for line in [*table.splitlines(), "end"]:
        if line.startswith(" "):
            doc.append(line.strip())
            continue
        if not line.strip():
            continue
        if head:
            yield _key(head, " ".join(doc))
        head, doc = line.split(), []


def _key(head: list[str], doc: str) -> Key:
    name, type_name, default, *rest = head
    options = dict(option.split("=", 1) for option in rest)
    return Key(
        name=name,
        type=Type[type_name],
        default=None if default in ("null", "required") else "" if default == '""' else default,
        doc=doc,
        valid=options.get("valid", ""),
        scope=_SCOPES[options["dynamic"]] if "dynamic" in options else Scope.READ_ONLY,
        required=default == "required",
    )


def unknown_key(name: str, known: Collection[str], what: str = "config name") -> str:
    """Return the message about an unknown key: Apache's sentence with the name, and the nearest
    known key."""
    return f"Unknown {what}: {name}{did_you_mean_key(name, known)}"


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse the keys and values of a `.properties` file as Java does: `#` and `!` begin comments,
    `=`, `:` or a space separates key and value, `\` at the end of a line continues it, and `\t`,
    `\uXXXX` and the like are escapes. If a key is repeated, the last one wins.

    Raises ConfigError if a `\u` escape is malformed.
    """
    given: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split_property(line)
        given[_unescape(key)] = _unescape(value)
    return given


_LINE_END: Final = re.compile(r"\r\n|\r|\n")


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    # Python recognizes more line ends than Java, and these may be part of a value.
    for raw in _LINE_END.split(text):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            held += line[:-1]
            continue
        yield held + line
        held = ""
    if held:
        yield held


def _split_property(line: str) -> tuple[str, str]:
    escaped = False
    for i, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "=: \t\f":
            rest = line[i:].lstrip(" \t\f")
            if rest[:1] and rest[0] in "=:":
                rest = rest[1:].lstrip(" \t\f")
            return line[:i], rest
    return line, ""


_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] != "u":
            return _ESCAPES.get(code, code)
        try:
            return chr(int(code[1:].rjust(4, "x"), 16))
        except ValueError:
            raise ConfigError(f"broken escape in a properties file: \\{code}") from None

    return _ESCAPE.sub(one, text) if "\\" in text else text


def without_secrets(keys: Mapping[str, Key], given: Mapping[str, str]) -> dict[str, str]:
    """Return `given` with `[hidden]` in place of the values of secrets and of unknown keys, for
    logging."""
    return {
        name: "[hidden]" if name not in keys or keys[name].sensitive else value
        for name, value in given.items()
    }
