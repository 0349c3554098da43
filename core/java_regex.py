r"""Java's regular expressions, compiled for Python's engine, or refused.

`ssl.principal.mapping.rules` and `sasl.kerberos.principal.to.local.rules` are written for
`java.util.regex`. The two languages look alike, but differ in details that affect identities: `\w`
is ASCII in Java, `[a-z&&[^x]]` is an intersection, `(?i)` ignores letters beyond ASCII. So a
pattern is parsed by Java's grammar, and rewritten in constructs on which both engines agree: a
character class becomes its ranges, a letter under `(?i)` a class of two.

| Java | here |
|---|---|
| `\d \w \s \h \v` and their opposites | as Java |
| `.`, `^`, `$`, `\A`, `\Z`, `\z`, `\b`, `\B` | as Java |
| `\p{Alnum}` and the other POSIX classes, `\p{L}`, `\p{IsLu}`, `\pN`: categories | as Java |
| `\p{IsLatin}`, `\p{InGreek}`, `\p{IsAlphabetic}`, `\p{javaLowerCase}` … | refused |
| unions and intersections of classes, `[^…]` | as Java, the clear ones; others refused |
| `\Q…\E` | as Java; refused within a class |
| groups, `(?<name>…)`, `(?:…)`, `(?=…)`, `(?!…)`, `(?>…)`, `\1`, `\k<name>` | as Java |
| `(?<=…)`, `(?<!…)` | those of one length; others refused |
| `*? *+ {2,3}?` and the like | as Java |
| `(?i)`, `(?s)`, `(?i-s:…)` | as Java |
| `(?m)`, `(?u)`, `(?x)`, `(?d)`, `(?U)`, `\G`, `\R`, `\X`, `\N{…}`, `\b{g}` | refused |

`\b` behaves as in Java 19 and newer, where words are ASCII.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

Ranges = tuple[tuple[int, int], ...]
"""A set of characters: the first and last of each range, in order, without adjacent ranges."""

_LAST: Final = 0x10FFFF
_END_OF_LINE: Final = "\n\r\x85\u2028\u2029"
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_COUNT: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_LOOKAROUNDS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_COUNT_MAX: Final = 1000
_PATTERN_CHARS_MAX: Final = 10_000
_DEPTH_MAX: Final = 50


class JavaRegexError(ValueError):
    """The pattern or the replacement is invalid in Java, or not supported here."""


def _ranges(pairs: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def _chars(*pieces: str) -> Ranges:
    """Parse ranges of characters: `az` is a range, a single character stands for itself."""
    return _ranges((ord(piece[0]), ord(piece[-1])) for piece in pieces)


def _complement(ranges: Ranges) -> Ranges:
    found, start = list[tuple[int, int]](), 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return (*found, (start, _LAST)) if start <= _LAST else tuple(found)


def _intersection(one: Ranges, other: Ranges) -> Ranges:
    return _complement(_ranges(_complement(one) + _complement(other)))


def _any_case(ranges: Ranges) -> Ranges:
    """Return the ranges with the other case of their ASCII letters, as `(?i)` means in Java."""
    upper, lower = _intersection(ranges, _chars("AZ")), _intersection(ranges, _chars("az"))
    moved = [(low + 32, high + 32) for low, high in upper]
    moved += [(low - 32, high - 32) for low, high in lower]
    return _ranges((*ranges, *moved))


_DIGIT: Final = _chars("09")
_LOWER: Final = _chars("az")
_UPPER: Final = _chars("AZ")
_ALPHA: Final = _chars("az", "AZ")
_PUNCT: Final = _chars("!/", ":@", "[`", "{~")
_SHORT: Final = {
    "d": _DIGIT,
    "w": _chars("az", "AZ", "09", "_"),
    "s": _chars(" ", "\t\r"),
    "h": _chars(
        " ", "\t", "\xa0", "\u1680", "\u180e", "\u2000\u200a", "\u202f", "\u205f", "\u3000"
    ),
    "v": _chars("\n\r", "\x85", "\u2028\u2029"),
}
_POSIX: Final = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": _chars("\0\x7f"),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": _ranges(_ALPHA + _DIGIT),
    "Punct": _PUNCT,
    "Graph": _chars("!~"),
    "Print": _chars(" ~"),
    "Blank": _chars(" ", "\t"),
    "Cntrl": _chars("\0\x1f", "\x7f"),
    "XDigit": _chars("09", "af", "AF"),
    "Space": _SHORT["s"],
}
_CATEGORIES: Final = frozenset(
    kind + detail
    for kind, details in {
        "L": "ultmo",
        "M": "nce",
        "N": "dlo",
        "Z": "slp",
        "P": "dsecoif",
        "S": "mcko",
    }.items()
    for detail in ("", *details)
)
_OF_CASE: Final = frozenset({"Lower", "Upper", "Lu", "Ll", "Lt"})
_SIMPLE_ESCAPES: Final = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_ANCHORS: Final = {
    "A": r"\A",
    "z": r"\Z",
    "Z": r"(?:\Z|(?=\r\n\Z)|(?=[\r\x85\u2028\u2029]\Z)|(?<!\r)(?=\n\Z))",
    "b": r"\b",
    "B": r"(?!\b)",
}


@lru_cache(maxsize=64)
def _category(name: str) -> Ranges:
    found: list[tuple[int, int]] = []
    for code in range(_LAST + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if found and found[-1][1] == code - 1:
                found[-1] = found[-1][0], code
            else:
                found.append((code, code))
    return tuple(found)


def _escaped(code: int) -> str:
    return rf"\U{code:08x}"


def _class_text(ranges: Ranges) -> str:
    if not ranges:
        return r"(?!)"
    if ranges == ((0, _LAST),):
        return r"(?s:.)"
    pieces = (
        _escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}"
        for low, high in ranges
    )
    return f"[{''.join(pieces)}]"


class _Flags(NamedTuple):
    any_case: bool = False
    dot_all: bool = False


class _Piece(NamedTuple):
    """A part of a pattern, in Python's syntax."""

    text: str
    empty: bool = False
    """Whether the part can match the empty string."""
    captures: int = 0
    """The number of capturing groups in the part."""


