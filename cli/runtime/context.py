"""The context of a running command: its options, its cluster, and its output.

`show`, `show_document` and `write` write data to standard output; `say` writes everything else to
standard error.
"""

import errno
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pk.cli.exits import Exit, Refused
from pk.cli.options.option_values import Values
from pk.cli.output.formats import (
    Column,
    Document,
    Listing,
    OutputOptions,
    check_format,
    narrow,
    render,
    render_document,
    words_in,
)
from pk.cli.runtime.settings import Settings, settings_of
from pk.cli.terminal.status import Status
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.styles import styled
from pk.cli.terminal.text import escaped_bytes, escaped_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pk.cli.options.option_sets import Change, Reach, Watch
    from pk.cli.options.option_sets import Listing as ListingOptions
    from pk.cli.runtime.session import Session
    from pk.net.client.admin import Admin
    from pk.net.client.config import ClientConfig

OptionSet = TypeVar("OptionSet")
"""A set of options: a dataclass of `pk.cli.options.option_sets`."""


class Context:
    """One run of one command."""

    def __init__(
        self,
        values: Values,
        path: tuple[str, ...],
        streams: Streams,
        session: "Session | None" = None,
    ) -> None:
        self._values = values
        self.path = path
        self.streams = streams
        self.session = session
        self.about: type[ClientConfig] | None = None
        """The kind of client that -X is for, if not the admin client."""

        self.failures: list[BaseException] = []
        self.has_printed = False
        """Whether anything was written, said or asked."""

        self._status = Status(streams)
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the cluster. Raises CommandError if the profile or the file is
        invalid."""
        if self._settings is None:
            self._settings = settings_of(self.connection)
        return self._settings

    @property
    def chosen(self) -> Settings | None:
        """The settings of the cluster if it is already chosen, as in the shell."""
        return self._settings

    def use(self, settings: Settings) -> None:
        """Use these settings, such as those of the shell's cluster, regardless of the
        environment."""
        self._settings = settings

    def for_cluster(self, settings: Settings) -> "Context":
        """A context of the same command line for another cluster."""
        other = Context(self._values, self.path, self.streams, self.session)
        other.use(settings)
        return other

    @property
    def connection(self) -> "Reach":
        """The options that choose the cluster, as given on the command line."""
        from pk.cli.options.option_sets import Connection

        return self._set(Connection)

    @property
    def listing(self) -> "ListingOptions":
        """How to show lists, as given on the command line."""
        from pk.cli.options.option_sets import Listing

        return self._set(Listing)

    @property
    def change(self) -> "Change":
        """Whether to make the change or only show it, and whether to ask first."""
        from pk.cli.options.option_sets import Change

        change = self._set(Change)
        return replace(change, yes=False) if change.yes and self.insists else change

    @property
    def insists(self) -> bool:
        """Whether the cluster's profile requires a person to confirm each change, so that -y does
        not replace an answer."""
        return self.session is not None and self.settings.guard == "insist"

    @property
    def watch(self) -> "Watch":
        """Whether the command repeats."""
        from pk.cli.options.option_sets import Watch

        return self._set(Watch)

    def _set(self, kind: type[OptionSet]) -> OptionSet:
        """A set of options, with its defaults for a command that does not take it."""
        from pk.cli.options.parameters import gathered

        return gathered(kind, self._values)

    def given(self, name: str) -> bool:
        """Whether an option was given on the command line, even with its default value."""
        return name in self._values.given

    def takes(self, name: str) -> bool:
        """Whether the command takes an option of this name."""
        return name in self._values

    @property
    def changes(self) -> bool:
        """Whether the command changes something: if so, it takes -y."""
        return self.takes("yes")

    @property
    def output(self) -> OutputOptions:
        """How to show lists. Raises Unusable."""
        values = self._values
        form = values.get("format")
        return OutputOptions(
            format=check_format(form) if form else "wide" if values.get("verbose") else "table",
            columns=values.get("columns", ()),
            sort=values.get("sort", ()),
            where=values.get("where"),
            limit=values.get("limit"),
            terminal=self.streams.out_terminal,
            color=self.streams.color,
            width=self.streams.width,
        )

    def write(self, data: bytes) -> None:
        """Write data to standard output, unchanged except for characters that a terminal would
        interpret."""
        self.clear_status()
        self.has_printed = True
        self.streams.out.write(escaped_bytes(data) if self.streams.out_terminal else data)
        self.streams.out.flush()

    def write_page(self, text: str) -> None:
        """Write a text for people to standard output; if the terminal is not tall enough, through
        the pager. The shell pages all output itself."""
        from pk.cli.terminal.pager import paged

        if self.streams.out is not sys.stdout.buffer or not paged(text):
            self.write(text.encode())

    def show(self, listing: Listing) -> None:
        options = self.output
        if not listing.rows and self.failures and options.format in ("table", "wide"):
            return  # the failure was reported; headings alone say nothing
        self.write(render(listing, options))
        if options.where is not None:
            self._explain_empty(listing, options)

    def _explain_empty(self, listing: Listing, options: OutputOptions) -> None:
        """Print a likely mistake in a condition that no row meets. If standard error is not a
        terminal, print it only if it looks like a slip, since `state = failed` may be meant to find
        nothing."""
        from pk.cli.output.where import why_no_match

        if listing.rows and not narrow(listing, options).rows:
            keys = [column.key for column in listing.columns]
            rows = [{key: row.get(key) for key in keys} for row in listing.rows]
            words = words_in(listing.columns)
            all_values = self.streams.err_terminal
            said = why_no_match(options.where or "", rows, words, all_values=all_values)
            if said:
                self.say(said)

    def show_nothing(self, columns: Sequence[Column]) -> None:
        """Show an empty list in formats for programs; people read a sentence instead."""
        if self.output.format not in ("table", "wide"):
            self.show(Listing(columns, ()))

    def say_empty(self, text: str) -> None:
        """Tell a user at a terminal that a list is empty, since headings alone look like an
        incomplete answer."""
        if self.streams.err_terminal and self.output.format in ("table", "wide"):
            self.say(text)

    def show_document(self, document: Document) -> None:
        options = self.output
        self.write(render_document(document, options))
        if options.where is not None:
            self._explain_empty(document.rows, options)

    def say(self, text: str = "") -> None:
        """Write a line to standard error; on a terminal, wrap it between words. If the terminal has
        gone, the command continues without the line."""
        self.has_printed = True
        try:
            self.clear_status()
            self.streams.err.write(f"{self.painted(self.streams.folded(escaped_lines(text)))}\n")
            self.streams.err.flush()
        except OSError as e:
            if e.errno != errno.EIO:
                raise

    def show_status(self, text: str) -> None:
        """Show what the command is doing, if standard error is a terminal. The next output replaces
        it."""
        if self.streams.err_redraws:
            self._status.show(text)

    def draw_status(self, what: "RenderableType") -> None:
        """Show what rich can render, such as a table, as the status."""
        if self.streams.err_redraws:
            self._status.draw(what)

    def clear_status(self) -> None:
        """Remove the status."""
        self._status.clear()

    def lend_terminal(self) -> None:
        """Leave the terminal to another program, such as an editor: no status is shown over it."""
        self.clear_status()
        self.has_printed = True

    def fail(self, error: BaseException) -> None:
        """Record that an item failed. The command continues, and its exit code says so."""
        self.failures.append(error)
        self.say_where(error)

    def say_where(self, error: BaseException) -> None:
        """With --debug, write the traceback of an error to standard error, escaped, since a broker
        may have worded it."""
        if self._values.get("debug"):
            import traceback

            self.say("".join(traceback.format_exception(error)).rstrip("\n"))

    def failed(self, error: BaseException, what: str) -> None:
        """Record that `what` failed, and report it on standard error; for a broker that does not
        answer, only once."""
        from pk.cli.runtime.failures import named_sentence, sentence
        from pk.net.client.errors import ControllerSilent, Straggler, Unanswered

        if isinstance(error, ControllerSilent | Straggler | Unanswered):
            said = any(type(f) is type(error) and str(f) == str(error) for f in self.failures)
            self.fail(error)
            if not said:
                self.say(sentence(error))
            return
        self.fail(error)
        self.say(named_sentence(what, error))

    @property
    def exit(self) -> Exit:
        if not self.failures:
            return Exit.OK
        from pk.cli.runtime.failures import exit_of_rows

        return exit_of_rows(self.failures)

    async def admin(self) -> "Admin":
        """The admin client for the command's cluster; the session closes it. Raises ConfigError."""
        assert self.session is not None
        if self.about is None:
            found = await self.session.admin(self.settings)
        else:
            found = await self.session.admin(self.settings, self.about)
        # A plan without the data of one broker would be a different plan, and a topic must not be
        # read in part.
        whole = self.changes or self.about is not None
        return self.session.thorough(found) if whole else found

    def allow(self) -> None:
        """Return if the profile allows changes, for commands that act without asking. Raises
        Refused."""
        if self.settings.guard == "readonly":
            raise Refused(
                f"{self.settings.cluster_name} is read-only by its profile; nothing was changed. "
                "Use another profile with --profile NAME, or change this one with `pk profile "
                "edit`."
            )

    async def agree(self, question: str, *, name: str | None = None) -> None:
        """Return if the change may be made. `name` is the text that the user must type if the
        profile has the guard `type-name` or `insist`.

        Raises Refused if the answer is no, if there is no terminal to ask on, or if the profile is
        read-only.
        """
        self.allow()
        guard, profile, values = self.settings.guard, self.settings.profile, self._values
        unasked = values.get("yes")
        if guard == "none" or (unasked and guard != "insist"):
            return
        terminal = self.streams.in_terminal and self.streams.err_terminal
        if guard == "insist" and not terminal:
            raise Refused(
                f"Nothing was changed: the profile of {self.settings.cluster_name} requires an "
                "answer typed at a terminal, and -y is not enough."
            )
        if terminal and guard in ("type-name", "insist"):
            several = name is None or name == self.settings.bootstrap
            wanted = profile.name if several and profile else name or "yes"
            answer = await self._answer(f"{question} Type {wanted} to continue: ")
            if answer.strip() != wanted:
                raise Refused("Nothing was changed.")
            return
        await self.ask_yes(question)

    async def ask_yes(self, question: str) -> None:
        """Return if the answer is yes. Raises Refused if it is no, or if there is no terminal to
        ask on."""
        if not self.streams.in_terminal or not self.streams.err_terminal:
            raise Refused(
                "Nothing was changed: there is no terminal for the question; -y makes the change "
                "without asking."
            )
        answer = await self._answer(f"{question} [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise Refused("Nothing was changed.")

    async def _answer(self, prompt: str) -> str:
        """The answer to a question before a change. After Ctrl-C, says that nothing was changed."""
        import trio

        try:
            return await self.ask(prompt)
        except (trio.Cancelled, KeyboardInterrupt):
            self.say("\nNothing was changed.")
            raise

    def painted(self, text: str) -> str:
        """Color the cluster's name in `text`, for standard error, as its profile says."""
        profile = self._settings.profile if self._settings else None
        if profile is None or profile.color is None or not self.streams.err_color:
            return text
        import re

        # The name may be wrapped, too.
        name = re.escape(self.settings.cluster_name).replace(r"\ ", r"\s")
        style = f"bold {profile.color}"
        return re.sub(name, lambda found: styled(found[0], style), text)

    async def ask(self, prompt: str) -> str:
        """Ask, and read a line from the terminal without blocking the loop. Returns "" at the end
        of the input."""
        from pk.cli.terminal.signals import TypedBeforeInterrupt

        self.clear_status()
        self.has_printed = True
        words = prompt.rstrip(" ")
        folded = self.streams.folded(escaped_lines(words)) + prompt[len(words) :]
        self.streams.err.write(self.painted(folded))
        self.streams.err.flush()
        fd = self.streams.stdin.fileno()
        typed = TypedBeforeInterrupt(fd)
        line = bytearray()
        while not line.endswith(b"\n"):
            await typed.wait()
            try:
                data = os.read(fd, 1024)
            except OSError:  # the terminal is gone
                data = b""
            if not data:
                self.say()
                break
            line += data
        return line.decode(errors="replace").rstrip("\r\n")


Handler = Callable[[Context], Awaitable[int | None]]
"""A command: does what its options say. Returns an exit code, or None to use `Context.exit`."""
