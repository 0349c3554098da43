"""Fake records from a template such as `{"id": {{seq}}, "user": "{{name}}", "amount": {{float 1
500}}}`.

`{{` and `}}` enclose a function with its arguments, separated by spaces (an argument with a space
needs quotes). `{{WORD: FUNCTION ARGS}}` names the value, and `{{WORD}}` repeats it, also in the key
of the same record. Other text is copied as it is: a single brace is a brace, so JSON needs no
escapes.

A template is compiled into one function for each field, because a benchmark makes a hundred
thousand records a second with it. With a seed, the records are the same each time, including their
times: the clock starts at 2026-01-01, and each record is a second after the previous one.
"""

import random
import re
import shlex
import textwrap
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pk.cli.exits import Unusable
from pk.core.durations import signed_ms
from pk.core.nearest import did_you_mean

_FIELD = re.compile(r"\{\{([^{}]*)\}\}")
_LABEL = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\s*:\s*(.+)", re.DOTALL)
_SEEDED_START_MS: Final = 1_767_225_600_000
_SEEDED_STEP_MS: Final = 1_000


def _list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_FIRST = _list(
    "Ada Alan Barbara Boris Chen Clara Dennis Donald Edsger Elena Frances Grace Hana Hedy Ivan "
    "Jean John Karen Katherine Ken Leslie Lin Margaret Maria Nadia Niklaus Olga Pavel Radia Ravi "
    "Shafi Sofia Tim Vera Yukihiro Zoe"
)
_LAST = _list(
    "Allen Berners Borg Cerf Church Conway Cox Dijkstra Engelbart Goldberg Hamilton Holberton "
    "Hopper Jennings Johnson Kay Knuth Lamport Liskov Lovelace McCarthy Meyer Naur Noether "
    "Perlman Ritchie Sammet Shannon Thompson Turing Wilkes Wing Wirth Zuse"
)
_CITIES = _list(
    "Amsterdam Athens Berlin Bogota Cairo Chicago Dakar Dublin Hanoi Helsinki Kyoto Lagos Lima "
    "Lisbon London Madrid Mumbai Nairobi Oslo Paris Porto Prague Quito Rome Seoul Sydney Toronto "
    "Vienna Warsaw Zurich"
)
_COUNTRIES = _list(
    "AR AU BR CA CH CN CO DE EG ES FI FR GB GR IE IN IT JP KE KR NG NL NO PL PT US VN"
)
_WORDS = _list(
    "acorn amber anchor apple arrow autumn basket beacon birch breeze bridge bronze candle canyon "
    "cedar cloud copper coral cotton crystal dawn delta ember falcon feather fern flint forest "
    "garden granite harbor hazel island ivory jasmine juniper kettle lantern lemon linen maple "
    "marble meadow mirror north olive orchard otter pebble pepper pine prairie quartz raven "
    "ribbon river saddle saffron silver spruce stone summer thistle timber tulip valley velvet "
    "violet walnut willow winter"
)


class _State:
    """The sources of a record's values: random numbers, the clock, and the number of records so
    far."""

    __slots__ = ("number", "random", "seeded", "values")

    def __init__(self, seed: int | None) -> None:
        self.random = random.Random(seed)
        self.seeded = seed is not None
        self.number = 0
        self.values: dict[str, str] = {}

    def now_ms(self) -> int:
        if self.seeded:
            return _SEEDED_START_MS + self.number * _SEEDED_STEP_MS
        return time.time_ns() // 1_000_000


Field = Callable[[_State], str]


class Function(NamedTuple):
    """A template function: its arguments, its help, and a factory for the function with given
    arguments."""

    takes: str
    help: str
    make: Callable[[list[str]], Field]