class _Reader:
    """Parses a pattern by Java's grammar, and rewrites it for Python."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._groups = 0
        self._open: list[int] = []
        self._names: dict[str, int] = {}
        self._depth = 0
        self._quoted_until = -1
        """The end of the text quoted by `\\Q`, or -1 outside it."""

    def error(self, why: str) -> JavaRegexError:
        """Return an error with the current position."""
        return JavaRegexError(f"{why} near index {self._position}")

    def parse(self) -> str:
        """Translate the whole pattern to Python's syntax. Raises JavaRegexError."""
        found = self._alternatives(_Flags())
        if self._position < len(self._pattern):
            raise self.error("Unmatched closing ')'")
        return found.text

    @property
    def names(self) -> dict[str, int]:
        """The numbers of named groups."""
        return self._names

    def _peek(self, count: int = 1) -> str:
        return self._pattern[self._position : self._position + count]

    def _take(self, count: int = 1) -> str:
        taken = self._peek(count)
        self._position += count
        return taken

    def _take_if(self, text: str) -> bool:
        if self._pattern.startswith(text, self._position):
            self._position += len(text)
            return True
        return False

    def _alternatives(self, flags: _Flags) -> _Piece:
        """Parse up to the end of the group. Flags that are set in it apply until its end."""
        pieces: list[_Piece] = []
        empty, some_empty = True, False
        while self._position < len(self._pattern):
            if not (quoted := self._in_quotes()):
                if self._peek() == ")":
                    break
                if self._take_if("|"):
                    pieces.append(_Piece("|"))
                    some_empty, empty = some_empty or empty, True
                    continue
                if self._peek(2) == "(?" and (changed := self._flags_alone(flags)) is not None:
                    flags = changed
                    continue
            pieces.append(self._quantified(flags, quoted=quoted))
            empty = empty and pieces[-1].empty
        text = "".join(piece.text for piece in pieces)
        return _Piece(text, some_empty or empty, sum(piece.captures for piece in pieces))

    _FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")

    def _flags_alone(self, flags: _Flags) -> _Flags | None:
        found = self._FLAGS.match(self._pattern, self._position)
        if found is None or found[3] == ":":
            return None
        self._position = found.end()
        return self._changed(flags, found)

    def _changed(self, flags: _Flags, found: re.Match[str]) -> _Flags:
        for letters, on in ((found[1], True), (found[2] or "", False)):
            for letter in letters:
                if letter == "i":
                    flags = flags._replace(any_case=on)
                elif letter == "s":
                    flags = flags._replace(dot_all=on)
                else:
                    raise self.error(f"pk does not know the flag (?{letter})")
        return flags

    def _quantified(self, flags: _Flags, *, quoted: bool) -> _Piece:
        looks_around = not quoted and self._pattern.startswith(_LOOKAROUNDS, self._position)
        atom = self._atom(flags, quoted=quoted)
        quantifier = "" if self._in_quotes() else self._quantifier()
        if not quantifier:
            return atom
        if looks_around or not atom.text:
            raise self.error("pk does not support a repeated lookaround")
        if atom.captures and (quantifier[1:] == "+" or quantifier[-2:] == "}+"):
            raise self.error("pk does not support capturing groups in a possessive repetition")
        if not quantifier.startswith("?") and (atom.captures > 1 or atom.captures and atom.empty):
            raise self.error("pk repeats one group at most, which is not empty: write (?:...)")
        empty = atom.empty or quantifier[0] in "*?" or quantifier.startswith("{0")
        return _Piece(f"(?:{atom.text}){quantifier}", empty, atom.captures)

    def _quantifier(self) -> str:
        sign = self._peek()
        if sign in ("*", "+", "?"):
            text = self._take()
        elif sign == "{":
            found = _COUNT.match(self._pattern, self._position)
            if found is None:
                raise self.error("Illegal repetition")
            low, high = int(found[1]), int(found[3]) if found[3] else None
            if high is not None and high < low:
                raise self.error("Illegal repetition range")
            if max(low, high or 0) > _COUNT_MAX:
                raise self.error(f"pk repeats nothing more than {_COUNT_MAX} times")
            self._position = found.end()
            text = found[0]
        else:
            return ""
        if self._peek() in ("?", "+"):
            text += self._take()
        if self._peek() in ("*", "+", "?", "{"):
            raise self.error("Dangling meta character")
        return text

    def _in_quotes(self) -> bool:
        r"""Whether the next character is between `\Q` and `\E`. Skips these marks."""
        while True:
            if self._position == self._quoted_until:
                self._quoted_until = -1
                self._take_if("\\E")
            elif self._quoted_until < 0 and self._take_if("\\Q"):
                end = self._pattern.find("\\E", self._position)
                self._quoted_until = len(self._pattern) if end < 0 else end
            else:
                return self._quoted_until >= 0

    def _atom(self, flags: _Flags, *, quoted: bool) -> _Piece:
        if self._position >= len(self._pattern):
            return _Piece("", empty=True)
        char = self._peek()
        if quoted:
            return self._literal(ord(self._take()), flags)
        if char == "(":
            return self._group(flags)
        if char == "[":
            self._take()
            return _Piece(_class_text(self._class(flags)))
        if char == "\\":
            return self._escape(flags)
        if char in "*+?":
            raise self.error(f"Dangling meta character '{char}'")
        if char == "{":
            raise self.error("Illegal repetition")
        self._take()
        if char == ".":
            every = ((0, _LAST),)
            ranges = every if flags.dot_all else _complement(_chars(*_END_OF_LINE))
            return _Piece(_class_text(ranges))
        if char in "^$":
            return _Piece(_ANCHORS["A" if char == "^" else "Z"], empty=True)
        return self._literal(ord(char), flags)

    @staticmethod
    def _literal(code: int, flags: _Flags) -> _Piece:
        return _Piece(_class_text(_set_of(((code, code),), flags)))

    def _group(self, flags: _Flags) -> _Piece:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self.error(f"pk nests no more than {_DEPTH_MAX} groups")
        self._take()
        begin, number = "(", 0
        if self._take_if("?"):
            for java in (":", "=", "!", ">", "<=", "<!"):
                if self._take_if(java):
                    begin = f"(?{java}"
                    break
            else:
                if self._take_if("<"):
                    number = self._named()
                else:
                    self._position -= 2
                    found = self._FLAGS.match(self._pattern, self._position)
                    if found is None:
                        raise self.error("Unknown group")
                    self._position = found.end()
                    flags, begin = self._changed(flags, found), "(?:"
        else:
            self._groups = number = self._groups + 1
        if number:
            self._open.append(number)
        inside = self._alternatives(flags)
        if not self._take_if(")"):
            raise self.error("Unclosed group")
        if number:
            self._open.remove(number)
        self._depth -= 1
        empty = inside.empty or begin in _LOOKAROUNDS
        return _Piece(f"{begin}{inside.text})", empty, inside.captures + (number > 0))

    def _named(self) -> int:
        found = _NAME.match(self._pattern, self._position)
        if found is None or not self._pattern.startswith(">", found.end()):
            raise self.error("a named group is (?<NAME>...), the name of letters and digits")
        if found[0] in self._names:
            raise self.error(f"Named capturing group <{found[0]}> is already defined")
        self._position = found.end() + 1
        self._groups += 1
        self._names[found[0]] = self._groups
        return self._groups

    def _escape(self, flags: _Flags) -> _Piece:
        char = self._peek(2)[1:]
        if not char:
            raise self.error("Unexpected internal error: \\ at the end")
        if char in "123456789":
            return self._back_reference(flags)
        if char == "k":
            return self._named_reference(flags)
        if char == "b" and self._peek(3) == "\\b{":
            raise self.error("pk does not know \\b{g}")
        if char in _ANCHORS:
            self._take(2)
            return _Piece(_ANCHORS[char], empty=True)
        if (found := self._set()) is not None:
            name, ranges = found
            self._check_case(name, flags)
            return _Piece(_class_text(_set_of(ranges, flags)))
        return self._literal(self._code(), flags)

    def _check_case(self, name: str, flags: _Flags) -> None:
        if flags.any_case and name in _OF_CASE:
            raise self.error(f"pk does not know \\p{{{name}}} under (?i)")

    def _reference(self, number: int, flags: _Flags) -> _Piece:
        if number > self._groups or number in self._open:
            raise self.error(f"no group {number} before its reference")
        if flags.any_case:
            raise self.error("pk does not know references to groups under (?i)")
        return _Piece(f"(?:\\{number})", empty=True)

    def _back_reference(self, flags: _Flags) -> _Piece:
        self._take()
        number = int(self._take())
        # Further digits belong to the number if there is a group with that number.
        while self._peek() and self._peek() in "0123456789":
            longer = number * 10 + int(self._peek())
            if longer > self._groups:
                break
            number = longer
            self._take()
        return self._reference(number, flags)

    def _named_reference(self, flags: _Flags) -> _Piece:
        found = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>").match(self._pattern, self._position)
        if found is None:
            raise self.error("\\k is not followed by '<' for named capturing group")
        if found[1] not in self._names:
            raise self.error(f"named capturing group <{found[1]}> does not exist")
        self._position = found.end()
        return self._reference(self._names[found[1]], flags)

    def _set(self) -> tuple[str, Ranges] | None:
        """Parse an escape for a set of characters. Returns its name and the characters, or None for
        other escapes."""
        char = self._peek(2)[1:]
        if char.lower() in _SHORT:
            self._take(2)
            ranges = _SHORT[char.lower()]
            return char, _complement(ranges) if char.isupper() else ranges
        if char not in ("p", "P"):
            return None
        self._take(2)
        if self._take_if("{"):
            end = self._pattern.find("}", self._position)
            if end < 0:
                raise self.error("Unclosed character family")
            name = self._take(end - self._position)
            self._take()
        else:
            name = self._take()
        name, ranges = self._property(name)
        return name, _complement(ranges) if char == "P" else ranges

    def _property(self, name: str) -> tuple[str, Ranges]:
        if name in _POSIX:
            return name, _POSIX[name]
        for prefix in ("Is", "gc=", "general_category="):
            if name.startswith(prefix) and name.removeprefix(prefix) in _CATEGORIES:
                name = name.removeprefix(prefix)
                break
        if name not in _CATEGORIES:
            raise self.error(f"pk does not know the characters \\p{{{name}}}")
        return name, _category(name)

    def _code(self) -> int:
        """Parse an escape for one character. Returns its code point."""
        self._take()
        char = self._take()
        if not char:
            raise self.error("Unclosed character class")
        if char in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[char]
        if char == "0":
            found = re.compile("[0-3][0-7]{0,2}|[4-7][0-7]?").match(self._pattern, self._position)
            if found is None:
                raise self.error("Illegal octal escape sequence")
            self._position = found.end()
            return int(found[0], 8)
        if char == "c":
            if not self._peek():
                raise self.error("Illegal control escape sequence")
            return ord(self._take()) ^ 64
        if char in ("x", "u"):
            return self._hexadecimal(char)
        if char in _LETTERS or char.isdecimal():
            raise self.error(f"Illegal/unsupported escape sequence \\{char}")
        return ord(char)

    def _hexadecimal(self, kind: str) -> int:
        forms = {"x": r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,8})\}", "u": "([0-9a-fA-F]{4})"}
        found = re.compile(forms[kind]).match(self._pattern, self._position)
        if found is None:
            raise self.error("Illegal hexadecimal or Unicode escape sequence")
        self._position = found.end()
        code = int(next(filter(None, found.groups())), 16)
        if code > _LAST or 0xD800 <= code < 0xE000:
            raise self.error("pk does not support surrogates, or code points above 10FFFF")
        return code

    def _class(self, flags: _Flags) -> Ranges:
        """Parse the content of brackets. The opening bracket has been consumed."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self.error(f"pk nests no more than {_DEPTH_MAX} classes")
        opposite = self._take_if("^")
        found: Ranges | None = None
        while True:
            operand, mixed = self._union(flags)
            closes = self._take_if("]")
            if not closes:
                self._take(2)  # The operator &&.
            if operand is None or (mixed and not (closes and found is None)):
                raise self.error(
                    "pk supports intersections only of plain classes: write [..&&[..]]"
                )
            found = operand if found is None else _intersection(found, operand)
            if closes:
                break
        self._depth -= 1
        return _complement(found) if opposite else found

    def _union(self, flags: _Flags) -> tuple[Ranges | None, bool]:
        """Parse up to the end of the class or an intersection. Returns the characters (None if
        there are none), and whether classes and characters are mixed."""
        ranges: list[tuple[int, int]] = []
        nested = plain = 0
        while self._peek() != "]" and self._peek(2) != "&&":
            if self._take_if("["):
                ranges += self._class(flags)
                nested += 1
            else:
                ranges += self._members(flags)
                plain += 1
        if not nested and not plain:
            return None, False
        return _ranges(ranges), nested > 1 or (nested == 1 and plain > 0)

    def _members(self, flags: _Flags) -> Ranges:
        """Parse one character of a class, a range of them, or an escape for a set."""
        if self._peek() == "\\" and (found := self._set()) is not None:
            name, ranges = found
            self._check_case(name, flags)
            return _set_of(ranges, flags)
        if self._peek() in ("^", "&"):
            raise self.error("within a class, ^ and & must be escaped with a backslash")
        low = high = self._class_code()
        ends = self._peek(2)
        if ends[:1] == "-" and ends[1:] not in ("]", "[", ""):
            self._take()
            if self._peek(2) == "&&":
                raise self.error("Illegal character range")
            high = self._class_code()
            if high < low:
                raise self.error("Illegal character range")
        return _set_of(((low, high),), flags)

    def _class_code(self) -> int:
        if not self._peek():
            raise self.error("Unclosed character class")
        if self._peek() != "\\":
            return ord(self._take())
        if self._peek(2)[1:] in tuple("123456789bBAzZGRXkQE"):
            raise self.error("Illegal/unsupported escape sequence")
        if self._set() is not None:
            raise self.error("Illegal character range")
        return self._code()


def _set_of(ranges: Ranges, flags: _Flags) -> Ranges:
    return _any_case(ranges) if flags.any_case else ranges


class JavaRegex:
    """A compiled Java pattern."""

    def __init__(self, pattern: str) -> None:
        """Compile a pattern. Raises JavaRegexError."""
        if len(pattern) > _PATTERN_CHARS_MAX:
            raise JavaRegexError(f"a pattern has at most {_PATTERN_CHARS_MAX} characters")
        reader = _Reader(pattern)
        text = reader.parse()
        try:
            self._compiled = re.compile(text, re.ASCII)
        except (re.error, RecursionError, OverflowError) as e:
            raise JavaRegexError(f"pk does not support this pattern: {e}") from None
        self._names = reader.names

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self._compiled.groups

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text (`Matcher.matches`)."""
        return self._compiled.fullmatch(text) is not None

    def match_groups(self, text: str) -> tuple[str | None, ...] | None:
        """Return the text and its groups, or None if the pattern does not match the whole text."""
        found = self._compiled.fullmatch(text)
        return None if found is None else (found[0], *found.groups())

    def replacement(self, text: str) -> Replacement:
        """Parse a replacement. Raises JavaRegexError."""
        return Replacement(_replacement(text, self.groups, self._names))

    def replace(self, text: str, replacement: Replacement, *, every: bool) -> str:
        """Replace the first match or every match (`Matcher.replaceFirst`, `replaceAll`). After an
        empty match, Python's `sub` searches at the same position, but Java after it."""
        pieces: list[str] = []
        position = copied = 0
        while position <= len(text) and (match := self._compiled.search(text, position)):
            pieces.append(text[copied : match.start()])
            pieces += (
                piece if isinstance(piece, str) else match[piece] or ""
                for piece in replacement.pieces
            )
            copied = match.end()
            position = copied + (match.start() == copied)
            if not every:
                break
        return "".join((*pieces, text[copied:]))


