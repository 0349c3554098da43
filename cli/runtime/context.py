"""What a running command has at hand: its arguments, the cluster, and the places where it may write.

Data goes to `show`, `show_document` and `write` (standard output); everything else to `say` (standard error).
"""

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pk.cli.command_line.parsed import Values
from pk.cli.output.formats import (
    Column,
    Document,
    Listing,
    OutputOptions,
    check_format,
    narrow,
    render,
    render_document,
)
from pk.cli.runtime.exits import Exit, Refused
from pk.cli.runtime.settings import Settings, settings_of
from pk.cli.terminal.status import StatusLine
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.styles import styled
from pk.cli.terminal.text import escaped_bytes, escaped_lines

if TYPE_CHECKING:
    from pk.cli.command_line.option_sets import Change, Reach, Watch
    from pk.cli.command_line.option_sets import Listing as ListingOptions
    from pk.cli.runtime.session import Session
    from pk.core.values import TopicPartition
    from pk.net.client.admin import Admin
    from pk.net.client.config import ClientConfig

OptionSet = TypeVar("OptionSet")
"""A set of options: a dataclass of `pk.cli.command_line.option_sets`."""


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
        """The kind of client that -X is for, where it is not the admin client."""

        self.failures: list[BaseException] = []
        self.spoke = False
        """Whether anything was written, said or asked yet."""

        self._status = StatusLine(streams)
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The cluster to talk to. Raises CommandError where the profile or the file named is no good."""
        if self._settings is None:
            self._settings = settings_of(self.connection)
        return self._settings

    def use(self, settings: Settings) -> None:
        """Talks to this cluster, whatever the environment says: the shell's own."""
        self._settings = settings

    def for_cluster(self, settings: Settings) -> "Context":
        """A context of the same command line that talks to another cluster."""
        other = Context(self._values, self.path, self.streams, self.session)
        other.use(settings)
        return other

    @property
    def connection(self) -> "Reach":
        """Which cluster to talk to, as the command line says it."""
        from pk.cli.command_line.option_sets import Connection

        return self._set(Connection)

    @property
    def listing(self) -> "ListingOptions":
        """How the command line says that a list is to look."""
        from pk.cli.command_line.option_sets import Listing

        return self._set(Listing)

    @property
    def change(self) -> "Change":
        """Whether the change is only tried, and whether it is made without asking."""
        from pk.cli.command_line.option_sets import Change

        return self._set(Change)

    @property
    def watch(self) -> "Watch":
        """Whether the command looks again and again."""
        from pk.cli.command_line.option_sets import Watch

        return self._set(Watch)

    def _set(self, kind: type[OptionSet]) -> OptionSet:
        """A set of options, with its defaults for a command that does not take it."""
        from pk.cli.command_line.declare import gathered

        return gathered(kind, self._values)

    def given(self, name: str) -> bool:
        """Whether an option was on the command line, for what differs from its default even where that was typed."""
        return name in self._values.given

    def takes(self, name: str) -> bool:
        """Whether the command takes an option of this name."""
        return name in self._values

    @property
    def output(self) -> OutputOptions:
        """How lists are to look. Raises Unusable."""
        values = self._values
        form = values.get("format")
        return OutputOptions(
            format=check_format(form) if form else "wide" if values.get("verbose") else "table",
            columns=values.get("columns", ()),
            sort=values.get("sort", ()),
            where=values.get("where"),
            limit=values.get("limit"),
            terminal=self.streams.out_terminal,
            colour=self.streams.colour,
            width=self.streams.width,
        )

    def write(self, data: bytes) -> None:
        """Writes data to standard output: as it is, but for what a terminal would act on."""
        self.clear_status()
        self.spoke = True
        self.streams.out.write(escaped_bytes(data) if self.streams.out_terminal else data)
        self.streams.out.flush()

    def show(self, listing: Listing) -> None:
        options = self.output
        if not listing.rows and self.failures and options.format in ("table", "wide"):
            return  # nothing came of it, as was said; its columns say no more
        self.write(render(listing, options))
        if options.where is not None:
            self._tell_why_nothing(listing, options)

    def _tell_why_nothing(self, listing: Listing, options: OutputOptions) -> None:
        """Says what may be wrong with a condition that no row meets: to programs only where it looks like a slip, since
        `state = failed` may well be what is hoped to find nothing."""
        from pk.cli.output.where import why_nothing

        if listing.rows and not narrow(listing, options).rows:
            keys = [column.key for column in listing.columns]
            rows = [{key: row.get(key) for key in keys} for row in listing.rows]
            said = why_nothing(options.where or "", rows, all_values=self.streams.err_terminal)
            if said:
                self.say(said)

    def show_nothing(self, columns: Sequence[Column]) -> None:
        """Shows an empty list to programs, where a person is told in words that there is nothing."""
        if self.output.format not in ("table", "wide"):
            self.show(Listing(columns, ()))

    def show_document(self, document: Document) -> None:
        options = self.output
        self.write(render_document(document, options))
        if options.where is not None:
            self._tell_why_nothing(document.rows, options)

    def say(self, text: str = "") -> None:
        """Writes a line to standard error; on a terminal, a sentence too long for it is parted between words. When the
        terminal is gone, what the command does last goes on."""
        self.spoke = True
        try:
            self.clear_status()
            self.streams.err.write(f"{self.painted(self.streams.folded(escaped_lines(text)))}\n")
            self.streams.err.flush()
        except OSError as e:
            if e.errno != errno.EIO:
                raise

    def show_status(self, text: str) -> None:
        """Shows what the command is doing, on the terminal that standard error is; the next word takes its place."""
        self._status.show(text)

    def clear_status(self) -> None:
        """Takes the status line away."""
        self._status.clear()

    def lend_terminal(self) -> None:
        """Leaves the terminal to another program, such as an editor: nothing is whispered over what it draws."""
        self.clear_status()
        self.spoke = True

    def fail(self, error: BaseException) -> None:
        """Notes that an item failed; the command goes on and ends with an exit code that says so."""
        self.failures.append(error)
        self.say_where(error)

    def say_where(self, error: BaseException) -> None:
        """With --debug, writes the traceback of an error to standard error; its words may be a broker's."""
        if self._values.get("debug"):
            import traceback

            self.say("".join(traceback.format_exception(error)).rstrip("\n"))

    def failed(self, error: BaseException, what: str) -> None:
        """Notes that `what` failed and says so on standard error; of a broker that is silent, once for all it knows."""
        from pk.cli.runtime.failures import sentence
        from pk.net.client.errors import ControllerSilent, Straggler, Unanswered

        if isinstance(error, ControllerSilent | Straggler | Unanswered):
            told = any(type(f) is type(error) and str(f) == str(error) for f in self.failures)
            self.fail(error)
            if not told:
                self.say(sentence(error))
            return
        self.fail(error)
        self.say(f"{what}: {sentence(error)}")

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
        # A change that is planned without what one broker knows is another change; nor is half a topic read.
        whole = self.takes("yes") or self.about is not None
        return self.session.thorough(found) if whole else found

    def allow(self) -> None:
        """Returns if the profile lets anything be changed: for commands that act without asking. Raises Refused."""
        if self.settings.guard == "readonly":
            raise Refused(
                f"{self.settings.cluster_name} is guarded as read-only; nothing was changed. "
                "--profile NAME is another profile, `pk profile edit` changes this one."
            )

    async def agree(self, question: str, *, name: str | None = None) -> None:
        """Returns if the change may be made. `name` is what a profile guarded by `type-name` wants typed.

        Raises Refused where the answer is no, where there is nobody to ask, or where the profile is read-only.
        """
        self.allow()
        guard, profile, values = self.settings.guard, self.settings.profile, self._values
        if values.get("yes") or values.get("execute") or guard == "none":
            return
        if not self.streams.in_terminal or not self.streams.err_terminal:
            raise Refused(
                "There is no terminal to ask on, so nothing was changed; -y does it without asking."
            )
        if guard == "type-name":
            several = name is None or name == self.settings.bootstrap
            wanted = profile.name if several and profile else name or "yes"
            answer = await self.ask(f"{question} Type {wanted} to go on: ")
            if answer.strip() != wanted:
                raise Refused("Nothing was changed.")
            return
        answer = await self.ask(f"{question} [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise Refused("Nothing was changed.")

    def painted(self, text: str) -> str:
        """`text` for standard error, with the cluster's name in the colour of its profile."""
        profile = self._settings.profile if self._settings else None
        if profile is None or profile.colour is None or not self.streams.err_colour:
            return text
        import re

        # Where a line was parted, the name may be too.
        name = re.escape(self.settings.cluster_name).replace(r"\ ", r"\s")
        style = f"bold {profile.colour}"
        return re.sub(name, lambda found: styled(found[0], style), text)

    async def ask(self, prompt: str) -> str:
        """A line from the terminal, waited for without holding up the loop. Empty at the end of input."""
        import trio

        self.clear_status()
        self.spoke = True
        words = prompt.rstrip(" ")
        folded = self.streams.folded(escaped_lines(words)) + prompt[len(words) :]
        self.streams.err.write(self.painted(folded))
        self.streams.err.flush()
        fd = self.streams.stdin.fileno()
        line = bytearray()
        while not line.endswith(b"\n"):
            await trio.lowlevel.wait_readable(fd)
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
"""A command: given what was typed, it does it. It returns an exit code, or None where `Context.exit` says it."""


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 topic`, `2 topics`, `1,204 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def place_name(tp: "TopicPartition") -> str:
    """A partition as `pk` writes it: `orders/0`."""
    return f"{tp.topic}/{tp.partition}"


def join(words: Sequence[str], limit: int = 8) -> str:
    """`a, b and c`; a long list is cut, saying how many more there are."""
    shown = list(words[:limit])
    if len(words) > limit:
        return f"{', '.join(shown)} and {len(words) - limit} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