def _iso(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def _number(text: str, read: Callable[[str], float] = int) -> float:
    try:
        return read(text)
    except ValueError:
        what = "a whole number" if read is int else "a number"
        raise ValueError(f"needs {what}, not {text!r}") from None


def _args(args: list[str], low: int, high: int | None, takes: str) -> None:
    if len(args) < low or (high is not None and len(args) > high):
        raise ValueError(f"takes {takes or 'no arguments'}")


def _simple(take: Field) -> Callable[[list[str]], Field]:
    def make(args: list[str]) -> Field:
        _args(args, 0, 0, "")
        return take

    return make


def _seq(args: list[str]) -> Field:
    _args(args, 0, 1, "[FROM]")
    first = int(_number(args[0])) if args else 0
    return lambda w: str(first + w.number)


def _int(args: list[str]) -> Field:
    _args(args, 2, 2, "LOW HIGH")
    low, high = (int(_number(a)) for a in args)
    if low > high:
        raise ValueError(f"needs LOW HIGH, and {low} is above {high}")
    width = high - low + 1
    if width >= 1 << 50:
        return lambda w: str(w.random.randint(low, high))
    # randint checks its arguments on every call; this takes a third of the time.
    return lambda w: str(low + int(w.random.random() * width))


def _float(args: list[str]) -> Field:
    _args(args, 2, 3, "LOW HIGH [DIGITS]")
    low, high = _number(args[0], float), _number(args[1], float)
    digits = int(_number(args[2])) if len(args) == 3 else 2
    if low > high or not 0 <= digits <= 15:
        raise ValueError("needs LOW HIGH [DIGITS], with LOW at most HIGH and DIGITS at most 15")
    return lambda w: f"{low + w.random.random() * (high - low):.{digits}f}"


def _bool(args: list[str]) -> Field:
    _args(args, 0, 1, "[SHARE]")
    share = _number(args[0], float) if args else 0.5
    return lambda w: "true" if w.random.random() < share else "false"


def _choice(args: list[str]) -> Field:
    _args(args, 1, None, "A B C…")
    return lambda w: args[int(w.random.random() * len(args))]


def _of(words: Sequence[str]) -> Field:
    return lambda w: words[int(w.random.random() * len(words))]


def _words(args: list[str]) -> Field:
    _args(args, 1, 1, "N")
    count, one = int(_number(args[0])), _of(_WORDS)
    return lambda w: " ".join(one(w) for _ in range(count))


def _hex(args: list[str]) -> Field:
    _args(args, 1, 1, "DIGITS")
    digits = int(_number(args[0]))
    if not 1 <= digits <= 1_000_000:
        raise ValueError("needs DIGITS from 1 to 1000000")
    return lambda w: f"{w.random.getrandbits(digits * 4):0{digits}x}"


def _now(args: list[str]) -> Field:
    _args(args, 0, 1, "[OFFSET]")
    shift = signed_ms(args[0]) if args else 0
    return lambda w: _iso(w.now_ms() + shift)


def _now_ms(args: list[str]) -> Field:
    _args(args, 0, 1, "[OFFSET]")
    shift = signed_ms(args[0]) if args else 0
    return lambda w: str(w.now_ms() + shift)


def _past(args: list[str]) -> Field:
    _args(args, 1, 1, "DURATION")
    width = abs(signed_ms(args[0]))
    return lambda w: _iso(w.now_ms() - int(w.random.random() * width))


def _faker(args: list[str]) -> Field:
    from pk.cli.records.faker_values import faker_value

    value = faker_value(args)
    return lambda w: value(w.random)


def _email(w: _State) -> str:
    return f"{_of(_FIRST)(w)}.{_of(_LAST)(w)}@example.com".lower()


def _ip(w: _State) -> str:
    bits = w.random.getrandbits(24)
    return f"10.{bits >> 16}.{bits >> 8 & 255}.{bits & 255}"


FUNCTIONS: Final[dict[str, Function]] = {
    "seq": Function("[FROM]", "0, 1, 2 …, or counting from FROM", _seq),
    "int": Function("LOW HIGH", "a whole number from LOW to HIGH", _int),
    "float": Function("LOW HIGH [DIGITS]", "a number with DIGITS decimals (default 2)", _float),
    "bool": Function("[SHARE]", "true or false; SHARE is the share of true (default 0.5)", _bool),
    "choice": Function("A B C…", "one of these", _choice),
    "name": Function(
        "", "a first and a last name", _simple(lambda w: f"{_of(_FIRST)(w)} {_of(_LAST)(w)}")
    ),
    "first_name": Function("", "a first name", _simple(_of(_FIRST))),
    "last_name": Function("", "a last name", _simple(_of(_LAST))),
    "email": Function("", "an address at example.com", _simple(_email)),
    "city": Function("", "a city", _simple(_of(_CITIES))),
    "country": Function("", "a country's two letters", _simple(_of(_COUNTRIES))),
    "word": Function("", "a word", _simple(_of(_WORDS))),
    "words": Function("N", "N words", _words),
    "uuid": Function(
        "",
        "a random UUID",
        _simple(lambda w: str(uuid.UUID(int=w.random.getrandbits(128), version=4))),
    ),
    "hex": Function("DIGITS", "DIGITS hexadecimal digits", _hex),
    "ip": Function("", "an IPv4 address in 10.0.0.0/8", _simple(_ip)),
    "faker": Function("PROVIDER [KEY=VALUE…]", "a value of the library Faker, as city", _faker),
    "now": Function("[OFFSET]", "the UTC time in ISO 8601, plus OFFSET such as -1h", _now),
    "now_ms": Function("[OFFSET]", "the same in milliseconds since 1970", _now_ms),
    "past": Function("DURATION", "a time within the last DURATION, such as 30d", _past),
}

NAMED: Final[dict[str, tuple[str, str]]] = {
    "orders": (
        "c-{{customer: int 1 500}}",
        (
            '{"order": {{seq 1}}, "customer": "c-{{customer}}", "item": "{{word}}", "quantity": '
            '{{int 1 5}}, "amount": {{float 1 500}}, "status": "{{choice new paid packed '
            'shipped}}", "country": "{{country}}", "at": "{{now}}"}'
        ),
    ),
    "users": (
        "u-{{id: seq 1}}",
        (
            '{"id": "u-{{id}}", "name": "{{first: first_name}} {{last: last_name}}",'
            ' "email": "{{first}}.{{last}}@example.com", "city": "{{city}}",'
            ' "active": {{bool 0.9}}, "since": "{{past 365d}}"}'
        ),
    ),
    "clicks": (
        "{{user: int 1 2000}}",
        (
            '{"user": {{user}}, "page": "/{{word}}/{{word}}", "from": "{{choice search mail ad '
            'direct}}", "ms": {{int 20 900}}, "ip": "{{ip}}", "at": "{{now}}"}'
        ),
    ),
}
"""Templates by name: (key, value)."""

Pair = tuple[bytes | None, bytes | None]


class Fake:
    """A source of fake records; the same seed gives the same records."""

    def __init__(
        self, key: str | None, value: str, seed: int | None, own_key: str | None = None
    ) -> None:
        self._world = _State(seed)
        labels: dict[str, Field] = {}
        texts = [text for text in (key, value) if text is not None]
        for text in texts:
            _collect(text, labels)
        if (
            key != own_key and own_key is not None
        ):  # the value may repeat names from the template's own key
            named: dict[str, Field] = {}
            _collect(own_key, named)
            labels = named | labels
        self._labelled = bool(labels)
        self._key = None if key is None else _compile(key, labels)
        self._value = _compile(value, labels)

    def one(self) -> Pair:
        """Make the key and value of the next record."""
        world = self._world
        if self._labelled:
            world.values.clear()
        key = None if self._key is None else self._key(world).encode()
        value = self._value(world).encode()
        world.number += 1
        return key, value

    def take(self, count: int) -> list[Pair]:
        """Make the next `count` records."""
        return [self.one() for _ in range(count)]


def fake(template: str, *, key: str | None = None, seed: int | None = None) -> Fake:
    """The source of records for `template`: a name (orders, users, clicks), a text with {{…}}, or
    @FILE with such a text.

    `key` is a template too; a named template has a key of its own. Raises Unusable.
    """
    if template in NAMED:
        own_key, value = NAMED[template]
        return Fake(key if key is not None else own_key, value, seed, own_key)
    if template.startswith("@"):
        template = _read(template[1:])
    if "{{" not in template:
        hint = did_you_mean(template, NAMED, f"; the names are {', '.join(NAMED)}.")
        raise Unusable(
            f"--fake: unknown template {template!r}{hint} A template of your own has functions"
            " such as {{seq}} or {{name}}; `pk help fake` lists them."
        )
    return Fake(key, template, seed)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as e:
        raise Unusable(f"--fake: {path} cannot be read: {e.strerror}.") from None
    except UnicodeDecodeError:
        raise Unusable(f"--fake: {path} is not UTF-8 text.") from None


def _collect(text: str, labels: dict[str, Field]) -> None:
    """Add the named values of `text` to `labels`."""
    for found in _FIELD.finditer(text):
        labelled = _LABEL.fullmatch(found[1].strip())
        if labelled is None:
            continue
        name = labelled[1]
        if name in FUNCTIONS:
            raise Unusable(f"--fake: {name} is a function; give the value another name.")
        if name in labels:
            raise Unusable(f"--fake: {name} is defined twice; repeat it as {{{{{name}}}}}.")
        labels[name] = _function(labelled[2])


def _compile(text: str, labels: dict[str, Field]) -> Field:
    pieces: list[str] = []
    fields: list[Field] = []
    position = 0
    for found in _FIELD.finditer(text):
        pieces.append(text[position : found.start()])
        fields.append(_field(found[1].strip(), labels))
        position = found.end()
    pieces.append(text[position:])
    if not fields:
        return lambda w: text
    form = "%s".join(piece.replace("%", "%%") for piece in pieces)
    return lambda w: form % tuple([field(w) for field in fields])


def _field(inside: str, labels: dict[str, Field]) -> Field:
    labelled = _LABEL.fullmatch(inside)
    name = labelled[1] if labelled else inside
    if name not in labels:
        return _function(inside, labels)
    make = labels[name]

    def repeated(w: _State) -> str:
        value = w.values.get(name)
        if value is None:
            value = w.values[name] = make(w)
        return value

    return repeated


def _function(inside: str, labels: dict[str, Field] | None = None) -> Field:
    try:
        words = shlex.split(inside)
    except ValueError as e:
        raise Unusable(f"--fake: {{{{{inside}}}}} cannot be read ({e}).") from None
    if not words:
        raise Unusable("--fake: {{}} is empty; `pk help fake` lists the functions.")
    found = FUNCTIONS.get(words[0])
    if found is None:
        known = [*FUNCTIONS, *(labels or ())]
        hint = did_you_mean(words[0], known, "; `pk help fake` lists them.")
        raise Unusable(f"--fake: unknown function {words[0]!r}{hint}")
    try:
        return found.make(words[1:])
    except ValueError as e:
        raise Unusable(f"--fake: {words[0]} {e}.") from None


def page() -> str:
    """The page `pk help fake`."""
    lines = [
        "Fake records: `pk produce TOPIC --fake TEMPLATE`, and the same option in `pk perf`.",
        "",
        "A template is text in which each record replaces {{FUNCTION ARGUMENTS}} with a new value:",
        "",
        (
            """  pk produce orders --fake '{"id": {{seq}}, "user": "{{name}}", "at": "{{now}}"}' """
            "-n 1000 --rate 50"
        ),
        "",
    ]
    lines += [f"  {(n + ' ' + f.takes).strip():<30}{f.help}" for n, f in FUNCTIONS.items()]
    lines += [
        "",
        "faker takes a provider of https://faker.readthedocs.io, its arguments and a locale, as in",
        "{{faker iban locale=de_DE}} (pip install 'pk-broker[faker]').",
        "",
        "{{WORD: FUNCTION ARGUMENTS}} names the value; {{WORD}} repeats it, in the key (-k) too:",
        "",
        """  pk produce orders -k 'c-{{who: int 1 50}}' --fake '{"customer": {{who}}}' -n 10""",
        "",
        (
            "--fake @FILE reads the template from a file. These templates have names, and each has "
            "a key:"
        ),
        "",
    ]
    for name, (key, value) in NAMED.items():
        made = Fake(key, value, 1).one()
        assert made[0] is not None and made[1] is not None
        lines.append(f"  {name}, key {made[0].decode()}")
        lines += [f"    {line}" for line in textwrap.wrap(made[1].decode(), 92)]
    lines += [
        "",
        "--seed N makes the same records each time; times start at 2026-01-01, a second apart.",
    ]
    return "\n".join(lines) + "\n"