class Replacement(NamedTuple):
    """A parsed replacement: literal text, and numbers of groups."""

    pieces: tuple[str | int, ...]


def _replacement(text: str, groups: int, names: dict[str, int]) -> tuple[str | int, ...]:
    """Parse a replacement like `Matcher.appendReplacement`: `$1` has as many digits as form the
    number of a group, `${name}` is a named group, and a backslash makes the next character
    literal."""
    pieces: list[str | int] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            if position == len(text):
                raise JavaRegexError("character to be escaped is missing")
            pieces.append(text[position])
            position += 1
        elif char == "$":
            number, position = _group_named(text, position, groups, names)
            pieces.append(number)
        else:
            pieces.append(char)
    return tuple(pieces)


def _group_named(text: str, position: int, groups: int, names: dict[str, int]) -> tuple[int, int]:
    """Return the number of the group after a `$`, and the end of its name."""
    if text.startswith("{", position):
        found = _NAME.match(text, position + 1)
        if found is None or not text.startswith("}", found.end()):
            raise JavaRegexError("named capturing group is missing trailing '}'")
        if found[0] not in names:
            raise JavaRegexError(f"No group with name {{{found[0]}}}")
        return names[found[0]], found.end() + 1
    digits = re.compile("[0-9]+").match(text, position)
    if digits is None:
        raise JavaRegexError("Illegal group reference: a $ needs a number, {name}, or \\ before it")
    end = position + 1
    number = int(text[position])
    if number > groups:
        raise JavaRegexError(f"No group {number}")
    while end < digits.end() and number * 10 + int(text[end]) <= groups:
        number = number * 10 + int(text[end])
        end += 1
    return number, end
