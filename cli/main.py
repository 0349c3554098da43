"""The entry point. Help and completion are answered from the command tree alone; what a command needs is imported when it
runs, trio among it. `tests/cli/test_startup.py` counts what is imported.
"""

import sys

from pk.cli.runtime.interruption import die_at_exit_of_interrupt, end_on_interrupt

TYPE_CHECKING = False  # `typing` takes longer to import than all that is imported here
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pk.cli.command_line.errors import UsageError


def main(argv: "Sequence[str] | None" = None) -> int:
    """Runs one command line and returns the process's exit code. Without `argv` it is the process's own, and so are standard
    output and Ctrl-C, of which the process then dies at its exit."""
    if argv is not None:
        return _run(list(argv))
    end_on_interrupt()
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_closed()
    _write_whole()
    return die_at_exit_of_interrupt(_flushed(_run(sys.argv[1:])))


def _run(words: list[str]) -> int:
    from pk.cli.runtime.exits import Exit

    if sys.platform == "win32":
        sys.stderr.write("pk runs on Linux and macOS; on Windows, run it inside WSL.\n")
        return Exit.FAILED
    if words[:1] == ["__complete"]:
        from pk.cli.command_line.completion.outside_shell import answer

        return _print(answer(words[1:], fetch=True))
    if words[:1] == ["__refresh"]:
        from pk.cli.command_line.completion.name_refresh import refresh

        return refresh()
    from pk.cli.command_line.errors import UsageError
    from pk.cli.command_line.parse import parse

    try:
        parsed = parse(words)
    except UsageError as e:
        return usage(e)
    if not parsed.path and parsed.values["version"]:
        return _print(_version())
    if parsed.wants_help:
        from pk.cli.command_line.help import help_text

        return _print(help_text(parsed.node, parsed.typed))
    from pk.cli.run import run_command

    return run_command(parsed)


def _version() -> str:
    """What a report of a bug has to say: pk, Python and platform, on one line."""
    import os

    from pk.core import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    system = os.uname()
    return (
        f"pk {__version__} (Python {python}, {system.sysname} {system.release} {system.machine})\n"
    )


def _open_closed() -> None:
    """Puts nothing where a standard stream was closed (`>&-`): no file or socket of ours is to take its number."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process is


def _write_whole() -> None:
    """Has standard output write all it is given. With PYTHONUNBUFFERED it is a raw file, which writes but a part when a
    signal comes, and nobody looks how much that was."""
    import io

    old = sys.stdout
    if isinstance(old.buffer, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(old.buffer),
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=True,
        )


def _print(text: str) -> int:
    from pk.cli.runtime.exits import Exit

    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except OSError as e:
        drop_output()
        sys.stderr.write(f"{e.strerror}.\n")
        return Exit.FAILED
    return Exit.OK


def _flushed(code: int) -> int:
    """Writes what is left of standard output; the exit code. Left to the interpreter, a disk that is full (which has been
    told) would be told once more, by a traceback."""
    if code == 0:
        return _print("")
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
    return code


def usage(error: "UsageError") -> int:
    """Says what is wrong with the command line."""
    from pk.cli.runtime.exits import Exit

    help_words = " ".join(("pk", *error.path, "--help"))
    text = f"{error}.  (`{help_words}` shows what there is.)".replace("?.  ", "?  ")
    if sys.stderr.isatty():
        from pk.cli.terminal.streams import Streams

        text = Streams().folded(text.replace(".  (", ". (").replace("?  (", "? ("))
    sys.stderr.write(f"{text}\n")
    return Exit.USAGE


def drop_output() -> None:
    """Sends what is left of standard output nowhere: its reader has gone, which is no error."""
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    sys.exit(main())
