"""`--where`: FIELD OP VALUE, joined by and, or, not and parentheses. It is parsed here, and never
evaluated by Python.

    lag > 100 and topic ~ '^orders'
    not internal and partitions in (1, 3)
    value.amount >= 9.5

Operators: = (or ==), !=, <, <=, >, >=, ~ and !~ (regular expression found anywhere), contains (in a
list or a text), in (a, b, …). Texts are case-sensitive, except in fields with a fixed set of
values, such as a state: there `empty` is `Empty`. A field alone is true if it exists and is not
false, 0 or empty. Values: numbers, quoted or bare words, true, false, null. Dots select fields of
objects, even in a text that contains JSON (`value.user.id`).
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

Predicate = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<op>==|!=|<=|>=|!~|=|<|>|~)
      | (?P<paren>[(),])
      | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<word>[^\s()=<>!~,'"]+)
    )""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
MISSING: Final = object()
_WORD_OPERATORS = frozenset(("contains", "in"))
_KEYWORDS = frozenset(("and", "or", "not", *_WORD_OPERATORS))


class WhereError(ValueError):
    """An invalid condition."""


class _Token:
    __slots__ = ("kind", "text")

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise WhereError(f"--where: cannot read {text[position:]!r}")
        kind = found.lastgroup or ""
        word = found[kind]
        if kind == "quoted":
            word = re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
        elif kind == "word" and word.lower() in _KEYWORDS:
            kind, word = "keyword", word.lower()
        tokens.append(_Token(kind, word))
        position = found.end()
    return tokens


def _literal(token: _Token) -> Any:
    if token.kind == "quoted":
        return token.text
    match token.text.lower():
        case "true":
            return True
        case "false":
            return False
        case "null" | "none":
            return None
        case _:
            pass
    number = _number(token.text)
    return token.text if number is None else number


def value_at(row: Any, path: Sequence[str]) -> Any:
    """The value at `path`, which may go into objects, lists (by number), pairs (by the first of
    them) and texts with JSON.

    MISSING if there is no value. A row that parses JSON itself (`opened`) does so, once.
    """
    first, opened = path[0], getattr(row, "opened", None)
    if opened is not None and len(path) > 1 and isinstance(row.get(first), str):
        try:
            row, path = opened(first), path[1:]
        except ValueError:
            return MISSING
    for part in path:
        row = _item(row, part)
        if row is MISSING:
            break
    return row


def _item(value: Any, part: str) -> Any:
    """The value at one step of a path in an object, a list, or a text with JSON; MISSING if there
    is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return MISSING
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(part, MISSING)
    if not isinstance(value, (list, tuple)):
        return MISSING
    items = cast("Sequence[Any]", value)
    if part.isdecimal() and int(part) < len(items):
        return items[int(part)]
    # The value may be a list of pairs, such as headers.
    return next((v[1] for v in items if _is_pair(v) and v[0] == part), MISSING)


def names_at(row: Any, path: Sequence[str]) -> list[str]:
    """The names of the fields at `path` in an object, a text with a JSON object, or pairs; empty if
    there are none."""
    value = value_at(row, path)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if isinstance(value, Mapping):
        return [str(name) for name in cast("Mapping[Any, Any]", value)]
    if isinstance(value, (list, tuple)):
        return [str(v[0]) for v in cast("Sequence[Any]", value) if _is_pair(v)]
    return []


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(cast("Sequence[Any]", value)) == 2


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: Any) -> int | float | None:
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        try:
            return float(value) if re.search(r"[.eE]", value) else int(value)
        except ValueError:  # a number with thousands of digits
            return None
    return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _same_word(value: Any, wanted: Any) -> bool:
    if isinstance(value, str) and isinstance(wanted, str):
        return value.casefold() == wanted.casefold()
    return _equal(value, wanted)


