"""The entry point. Help and completion need only the command tree; a command's imports, including
trio, happen when the command runs. `tests/cli/test_startup.py` counts the imports."""

import gc
import sys

from pk.cli.terminal.interruption import die_at_exit_of_interrupt, end_on_interrupt
from pk.cli.terminal.stdout import flushed, open_closed, print_out, write_whole

TYPE_CHECKING = False  # `typing` takes longer to import than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pk.cli.command_line.parsed import Parsed
    from pk.cli.exits import UsageError


GC_THRESHOLDS = (250_000, 10, 10)
"""The thresholds for garbage collection: new objects, collections of the youngest generation, and
so on. With Python's defaults, the collector scans all modules thirty times while they are imported,
and finds nothing; this takes an eighth of the time in which a broker starts. The imports make
105,000 objects, so the first number is above that."""


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run one command line and return the exit code.

    Without `argv`, run the command line of the process, and set up its standard output and Ctrl-C.
    An interrupt then kills the process with SIGINT at its exit.
    """
    if argv is not None:
        return _run(list(argv))
    gc.set_threshold(*GC_THRESHOLDS)
    end_on_interrupt()
    if None in (sys.stdin, sys.stdout, sys.stderr):
        open_closed()
    write_whole()
    return die_at_exit_of_interrupt(flushed(_run(sys.argv[1:])))


def _run(words: list[str]) -> int:
    from pk.cli.exits import Exit

    if sys.platform == "win32":
        sys.stderr.write("pk runs on Linux and macOS; on Windows, run it inside WSL.\n")
        return Exit.FAILED
    if words[:1] == ["__complete"]:
        from pk.cli.command_line.completion.outside_shell import answer

        return print_out(answer(words[1:], fetch=True))
    if words[:1] == ["__refresh"]:
        from pk.cli.cluster.completion_names import refresh

        return refresh()
    from pk.cli.command_line.parse import parse
    from pk.cli.exits import UsageError

    try:
        parsed = parse(words)
    except UsageError as e:
        return usage(e)
    if not parsed.path and parsed.values["version"]:
        return print_out(_version())
    say_renamed(parsed)
    if parsed.wants_help:
        from pk.cli.command_line.help import help_text
        from pk.cli.terminal.pager import paged

        text = help_text(parsed.node, parsed.typed)
        return 0 if paged(text) else print_out(text)
    from pk.cli.run import run_command

    return run_command(parsed)


def _version() -> str:
    """The version line for a bug report: pk, Python and platform, on one line."""
    import os

    from pk.core import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    system = os.uname()
    return (
        f"pk {__version__} (Python {python}, {system.sysname} {system.release} {system.machine})\n"
    )


def say_renamed(parsed: "Parsed") -> None:
    """Tell a user at a terminal the new name of a command; a script gets no message."""
    if parsed.renamed and sys.stderr.isatty():
        from pk.cli.terminal.streams import Streams

        sys.stderr.write(f"{Streams().folded(parsed.renamed)}\n")


def usage(error: "UsageError") -> int:
    """Report an invalid command line. Returns the exit code."""
    from pk.cli.exits import Exit

    help_words = " ".join(("pk", *error.path, "--help"))
    text = f"{error}. (`{help_words}` shows the usage.)".replace("?. ", "? ")
    if sys.stderr.isatty():
        from pk.cli.terminal.streams import Streams

        text = Streams().folded(text)
    sys.stderr.write(f"{text}\n")
    return Exit.USAGE


if __name__ == "__main__":
    sys.exit(main())
