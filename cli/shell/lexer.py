"""Colors for the line being typed: known and unknown commands, options, quotes, and the destination
of the output."""

import re
from collections.abc import Callable

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from pk.cli.command_line.tree import Command, Group

_TOKENS = re.compile(r"""\s+|(?:'[^']*'?|"[^"]*"?|[^\s'"])+""")
_OWN = frozenset(("use", "exit", "quit", "clear", "pk"))


class LineLexer(Lexer):
    """Uses the styles `class:command`, `unknown`, `option`, `quote`, `own` (the shell's words) and
    `output`."""

    def __init__(self, root: Group) -> None:
        self._root = root

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Part of prompt_toolkit's Lexer."""
        lines = document.lines
        return lambda number: self.styled(lines[number])

    def styled(self, line: str) -> StyleAndTextTuples:
        """The parts of a line, each with its style."""
        found: StyleAndTextTuples = []
        node: Group | Command | None = self._root
        output = False
        tokens = [m[0] for m in _TOKENS.finditer(line)]
        for i, token in enumerate(tokens):
            style = ""
            if token.isspace():
                pass
            elif output or token[0] in ">|#":
                output, style = True, "class:output"
            elif token[0] == "\\":
                style = "class:own"
            elif token[0] in "'\"":
                style = "class:quote"
            elif token[0] == "-" and len(token) > 1 and isinstance(node, Command):
                style = "class:option" if self._has(node, token) else ""
            elif isinstance(node, Group):
                child = node.child(token)
                typing = i == len(tokens) - 1
                if node is self._root and token in _OWN:
                    style, node = "class:own", node if token == "pk" else None
                elif child is not None:
                    style, node = "class:command", child
                elif not typing:
                    style, node = "class:unknown", None
            found.append((style, token))
        return found

    def _has(self, node: Command, token: str) -> bool:
        name = token.partition("=")[0]
        return any(name in option.names for option in node.options)