def _equal(value: Any, wanted: Any) -> bool:
    if value is MISSING:
        value = None
    if wanted is None or value is None:
        return value is wanted
    if isinstance(wanted, bool) or isinstance(value, bool):
        return _text(value) == _text(wanted)
    left, right = _number(value), _number(wanted)
    if left is not None and right is not None:
        return left == right
    return _text(value) == _text(wanted)


def _compare(value: Any, wanted: Any, test: Callable[[Any, Any], bool]) -> bool:
    if value is MISSING or value is None or wanted is None:
        return False
    left, right = _number(value), _number(wanted)
    if left is not None and right is not None:
        return test(left, right)
    if _is_number(value):
        return False  # a number is neither above nor below a text
    return test(_text(value), _text(wanted))


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_equal(v, wanted) for v in cast("Sequence[Any]", value))
    if isinstance(value, Mapping):
        return wanted in value
    return isinstance(value, str) and _text(wanted) in value


def _true(value: Any) -> bool:
    return value is not MISSING and bool(value)


_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class _Parser:
    def __init__(
        self, text: str, fields: frozenset[str] | None, words: Collection[str] = ()
    ) -> None:
        self.tokens = _tokens(text)
        self.position = 0
        self.fields = fields
        self.words = words
        self.paths: list[tuple[str, ...]] = []
        """The fields of the conditions."""
        self.equalities: list[tuple[str, str]] = []
        """The fields that must equal a text, and that text."""
        self.ordered: list[tuple[str, str]] = []
        """The fields that must be above or below a text, and that text."""

    def peek(self) -> _Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self) -> _Token | None:
        token = self.peek()
        self.position += 1
        return token

    def accept(self, kind: str, text: str) -> bool:
        token = self.peek()
        if token is not None and token.kind == kind and token.text == text:
            self.position += 1
            return True
        return False

    def either(self) -> Predicate:
        parts = [self.both()]
        while self.accept("keyword", "or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else lambda row: any(p(row) for p in parts)

    def both(self) -> Predicate:
        parts = [self.negation()]
        while self.accept("keyword", "and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else lambda row: all(p(row) for p in parts)

    def negation(self) -> Predicate:
        if self.accept("keyword", "not"):
            inner = self.negation()
            return lambda row: not inner(row)
        if self.accept("paren", "("):
            inner = self.either()
            if not self.accept("paren", ")"):
                raise WhereError("--where: a parenthesis is not closed")
            return inner
        return self.comparison()

    def field(self) -> tuple[str, ...]:
        token = self.take()
        if token is None:
            raise WhereError("--where: a condition is missing; it is FIELD OP VALUE")
        if token.kind not in ("word", "quoted"):
            raise WhereError(f"--where: a field is expected before {token.text!r}")
        path = tuple(token.text.split(".")) if token.kind == "word" else (token.text,)
        if self.fields is not None and path[0] not in self.fields:
            from pk.core.nearest import did_you_mean

            known = sorted(self.fields)
            hint = did_you_mean(path[0], known, f"; the fields are {', '.join(known)}")
            raise WhereError(f"--where: unknown field {path[0]!r}{hint}")
        self.paths.append(path)
        return path

    def value(self) -> Any:
        token = self.take()
        if token is None or token.kind not in ("word", "quoted"):
            raise WhereError(
                "--where: a value is missing"
                if token is None
                else f"--where: a value is expected before {token.text!r}"
            )
        return _literal(token)

    def values(self) -> list[Any]:
        if not self.accept("paren", "("):
            raise WhereError("--where: `in` needs a list: FIELD in (a, b)")
        found = [self.value()]
        while self.accept("paren", ","):
            found.append(self.value())
        if not self.accept("paren", ")"):
            raise WhereError("--where: the list after `in` is not closed")
        return found

    def comparison(self) -> Predicate:
        path = self.field()
        token = self.peek()
        if token is None or not (token.kind == "op" or token.text in _WORD_OPERATORS):
            return lambda row: _true(value_at(row, path))
        self.position += 1
        operator = token.text
        is_word = len(path) == 1 and path[0] in self.words
        equal = _same_word if is_word else _equal
        if operator == "in":
            wanted = self.values()
            self.note(path, wanted)
            return lambda row: any(equal(value_at(row, path), w) for w in wanted)
        value = self.value()
        if operator in ("=", "=="):
            self.note(path, (value,))
            return lambda row: equal(value_at(row, path), value)
        if operator == "!=":
            return lambda row: not equal(value_at(row, path), value)
        if operator == "contains":
            return lambda row: _contains(value_at(row, path), value)
        if operator in ("~", "!~"):
            return _matching(path, _text(value), operator == "~")
        test = _ORDERINGS[operator]
        if len(path) == 1 and isinstance(value, str):
            self.ordered.append((path[0], value))
        return lambda row: _compare(value_at(row, path), value, test)

    def note(self, path: tuple[str, ...], wanted: Iterable[Any]) -> None:
        if len(path) == 1:
            self.equalities += [(path[0], value) for value in wanted if isinstance(value, str)]


def _matching(path: tuple[str, ...], pattern: str, wanted: bool) -> Predicate:
    try:
        compiled = re.compile(pattern)
    except re.error as e:
        raise WhereError(f"--where: not a regular expression: {pattern!r} ({e})") from None

    def test(row: Mapping[str, Any]) -> bool:
        value = value_at(row, path)
        if value is MISSING or value is None:
            return not wanted
        is_list = isinstance(value, (list, tuple))
        items = cast("Sequence[Any]", value) if is_list else (value,)
        return any(compiled.search(_text(item)) is not None for item in items) is wanted

    return test


def parse_where(
    text: str, fields: Iterable[str] | None = None, words: Collection[str] = ()
) -> Predicate:
    """The test that `text` describes. If `fields` is given, other fields are refused. The values of
    the fields in `words` are of a fixed set, and match in any case. Raises WhereError."""
    parser = _Parser(text, None if fields is None else frozenset(fields), words)
    predicate = parser.either()
    left = parser.peek()
    if left is not None:
        raise WhereError(f"--where: unexpected {left.text!r}; join conditions with `and` or `or`")
    return predicate


def paths_in(text: str) -> list[tuple[str, ...]]:
    """The paths of the fields in the conditions of `text`. Raises WhereError."""
    parser = _Parser(text, None)
    parser.either()
    return parser.paths


_VALUES_MAX = 8


def why_no_match(
    text: str,
    rows: Sequence[Mapping[str, Any]],
    words: Collection[str] = (),
    *,
    all_values: bool,
) -> str | None:
    """Why no row of `rows` meets the condition, if it compares a field with a value that the field
    has in none of them. The sentence names what may have been meant or, with `all_values`, the
    values that exist. None if there is nothing to say. `words` are those of `parse_where`."""
    from pk.core.nearest import did_you_mean_one_of, nearest

    parser = _Parser(text, frozenset(key for row in rows[:1] for key in row), words)
    parser.either()
    for field, wanted in parser.ordered:
        found = [v for row in rows if (v := value_at(row, (field,))) is not None]
        if found and all(map(_is_number, found)) and _number(wanted) is None:
            return f"--where: {field} is a number, and {wanted!r} is not."
    for field, wanted in parser.equalities:
        equal = _same_word if field in words else _equal
        found = [value_at(row, (field,)) for row in rows]
        if any(equal(value, wanted) for value in found):
            continue
        known = {v.casefold(): v for v in found if isinstance(v, str)}
        folded = wanted.casefold()
        near = [known[v] for v in ([folded] if folded in known else nearest(folded, known))]
        if near:
            return f"--where: no {field} is {wanted!r}{did_you_mean_one_of(near)}"
        if all_values and 0 < len(known) <= _VALUES_MAX:
            return (
                f"--where: no {field} is {wanted!r}; there is {', '.join(sorted(known.values()))}."
            )
    return None
