"""Turns bytes from a terminal into keys: `a`, `enter`, `up`, `page-down`. Pure; `flush` ends a wait
after a lone escape.

prompt-toolkit's key parser was tried. It returns a sequence that it does not know as single
letters, so an odd function key (`ESC [ 1 ; 9 P`) goes back, switches to tab 1 and pauses; it waits
for ever after the start of a bracketed paste; and it takes 140 ms to import, for 25 sequences.
"""

import codecs

_SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "[H": "home",
    "[F": "end",
    "OH": "home",
    "OF": "end",
    "[1~": "home",
    "[4~": "end",
    "[7~": "home",
    "[8~": "end",
    "[5~": "page-up",
    "[6~": "page-down",
    "[3~": "delete",
    "[Z": "back-tab",
    "OP": "f1",
    "[11~": "f1",
    "[[A": "f1",
    "OR": "f3",
    "[13~": "f3",
    "[[C": "f3",
    "OS": "f4",
    "[14~": "f4",
    "[[D": "f4",
    "[17~": "f6",
    "[21~": "f10",
}
_SINGLE = {
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x02": "page-up",
    "\x04": "page-down",
    "\x06": "page-down",
    "\x0c": "redraw",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "clear",
}
_LONGEST = 16
"""A longer escape sequence is unknown, and skipped."""


class Keys:
    """Takes bytes in pieces of any size, and returns keys."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def waiting(self) -> bool:
        """Whether an escape has arrived that may be a key of its own or start a sequence."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete."""
        self._rest += self._decoder.decode(data)
        keys: list[str] = []
        while self._rest:
            if self._rest[0] != "\x1b":
                keys += self._plain(self._rest[0])
                self._rest = self._rest[1:]
            elif not self._escape(keys):
                break
        return keys

    def flush(self) -> list[str]:
        """The keys left when nothing more arrives: a pending escape was the escape key."""
        keys = ["escape"] if self._rest[:1] == "\x1b" and len(self._rest) == 1 else []
        self._rest = ""
        return keys

    def _plain(self, char: str) -> list[str]:
        if char in _SINGLE:
            return [_SINGLE[char]]
        return [char] if char.isprintable() else []

    def _escape(self, keys: list[str]) -> bool:
        """Takes off one sequence; False if it is incomplete."""
        rest = self._rest[1:]
        if not rest:
            return False
        if rest[0] not in "[O":
            keys.append("escape")
            self._rest = rest
            return True
        for end in range(2, min(len(rest), _LONGEST) + 1):
            word = rest[:end]
            last = word[-1]
            if word in _SEQUENCES or (last.isalpha() or last == "~"):
                if name := _SEQUENCES.get(word):
                    keys.append(name)
                self._rest = rest[end:]
                return True
        if len(rest) >= _LONGEST:
            self._rest = ""
        return False
